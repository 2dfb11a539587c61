"""GPT-NeoX (Pythia): attention parallel to the MLP, rotary positions in part of each head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.errors import SpecError
from segre.models import bert
from segre.models.config import Config
from segre.models.family import Family, Values, decoder_labels, fourfold
from segre.models.llama import rotary as rotary_keys
from segre.models.rope import rope_part
from segre.models.stored import Stored, linear, maps, norm, parts, table
from segre.values import show

PART = 0.25  # the rotary part of a head, by default


def _read(config: Config) -> Values:
    head = config.width(config.count("hidden_size"))
    if config.given.get("head_dim") not in (None, head):  # the library would rotate by it
        raise SpecError(f"head_dim: allowed: {head}, the width over the heads")
    usual = Config(_usual(config.given), config.family)
    part = rope_part(usual.given)
    rotary = int(head * part)
    if rotary % 2 or not rotary:
        raise SpecError(
            f"rotary_pct: {show(part)} of a head is {rotary} of {head} dimensions; "
            "allowed: even numbers from 2"
        )
    return {
        **config.blocks(),
        **rotary_keys(usual, part=part),
        "ff": config.count("intermediate_size"),
        "bias": "all" if config.flag("attention_bias") else "mlp-norm",
        "parallel": config.flag("use_parallel_residual"),
        "rotary": rotary,
    }


def _usual(given: Any) -> Values:
    """The keys of a config, with the keys of rotary positions under the names of other families.

    The library ignores these names outside of `rope_parameters`.
    """
    own = {"rotary_pct": PART, "rotary_emb_base": 10_000}
    own |= {key: given[key] for key in own if given.get(key) is not None}
    return {
        **given,
        **dict(zip(("partial_rotary_factor", "rope_theta"), own.values(), strict=True)),
    }


_HEAD = {**norm("gpt_neox.final_layer_norm", "norm"), "embed_out.weight": Stored(("W_U",))}
_LAYER = {
    **norm("input_layernorm", "norm1"),
    **linear("attention.query_key_value", "Q", "K", "V", by_head=True),
    **linear("attention.dense", "O"),
    **norm("post_attention_layernorm", "norm2"),
    **maps("mlp.", up="dense_h_to_4h", down="dense_4h_to_h"),
}


def _rest(given: Mapping[str, Any]) -> Values:
    """Sublayers are parallel; a quarter of a head is rotary, if it is a number of planes."""
    d, heads = given.get("d"), given.get("heads", 1)
    head = given.get("head") or (d // heads if isinstance(d, int) and isinstance(heads, int) else 0)
    out = {**fourfold(given), "parallel": given.get("mlp") != "none"}
    if isinstance(head, int) and head % 8 == 0 and given.get("pos", "rope") == "rope":
        out["rotary"] = head // 4
    return out


_CHOICES = {"norm": "layer", "mlp": "gelu", "bias": "all", "pos": "rope", "causal": True}
FAMILY = Family(
    model_type="gpt_neox",
    base_class="GPTNeoXModel",
    head_classes=("GPTNeoXForCausalLM",),
    label_classes=decoder_labels("GPTNeoX", "classifier"),
    defaults={
        **bert.sizes(44, 6144, 64, vocab_size=50432),
        "hidden_act": "gelu",
        "max_position_embeddings": 2048,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
        "attention_bias": True,
    },
    also=("rotary_pct", "rotary_emb_base", "is_decoder"),
    read=_read,
    prefix="gpt_neox.",
    tensors=parts(table("gpt_neox.embed_in", "tokens"), _HEAD, "gpt_neox.layers.{}.", _LAYER),
    choices=_CHOICES,
    rest=_rest,
    models={
        "pythia-70m": bert.sizes(6, 512, 8, vocab_size=50304),
        "pythia-160m": bert.sizes(12, 768, 12, vocab_size=50304),
        "pythia-410m": bert.sizes(24, 1024, 16, vocab_size=50304),
        "pythia-1b": bert.sizes(16, 2048, 8, vocab_size=50304),
        "pythia-1.4b": bert.sizes(24, 2048, 16, vocab_size=50304),
        "pythia-2.8b": bert.sizes(32, 2560, 32, vocab_size=50304),
        "pythia-6.9b": bert.sizes(32, 4096, 32),
        "pythia-12b": bert.sizes(36, 5120, 40, vocab_size=50688),
        "gpt-neox-20b": {"hidden_act": "gelu_fast"},
    },
    copies={"embed_out.weight": "tokens", "lm_head.weight": "tokens"},
    old_names=(("embed_out.weight", "lm_head.weight"),),
    buffers=(".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"),
)
