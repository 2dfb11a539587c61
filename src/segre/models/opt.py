"""OPT: pre- or post-LayerNorm, learned positions from the third row of their table, ReLU."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from segre.errors import SpecError
from segre.models.bert import sizes
from segre.models.config import Config
from segre.models.family import Family, Labelled, Values, answers, fourfold
from segre.models.stored import Stored, maps, norm, parts, table

EPS = Fraction(1, 10**5)  # of all norms, whatever a config says
OFFSET = 2
DECODER = "model.decoder"


def _read(config: Config) -> Values:
    out, length = config.blocks(EPS), config.count("max_position_embeddings")
    d = narrow = out["d"]
    if config.get("word_embed_proj_dim")[1] is not None:
        narrow = config.count("word_embed_proj_dim")
    if narrow > d:
        raise SpecError(
            f"word_embed_proj_dim: {narrow} is wider than the stream; allowed: at most {d}"
        )
    biased, gain = config.flag("enable_bias"), config.flag("layer_norm_elementwise_affine")
    before = config.flag("do_layer_norm_before")
    return {
        **out,
        "ff": config.count("ffn_dim"),
        "gain": gain,
        "bias": "all" if biased else "norm" if gain else "none",
        "place": "pre" if before else "post",
        "final": before and not config.flag("_remove_final_layer_norm"),
        **({"embed": narrow, "project": True} if narrow < d else {}),
        "positions": length + OFFSET,
        "t": length,
    }


_EMBED = {
    **table(f"{DECODER}.embed_tokens", "tokens"),
    **table(f"{DECODER}.embed_positions", "positions"),
    f"{DECODER}.project_in.weight": Stored(("W_E",)),
}
_HEAD = {
    **norm(f"{DECODER}.final_layer_norm", "norm"),
    f"{DECODER}.project_out.weight": Stored(("W_D",)),
    "lm_head.weight": Stored(("W_U",)),
}
_LAYER = {
    **norm("self_attn_layer_norm", "norm1", "post1"),
    **maps("self_attn.", Q="q_proj", K="k_proj", V="v_proj", O="out_proj"),
    **norm("final_layer_norm", "norm2", "post2"),
    **maps("", up="fc1", down="fc2"),
}


_sizes = partial(sizes, inner="ffn_dim")
FAMILY = Family(
    model_type="opt",
    base_class="OPTModel",
    head_classes=("OPTForCausalLM",),
    label_classes=(
        Labelled("OPTForSequenceClassification", "score", "last", outbias=False),
        answers("OPT"),
    ),
    defaults={
        **_sizes(12, 768, 12, vocab_size=50272),
        "max_position_embeddings": 2048,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "word_embed_proj_dim": None,
        "enable_bias": True,
        "layer_norm_elementwise_affine": True,
        "tie_word_embeddings": True,
    },
    read=_read,
    prefix="model.",
    tensors=parts(_EMBED, _HEAD, f"{DECODER}.layers.{{}}.", _LAYER),
    choices={
        **{"norm": "layer", "mlp": "relu", "bias": "all", "pos": "learned", "causal": True},
        "offset": OFFSET,
    },
    with_words={"tied": True},
    rest=fourfold,
    models={
        "opt-125m": {},
        "opt-350m": _sizes(24, 1024, 16, word_embed_proj_dim=512, do_layer_norm_before=False),
        "opt-1.3b": _sizes(24, 2048, 32),
        "opt-2.7b": _sizes(32, 2560, 32),
        "opt-6.7b": _sizes(32, 4096, 32),
        "opt-13b": _sizes(40, 5120, 40),
        "opt-30b": _sizes(48, 7168, 56),
        "opt-66b": _sizes(64, 9216, 72),
    },
    own={"hidden_act": "activation_function"},
    copies={"lm_head.weight": "tokens"},
)
