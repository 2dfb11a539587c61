"""Phi-3: a llama with joined tensors, one window in all layers, and partially rotary heads."""

from __future__ import annotations

from array import array
from functools import partial

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.rope import rope_part
from segre.models.stored import linear
from segre.models.windows import window

# What Phi-3.5-mini divides its frequencies by, in single precision: in short inputs, in long ones.
_SHORT = (
    "1 1.02 1.03 1.03 1.05 1.05 1.05 1.05 1.05 1.0699999 1.0999999 1.1099999 1.1599998 1.1599998 "
    "1.1699998 1.2899998 1.3399998 1.6799998 1.7899998 1.8199998 1.8499998 1.8799998 1.9099997 "
    "1.9399997 1.9899997 2.0199997 2.0199997 2.0199997 2.0199997 2.0199997 2.0199997 2.0299997 "
    "2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0299997 2.0799997 "
    "2.0899997 2.1899996 2.2199996 2.5899994 2.7299995 2.7499995 2.8399994"
)
_LONG = (
    "1.08 1.11 1.14 1.34 1.5899999 1.6 1.62 2.6200001 3.23 3.23 4.79 7.4 7.7000003 9.09 12.2 "
    "17.67 24.460001 28.570002 30.420002 30.840002 32.590004 32.930004 42.320004 44.960003 "
    "50.340004 50.450005 57.550003 57.930004 58.210003 60.140003 62.610004 62.620003 62.710003 "
    "63.140003 63.140003 63.770004 63.930004 63.960003 63.97 64.03 64.07 64.08 64.12 64.41 64.48 "
    "64.51 64.53 64.84"
)


def _read(config: Config) -> Values:
    part = rope_part(config.given)
    out = llama.windowless(config, rotations=partial(_rotary, part=part))
    if out["rescale"] and not out["rescale"].startswith("longrope"):
        raise SpecError(
            f"rope_type: phi3 does not support rescale={out['rescale']}; allowed: default, longrope"
        )
    rotary = int(out["head"] * part)
    if rotary < 2 or rotary % 2:
        raise SpecError(
            f"partial_rotary_factor: {part} of {out['head']} dimensions is {rotary}; "
            "allowed: even numbers from 2"
        )
    return {**out, "rotary": rotary, "window": [window(config)]}


def _rotary(config: Config, part: float) -> Values:
    """As in a llama, except for older names of longrope; the original length is always given."""
    given = dict(config.given)
    for place in ("rope_scaling", "rope_parameters"):
        rope = given.get(place)
        if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) in ("su", "yarn"):
            given[place] = {**rope, "rope_type": "longrope"}
    key = "original_max_position_embeddings"
    given[key] = config.get(key)[1]
    return llama.rotary(Config(given, config.family), part=part)


_QKV = {**linear("self_attn.qkv_proj", "Q", "K", "V"), **linear("self_attn.o_proj", "O")}
_MLP = {**linear("mlp.gate_up_proj", "gate", "up"), **linear("mlp.down_proj", "down")}
FAMILY = llama.family(
    "phi3",
    "Phi3",
    labels=2,
    defaults=llama.sizes(
        *(32, 3072, 8192, 32, None, 32064, 4096),
        original_max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        sliding_window=None,
    ),
    read=_read,
    tensors=llama.layout(llama.normed(_QKV, _MLP)),
    models={
        "phi-3-mini-4k": {"sliding_window": 2047},
        "phi-3.5-mini": {
            "max_position_embeddings": 131072,
            "rope_scaling": {
                "type": "longrope",
                "short_factor": array("f", map(float, _SHORT.split())).tolist(),
                "long_factor": array("f", map(float, _LONG.split())).tolist(),
            },
            "sliding_window": 262144,
        },
        "phi-4": llama.sizes(
            *(40, 5120, 17920, 40, 10, 100352, 16384),
            original_max_position_embeddings=16384,
            rope_theta=250000.0,
        ),
    },
)
