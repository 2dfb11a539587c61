"""Routed experts: what configs say of them, and where they lie in files.

There each lies by itself, or all of a layer in one tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.models.config import Config
from segre.models.family import Names, Stored, Values
from segre.transformer.spec import Transformer

MAPS = ("gate", "up", "down")


def rest(given: Mapping[str, Any], experts: int, active: int) -> Values:
    """What inline specs need not say: so many experts, as wide as the MLP would be."""
    count = given.get("experts", experts)
    if given.get("mlp") == "none" or not isinstance(count, int) or not count:
        return {}
    wide = {"eff": given["ff"]} if given.get("ff") else {}
    return {"experts": count, "active": min(active, count), "router": "softmax", **wide}


def all_routed(config: Config, out: Values) -> Values:
    """A decoder, once the MLPs of all layers are experts whose shares are a softmax."""
    count = config.count("num_local_experts", "num_experts")
    active = config.count("num_experts_per_tok", largest=count)
    routed = {"ff": 0, "experts": count, "active": active, "eff": out["ff"], "router": "softmax"}
    return {**out, **routed}


def written_routed(spec: Transformer) -> Values:
    """The inverse of `all_routed`."""
    return {
        "intermediate_size": spec.eff or 1,
        "num_local_experts": spec.experts or 1,
        "num_experts_per_tok": spec.active or 1,
    }


def one_by_one(
    spec: Transformer, at: str, files: tuple[str, str, str], times: float = 1.0
) -> Names:
    """Each expert by itself; `files` has the names of its maps, in the order of `MAPS`.

    `times` is what the model multiplies the experts' outputs by.
    """
    out = {}
    for i in range(spec.experts):
        for file, name in zip(files, MAPS, strict=True):
            factor = times if name == "down" else 1.0
            out[f"{at}.{i}.{file}.weight"] = Stored((f"W_{name}",), member=i, times=factor)
    return out


def stacked(at: str, times: float = 1.0) -> Names:
    """All experts of a layer together, as the library has them in memory since its version 5."""
    return {
        f"{at}.gate_up_proj": Stored(("W_gate", "W_up"), by_head=True, stacked=True),
        f"{at}.down_proj": Stored(("W_down",), stacked=True, times=times),
    }
