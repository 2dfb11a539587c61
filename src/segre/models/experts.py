"""Routed experts: their keys in configs, and their tensors in files.

Files have one tensor for each expert, or one for all experts of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Names, Stored
from segre.transformer.spec import Transformer

MAPS = ("gate", "up", "down")


def rest(given: Mapping[str, Any], experts: int, active: int) -> Values:
    """Defaults of inline specs: the number of experts, each with the width of the MLP."""
    count = given.get("experts", experts)
    if given.get("mlp") == "none" or not isinstance(count, int) or not count:
        return {}
    wide = {"eff": given["ff"]} if given.get("ff") else {}
    return {"experts": count, "active": min(active, count), "router": "softmax", **wide}


def all_routed(config: Config, out: Values) -> Values:
    """A decoder whose MLPs are all experts weighted by a softmax."""
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
    """One tensor for each expert; `files` has the names of its maps, in the order of `MAPS`.

    `times` is the factor by which the model multiplies the outputs of experts.
    """
    out = {}
    for i in range(spec.experts):
        for file, name in zip(files, MAPS, strict=True):
            factor = times if name == "down" else 1.0
            out[f"{at}.{i}.{file}.weight"] = Stored((f"W_{name}",), member=i, times=factor)
    return out


def stacked(at: str, times: float = 1.0) -> Names:
    """All experts of a layer in one tensor, as the library holds them since version 5."""
    return {
        f"{at}.gate_up_proj": Stored(("W_gate", "W_up"), by_head=True, stacked=True),
        f"{at}.down_proj": Stored(("W_down",), stacked=True, times=times),
    }
