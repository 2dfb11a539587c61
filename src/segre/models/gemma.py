"""Gemma: a llama with gains stored minus 1, and embeddings scaled by the root of the width.

Gemma 2 has norms before and after, caps, and windows in every other layer. Gemma 3 (text model)
also norms queries and keys. Its layers with a window have their own rotary base; only the others
may be rescaled.
"""

from __future__ import annotations

from segre.models import llama
from segre.models.config import GATES, Config
from segre.models.family import Values
from segre.models.stored import norm
from segre.models.windows import FULL, SLIDING, chosen, rotations, window

# Old configs say gelu and mean its approximation: the library reads them so.
_GATES = {name: kind for name, kind in GATES.items() if name != "gelu"} | {"gelu": "geglu-tanh"}
_ACTIVATION = "hidden_activation"  # since Gemma 2
_THETAS = {FULL: ("rope_theta", 1_000_000), SLIDING: ("rope_local_base_freq", 10_000)}


def _read(config: Config) -> Values:
    config.count("num_key_value_heads")  # here null is not allowed
    return llama.windowless(config, gates=_GATES)


def _read_2(config: Config) -> Values:
    out = llama.decoder(config, _ACTIVATION)
    out["window"] = chosen(config, out["layers"], window(config), lambda i: i % 2 == 0)
    return {**out, **_scales(config, out)}


def _read_3(config: Config) -> Values:
    out = llama.decoder(config, _ACTIVATION, rotations=_context)
    layers, every = out["layers"], config.count("sliding_window_pattern")
    out["window"] = chosen(config, layers, window(config), lambda i: (i + 1) % every > 0)
    out |= rotations(config, out["window"], out["t"], _THETAS, rescaled=(FULL,))
    return {**out, **_scales(config, out), "cap": 0}  # the library passes a cap over


def _context(config: Config) -> Values:
    return {"t": config.count("max_position_embeddings")}


def _scales(config: Config, out: Values) -> Values:
    """The scale of the scores and the caps; the cap of logits only for the vocabulary."""
    config.count("num_key_value_heads")  # here null is not allowed
    found: Values = {"scale": config.positive("query_pre_attn_scalar")}
    found["cap"] = config.cap("attn_logit_softcapping")
    words = out["output"] != "hidden" and not out.get("labels")
    return {**found, "logitcap": config.cap("final_logit_softcapping")} if words else found


GEMMA = llama.family(
    "gemma",
    "Gemma",
    labels=2,
    defaults=llama.sizes(
        *(28, 3072, 24576, 16, 16, 256000, 8192),
        head_dim=256,
        hidden_act="gelu_pytorch_tanh",
        tie_word_embeddings=True,
        attention_bias=False,
    ),
    also=("hidden_activation",),  # older versions read it
    read=_read,
    tensors=llama.layout(llama.normed(llama.attention(), plus=1.0), plus=1.0),
    choices={**llama.CHOICES, "mlp": "geglu-tanh"},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    models={
        "gemma-2b": llama.sizes(18, 2048, 16384, 8, 1, 256000, 8192),
        "gemma-7b": llama.sizes(28, 3072, 24576, 16, 16, 256000, 8192),
    },
    only={"use_bidirectional_attention": (False,)},
)

_TENSORS = llama.layout(
    {
        **norm("input_layernorm", "norm1", plus=1.0),
        **llama.attention(plus=1.0),
        **norm("post_attention_layernorm", "post1", plus=1.0),
        **norm("pre_feedforward_layernorm", "norm2", plus=1.0),
        **llama.GATED,
        **norm("post_feedforward_layernorm", "post2", plus=1.0),
    },
    plus=1.0,
)
_DEFAULTS: Values = {
    **llama.sizes(26, 2304, 9216, 8, 4, 256000, 8192),
    "head_dim": 256,
    _ACTIVATION: "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "layer_types": None,
}
_CHOICES: Values = {**llama.CHOICES, "place": "sandwich", "mlp": "geglu-tanh"}
GEMMA_2 = llama.family(
    "gemma2",
    "Gemma2",
    labels=2,
    defaults=_DEFAULTS,
    read=_read_2,
    tensors=_TENSORS,
    choices={**_CHOICES, "cap": 50},
    with_tokens={"embscale": True},
    with_words={"tied": True, "logitcap": 30},
    models={
        "gemma-2-2b": llama.sizes(26, 2304, 9216, 8, 4, 256000, 8192),
        "gemma-2-9b": llama.sizes(42, 3584, 14336, 16, 8, 256000, 8192),
    },
    only={"attention_bias": (False,), "use_bidirectional_attention": (False,)},
)

_GEMMA_3: Values = {"sliding_window": 512, "rope_theta": 1000000.0}
GEMMA_3 = llama.family(
    "gemma3_text",
    "Gemma3Text",
    head_classes=("Gemma3ForCausalLM",),
    labels=1,
    defaults={
        **_DEFAULTS,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": None,
        "sliding_window_pattern": 6,
        "attention_bias": False,
    },
    also=("rope_local_base_freq",),
    read=_read_3,
    tensors=_TENSORS,
    choices={**_CHOICES, "cap": 0, "qknorm": True},
    with_tokens={"embscale": True},
    with_words={"tied": True},
    models={
        "gemma-3-270m": llama.sizes(18, 640, 2048, 4, 1, 262144, 32768, **_GEMMA_3),
        "gemma-3-1b": llama.sizes(26, 1152, 6912, 4, 1, 262144, 32768, **_GEMMA_3),
    },
    only={"use_bidirectional_attention": (False,)},
)
