"""Networks with monomial activations: theorem V (one hidden layer), K (filters), M (linear)."""

from __future__ import annotations

from collections.abc import Iterator

from segre.polynomial.bounds import bound, sums_of_powers
from segre.polynomial.spec import Polynomial
from segre.theorems.theorem import Hypothesis, Theorem

_SCALES = "scales of hidden units"
_REST = "weights with the same sum of powers"


def _misfits(spec: Polynomial, kind: str, *, linear: bool | None) -> Iterator[str]:
    if spec.kind != kind:
        yield "convolutions" if spec.convolutional else "dense layers"
    if linear is not None and (spec.degree == 1) != linear:
        yield f"degree {spec.degree}"


def _veronese_misfits(spec: Polynomial) -> tuple[str, ...]:
    found = list(_misfits(spec, "poly", linear=False))
    if spec.bias:
        found.append("biases")
    if spec.depth != 2:
        found.append(f"{spec.depth} layers")
    if spec.widths[-1] != 1:
        found.append(f"{spec.widths[-1]} outputs")
    return tuple(found)


def _degree(name: str, spec: Polynomial, least: int) -> tuple[Hypothesis, ...]:
    return (Hypothesis(name, f"degree >= {least}", spec.degree, ">=", least),)


def _veronese_symmetries(spec: Polynomial) -> dict[str, int]:
    n, m, _ = spec.widths
    return {_SCALES: m, _REST: m * n - sums_of_powers(n, spec.degree, m)}


def _linear_symmetries(spec: Polynomial) -> dict[str, int]:
    return {"factorisations of one linear map": spec.parameters - bound(spec).value}


def _filter_symmetries(spec: Polynomial) -> dict[str, int]:
    shared = (spec.depth - 1) * (spec.bias and spec.degree == 1)
    return {"scales of filters": spec.depth - 1, "biases against later ones": shared}


V = Theorem(
    "V",
    "polynomial networks with one hidden layer and one output",
    _veronese_misfits,
    lambda spec: _degree("V1", spec, 2),
    _veronese_symmetries,
    ("Alexander-Hirschowitz",),
)
M = Theorem(
    "M",
    "linear networks",
    lambda spec: tuple(_misfits(spec, "poly", linear=True)),
    lambda spec: _degree("M1", spec, 1),
    _linear_symmetries,
)
K = Theorem(
    "K",
    "convolutional networks with monomial activations",
    lambda spec: tuple(_misfits(spec, "cnn", linear=None)),
    lambda spec: _degree("K1", spec, 1),
    _filter_symmetries,
)
