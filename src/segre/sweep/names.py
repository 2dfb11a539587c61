"""What are an architecture's fields called in expressions, and what are they?

Of a stack: l (or layers), d, a, heads, dv, t and kind. Of a polynomial network: l (or layers), d
or k and stride, degree, bias and kind. A field that every layer has of its own is
a tuple; d0, d1, ..., a1, a2, ... are its entries. Of stacks with a mechanism for every head,
`heads` are the mechanisms, as text. Of a transformer: its keys, and l. Results are
dimension, lower, upper, closed_form, parameters, redundancy and status; and, of the theorem that
covers the design, its count (theorem) and whether its hypotheses hold (hypotheses, 1 or 0).
Constraints may also ask whether there is a closed form (formula, 1 or 0). Of polynomial networks
`expected` is the dimension that counting parameters and forms suggests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import singledispatch
from typing import Any

from segre.architectures import Architecture
from segre.errors import SweepError
from segre.geometry.closed_form import predicted
from segre.models import STACKS
from segre.polynomial.bounds import expected
from segre.polynomial.spec import CONVOLUTIONAL, DENSE, Polynomial
from segre.spec import Network
from segre.theorems import apply
from segre.transformer.choices import KEYS as TRANSFORMER_KEYS
from segre.transformer.spec import Transformer
from segre.values import quote

COUNTS = ("dimension", "lower", "upper", "closed_form", "parameters", "redundancy")
RESULTS = (*COUNTS, "status", "theorem", "hypotheses")
AT_ONCE = ("parameters", "hypotheses", "formula")  # known before anything is computed
NUMBERED = ("d", "a", "heads", "dv", "k", "stride")  # from 0 for widths, from 1 for the others


@dataclass(frozen=True)
class Sort:
    """Architectures with the same fields: the keys of a plan, and the names in expressions."""

    name: str
    keys: tuple[str, ...]
    names: tuple[str, ...]  # beside kind and l
    needed: tuple[str, ...] = ("d",)
    each: tuple[str, ...] = ()  # those that may differ by layer

    @property
    def layered(self) -> bool:
        """Whether layers may differ from each other."""
        return bool(self.each)


_STACK = ("layers", "d", "a", "heads", "dv", "t")
_WIDTHS = ("layers", "d", "degree", "bias")
_KERNELS = ("layers", "k", "stride", "n", "degree", "bias")


def sort_of(kind: str) -> Sort:
    """The architectures of a kind."""
    if kind in STACKS:
        return Sort("stacks", _STACK, _STACK, ("d", "a", "t"), ("d", "a", "heads", "dv"))
    if kind == DENSE:
        said = (*_WIDTHS, "expected")
        return Sort("polynomial networks", _WIDTHS, said, ("d", "degree"), ("d",))
    if kind == CONVOLUTIONAL:
        names = (*_KERNELS, "expected")
        return Sort("convolutional networks", _KERNELS, names, ("k", "degree"), ("k", "stride"))
    plain = (f.name for f in fields(Transformer) if _plain(f.default))
    return Sort("transformers", TRANSFORMER_KEYS, tuple(plain))


@singledispatch
def fields_of(spec: Any, kind: str, each: Collection[str] = ()) -> dict[str, Any]:  # noqa: ARG001
    """The fields of an architecture by name; those in `each` are tuples."""
    values = {f.name: getattr(spec, f.name) for f in fields(spec) if _plain(f.default)}
    return {"kind": kind, "l": spec.layers, **values}


@fields_of.register
def _of_polynomial(spec: Polynomial, kind: str, each: Collection[str] = ()) -> dict[str, Any]:
    columns: dict[str, tuple[Any, ...]] = {
        "k": tuple(layer.kernel for layer in spec.convolutions),
        "stride": tuple(layer.stride for layer in spec.convolutions),
    }
    found = _by_layer(spec, kind, columns if spec.convolutional else {"d": spec.widths}, each)
    found |= {"degree": spec.degree, "bias": spec.bias, "expected": expected(spec)}
    return found | ({"n": spec.width_in} if spec.convolutional else {})


@fields_of.register
def _of_stack(spec: Network, kind: str, each: Collection[str] = ()) -> dict[str, Any]:
    heads = spec.heads_by_layer if spec.plain else spec.document()["heads"]
    columns = {
        "d": spec.widths,
        "a": tuple(layer.a for layer in spec.layers),
        "heads": tuple(heads),
        "dv": tuple(layer.dv or 0 for layer in spec.layers),
    }
    return {**_by_layer(spec, kind, columns, each), "t": spec.t}


def _by_layer(
    spec: Architecture, kind: str, columns: Mapping[str, tuple[Any, ...]], each: Collection[str]
) -> dict[str, Any]:
    """Fields with one value per layer: all values, or the first."""
    own = {key: column if key in each else column[0] for key, column in columns.items()}
    return {"kind": kind, "l": spec.depth, "layers": spec.depth, **own}


def known_at_once(spec: Architecture) -> dict[str, int]:
    """Names that constraints can use beside the fields."""
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


def numeric(
    points: Sequence[Mapping[str, Any]], asked: Iterable[str | None], who: str
) -> list[str]:
    """The fields that are whole numbers at every point; `asked` ones that are not are refused."""
    every = [n for n in points[0] if n != "layers" and all(type(p.get(n)) is int for p in points)]
    for name in asked:
        if name is not None and name not in every:
            raise SweepError(
                f"{who}: {quote(name)} is not a number in every row; allowed: {', '.join(every)}"
            )
    return every


def _plain(default: Any) -> bool:
    """Whether a key of transformers holds a number, a flag or a word (no fraction, no list)."""
    if isinstance(default, tuple):
        return False
    return isinstance(default, bool | int | str) or not hasattr(default, "numerator")
