"""Networks with monomial activations: theorem V (one hidden layer), K (filters), M (linear)."""

from __future__ import annotations

from collections.abc import Callable

from segre.polynomial.bounds import bound, sums_of_powers
from segre.polynomial.spec import Polynomial
from segre.theorems.theorem import Hypothesis, Theorem

Misfits = Callable[[Polynomial], tuple[str, ...]]

_SCALES = "scales of hidden units"
_REST = "weights with the same sum of powers"


def _misfits(kind: str, *, linear: bool | None = None, one: bool = False) -> Misfits:
    """What does not fit networks of a kind, linear ones or not; `one`: with one hidden layer."""

    def found(spec: Polynomial) -> tuple[str, ...]:
        wrong = {
            "convolutions" if spec.convolutional else "dense layers": spec.kind != kind,
            f"degree {spec.degree}": linear is not None and (spec.degree == 1) != linear,
            "biases": one and spec.bias,
            f"{spec.depth} layers": one and spec.depth != 2,
            f"{spec.widths[-1]} outputs": one and spec.widths[-1] != 1,
        }
        return tuple(name for name, misfit in wrong.items() if misfit)

    return found


def _degree(least: int) -> Callable[[Polynomial], tuple[Hypothesis, ...]]:
    return lambda spec: (Hypothesis("1", f"degree >= {least}", spec.degree, ">=", least),)


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
    _misfits("poly", linear=False, one=True),
    _degree(2),
    _veronese_symmetries,
    ("Alexander-Hirschowitz",),
)
M = Theorem(
    "M",
    "linear networks",
    _misfits("poly", linear=True),
    _degree(1),
    _linear_symmetries,
)
K = Theorem(
    "K",
    "convolutional networks with monomial activations",
    _misfits("cnn"),
    _degree(1),
    _filter_symmetries,
)
