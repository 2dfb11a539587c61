"""Qwen3-Next, full-attention layers only: gated heads, and experts with a gated shared expert.

Layers of linear attention (the gated delta rule) are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from segre.errors import SpecError
from segre.models import experts, llama, qwen3_moe
from segre.models.config import Config
from segre.models.family import Family, Names, Stored, Values, decoder_labels, linear, norm
from segre.models.rope import rope_part
from segre.models.windows import FULL
from segre.transformer.spec import Transformer
from segre.transformer.tensors import routed
from segre.values import choice, quote, show

LINEAR = "linear_attention"
PART = 0.25  # of a head turns, where nothing is said
EVERY = 4  # so many layers have one of full attention, where nothing is said


def _read(config: Config) -> Values:
    _require_full(config)
    part = rope_part({"partial_rotary_factor": PART, **config.given})
    turns = partial(_turns, part=part)
    out = llama.decoder(config, turns=turns)
    out["rotary"] = _turning(out["head"], part)
    out["bias"] = "attn" if config.flag("attention_bias") else "none"
    found = qwen3_moe.routing(config, out)
    if found["experts"]:
        found["shared"] = config.count("shared_expert_intermediate_size")
        found["sharedgate"] = True
    return found


def _turns(config: Config, part: float) -> Values:
    given = {"partial_rotary_factor": PART, **config.given}
    return llama.rotary(Config(given, config.family), part=part)


def _turning(head: int, part: float) -> int:
    turning = int(head * part)
    if turning % 2 or not turning:
        raise SpecError(
            f"partial_rotary_factor: {show(part)} of a head is {turning} of {head} dimensions; "
            "allowed: even numbers from 2"
        )
    return turning


def _require_full(config: Config) -> None:
    """Refuse layers whose attention is the gated delta rule."""
    layers = config.count("num_hidden_layers")
    key, kinds = config.get("layer_types")
    if kinds is None:
        every = config.count("full_attention_interval")
        kinds = [FULL if (i + 1) % every == 0 else LINEAR for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise SpecError(f"{key}: {quote(str(kinds))}; allowed: a list, one for each layer")
    if LINEAR in [choice(key, kind, (FULL, LINEAR)) for kind in kinds]:
        raise SpecError(
            f"{key}: {LINEAR} (gated delta rule) cannot be expressed in a spec; allowed: {FULL} "
            "in all layers"
        )


def _write(spec: Transformer) -> Values:
    rope = llama.written_rotary(spec)["rope_parameters"]
    out = {
        **llama.write_decoder(spec),
        "rope_parameters": {**rope, "partial_rotary_factor": spec.rotary / spec.head},
        "attention_bias": spec.output_bias,
        "layer_types": [FULL] * spec.layers,
        **qwen3_moe.written_routing(spec),
    }
    return out | ({"shared_expert_intermediate_size": spec.shared} if spec.experts else {})


def _tensors(spec: Transformer, part: str, _config: Config) -> Names:
    if part in ("embed", "head"):
        return llama.ends(part, plus=1.0)
    at = f"model.layers.{int(part) - 1}"
    own = f"{at}.self_attn"
    sparse = routed(spec, int(part))
    return {
        **norm(f"{at}.input_layernorm", "norm1", plus=1.0),
        **llama.attention(own, plus=1.0),
        **linear(f"{own}.q_proj", "Q", "G", by_head=True),
        **norm(f"{at}.post_attention_layernorm", "norm2", plus=1.0),
        **(_experts(spec, f"{at}.mlp") if sparse else llama.gated(f"{at}.mlp")),
    }


def _experts(spec: Transformer, at: str) -> Names:
    """One tensor for each expert, the shared expert, and its gate."""
    files = ("gate_proj", "up_proj", "down_proj")
    out = {f"{at}.gate.weight": Stored(("W_R",))}
    out |= experts.one_by_one(spec, f"{at}.experts", files)
    for name in experts.MAPS:
        out[f"{at}.shared_expert.{name}_proj.weight"] = Stored((f"S_{name}",))
    return out | {f"{at}.shared_expert_gate.weight": Stored(("S_R",))}


def _rest(given: Mapping[str, Any]) -> Values:
    """Experts, if the spec has any: with a shared expert of the same width."""
    out: Values = {}
    if given.get("experts"):
        out = experts.rest(given, 512, 10)
        shared = given.get("shared", given.get("eff") or out.get("eff", 0))
        out |= {"shared": shared, "sharedgate": bool(shared)}
    head = given.get("head")
    if isinstance(head, int) and head % 8 == 0 and given.get("pos", "rope") == "rope":
        out["rotary"] = head // 4
    return out


FAMILY = Family(
    model_type="qwen3_next",
    base_class="Qwen3NextModel",
    head_classes=("Qwen3NextForCausalLM",),
    label_classes=decoder_labels("Qwen3Next"),
    defaults={
        **llama.DEFAULTS,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "attention_bias": False,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts_per_tok": 10,
        "num_experts": 512,
        "norm_topk_prob": True,
        "mlp_only_layers": None,
        "layer_types": None,
        "full_attention_interval": EVERY,
        # of layers that are refused
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
    needs={"full_attention_interval": 1},
    also=("num_local_experts",),
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    stacked=qwen3_moe.stacked,
    choices={**llama.CHOICES, "qknorm": True, "gate": "element"},
    rest=_rest,
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
    unused=("mtp.",),
)
