"""Tensors of a model that the library holds in memory, by the names that they have in its files.

The library joins the experts of a layer: `gate_up_proj` has gates and ups, one below the other, of
all of them. What is given here are views: what is written to them, the model has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segre.models.family import Family

GATE_UP, DOWN = ".experts.gate_up_proj", ".experts.down_proj"


def as_in_files(tensors: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """The same tensors, under the names of files; those that have them already stay."""
    return dict(_named(tensors, family))


def _named(tensors: Mapping[str, Any], family: Family) -> Iterator[tuple[str, Any]]:
    for name, tensor in tensors.items():
        file = name
        for here, there in family.renamed:
            file = file.replace(here, there)
        if family.experts is None or not name.endswith((GATE_UP, DOWN)):
            yield file, tensor
            continue
        gate, up, down = family.experts
        own = file.rpartition(".")[0]
        for i, member in enumerate(tensor):
            if name.endswith(DOWN):
                yield f"{own}.{i}.{down}.weight", member
            else:
                half = len(member) // 2
                yield f"{own}.{i}.{gate}.weight", member[:half]
                yield f"{own}.{i}.{up}.weight", member[half:]
