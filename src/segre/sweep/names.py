"""What are an architecture's fields called in expressions, and what are they?

Of a stack: l (or layers), d, a, heads, dv, t and kind. A field that every layer has of its own is
a tuple; d0, d1, ..., a1, a2, ... are its entries. Of stacks with a mechanism for every head,
`heads` are the mechanisms, as text. Of a transformer: its keys, and l. Results are
dimension, lower, upper, closed_form, parameters, redundancy and status; and, of the theorem that
covers the design, its count (theorem) and whether its hypotheses hold (hypotheses, 1 or 0).
Constraints may also ask whether there is a closed form (formula, 1 or 0).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from segre.geometry.closed_form import predicted
from segre.hybrid.spec import Hybrid
from segre.spec import Architecture, Network
from segre.theorems import apply
from segre.transformer.spec import Transformer

RESULTS = (
    *("dimension", "lower", "upper", "closed_form", "parameters", "redundancy", "status"),
    *("theorem", "hypotheses"),
)
AT_ONCE = ("parameters", "hypotheses", "formula")  # known before anything is computed
NUMBERED = ("d", "a", "heads", "dv")  # from 0 for widths, from 1 for the others
_STACK = ("kind", "l", "layers", "d", "a", "heads", "dv", "t")


def names_of_kind(stacks: bool) -> set[str]:
    """The names that every stack, or every transformer, has."""
    if stacks:
        return set(_STACK)
    return {"kind", "l", *(f.name for f in fields(Transformer) if _plain(f.default))}


def fields_of(spec: Architecture, kind: str, each: Collection[str] = ()) -> dict[str, Any]:
    """The fields of an architecture by name; those in `each` are tuples."""
    if isinstance(spec, Transformer):
        values = {f.name: getattr(spec, f.name) for f in fields(spec) if _plain(f.default)}
        return {"kind": kind, "l": spec.layers, **values}
    if isinstance(spec, Hybrid):
        ranks, inner = [(x.a, x.dv) for x in spec.layers], spec.document()["heads"]
    else:
        assert isinstance(spec, Network)
        ranks, inner = [(x.attention.a, x.attention.dv) for x in spec.layers], spec.heads_by_layer
    columns = {
        "d": spec.widths,
        "a": tuple(a for a, _ in ranks),
        "heads": tuple(inner),
        "dv": tuple(dv or 0 for _, dv in ranks),
    }
    found: dict[str, Any] = {"kind": kind, "l": spec.depth, "layers": spec.depth, "t": spec.t}
    for key, column in columns.items():
        found[key] = column if key in each else column[0]
    return found


def known_at_once(spec: Architecture) -> dict[str, int]:
    """What constraints may ask beside the fields."""
    applied = apply(spec)
    return {
        "parameters": spec.parameters,
        "hypotheses": int(applied is not None and applied.holds),
        "formula": int(predicted(spec) is not None),
    }


def with_entries(known: Mapping[str, Any]) -> dict[str, Any]:
    """The names, with those of the entries of tuples."""
    found = dict(known)
    depth = known.get("l", 0)
    for key in NUMBERED:
        first = 0 if key == "d" else 1
        column = known.get(key)
        if isinstance(column, list | tuple):
            found[key] = column = tuple(column)
        elif isinstance(depth, int) and column is not None:
            column = (column,) * (depth + 1 - first)
        for n, value in enumerate(column or (), first):
            found[f"{key}{n}"] = value
    return found


def _plain(default: Any) -> bool:
    """Whether a key of transformers holds a number, a flag or a word (no fraction, no list)."""
    if isinstance(default, tuple):
        return False
    return isinstance(default, bool | int | str) or not hasattr(default, "numerator")
