"""Phi-3: a llama with joined tensors, one window in all layers, and partially rotary heads."""

from __future__ import annotations

from functools import partial

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.rope import rope_part
from segre.models.stored import linear
from segre.models.windows import window

# What Phi-3.5-mini divides its frequencies by, as in its config: in short inputs, and in long ones.
_SHORT = (
    "1.0 1.0199999809265137 1.0299999713897705 1.0299999713897705 1.0499999523162842 "
    "1.0499999523162842 1.0499999523162842 1.0499999523162842 1.0499999523162842 "
    "1.0699999332427979 1.0999999046325684 1.1099998950958252 1.1599998474121094 "
    "1.1599998474121094 1.1699998378753662 1.2899998426437378 1.339999794960022 "
    "1.679999828338623 1.7899998426437378 1.8199998140335083 1.8499997854232788 "
    "1.8799997568130493 1.9099997282028198 1.9399996995925903 1.9899996519088745 "
    "2.0199997425079346 2.0199997425079346 2.0199997425079346 2.0199997425079346 "
    "2.0199997425079346 2.0199997425079346 2.0299997329711914 2.0299997329711914 "
    "2.0299997329711914 2.0299997329711914 2.0299997329711914 2.0299997329711914 "
    "2.0299997329711914 2.0299997329711914 2.0299997329711914 2.0799996852874756 "
    "2.0899996757507324 2.189999580383301 2.2199995517730713 2.5899994373321533 "
    "2.729999542236328 2.749999523162842 2.8399994373321533"
)
_LONG = (
    "1.0800000429153442 1.1100000143051147 1.1399999856948853 1.340000033378601 "
    "1.5899999141693115 1.600000023841858 1.6200000047683716 2.620000123977661 "
    "3.2300000190734863 3.2300000190734863 4.789999961853027 7.400000095367432 "
    "7.700000286102295 9.09000015258789 12.199999809265137 17.670000076293945 24.46000099182129 "
    "28.57000160217285 30.420001983642578 30.840002059936523 32.590003967285156 "
    "32.93000411987305 42.320003509521484 44.96000289916992 50.340003967285156 "
    "50.45000457763672 57.55000305175781 57.93000411987305 58.21000289916992 60.1400032043457 "
    "62.61000442504883 62.62000274658203 62.71000289916992 63.1400032043457 63.1400032043457 "
    "63.77000427246094 63.93000411987305 63.96000289916992 63.970001220703125 64.02999877929688 "
    "64.06999969482422 64.08000183105469 64.12000274658203 64.41000366210938 64.4800033569336 "
    "64.51000213623047 64.52999877929688 64.83999633789062"
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
                "short_factor": [*map(float, _SHORT.split())],
                "long_factor": [*map(float, _LONG.split())],
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
