"""Small networks where a checkpoint may be given: what is one, and its hash.

The hash of the function rounds outputs at fixed inputs to a grid, as that of a checkpoint rounds
invariants. All weights of one function have it, and it needs no normal form.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from segre.checkpoint.fingerprint import ARITHMETIC, DRAWS, MARGIN, Number
from segre.fields import Real
from segre.fields.interface import Array
from segre.files import is_standard_input, shown
from segre.models import Source
from segre.network import forward
from segre.weights import PolynomialWeights, Weights, common_kind, read_weights

INPUTS = 8  # at which outputs are taken
ROUNDOFF = 2.0**-53
Small = Weights | PolynomialWeights


def small(source: Source) -> Small | None:
    """The weights of a small network; None for a checkpoint, whose files have other endings."""
    if isinstance(source, str | Path):
        given = Path(source).suffix in (".json", ".npz") or is_standard_input(source)
        return read_weights(source) if given else None
    return source if isinstance(source, Small) else None


def name_of(source: Source, weights: Small) -> str:
    """What was given, if that is a file, or else the design."""
    return shown(source) if isinstance(source, str | Path) else str(weights.spec)


def outputs_of(weights: Small, X: Array) -> tuple[Array, Array]:
    """Outputs in floats, and the effect of rounding on them, which is measured."""
    vector, _ = common_kind([weights.vector, np.zeros(0)])
    rng = np.random.default_rng(1)
    again = (vector * (1 + ROUNDOFF * rng.uniform(-1, 1, vector.shape)) for _ in range(DRAWS))
    found, *moved = (forward(Real(), weights.spec, v, X) for v in (vector, *again))
    return found, np.max([np.abs(x - found) for x in moved], axis=0)


def values_of(weights: Small) -> str:
    """A hash of all numbers."""
    numbers = ",".join(map(str, weights.vector.tolist()))
    return sha256(f"segre values 1\n{weights.spec}\n{numbers}".encode()).hexdigest()


def sizes_of(weights: Small) -> str:
    """What networks of one function have in common, in words."""
    spec = weights.spec
    kind = "polynomial" if isinstance(weights, PolynomialWeights) else "attention"
    return f"{kind}, inputs {spec.widths[0]} x {spec.t}, outputs {spec.widths[-1]}"


def numbers_of(weights: Small) -> tuple[Number, ...]:
    """Outputs at fixed inputs, by their mean size; and that."""
    shape = INPUTS, weights.spec.widths[0], weights.spec.t
    outputs, errors = outputs_of(weights, np.random.default_rng(0).standard_normal(shape))
    size = float(np.sqrt((outputs**2).mean())) or 1.0
    errors = MARGIN * np.maximum(errors / size, ARITHMETIC)
    out = [Number("outputs", "size", float(np.log2(size)), float(errors.max()))]
    for at, value in np.ndenumerate(outputs / size):
        name = f"{at[1:]} at input {at[0]}"
        out.append(Number("outputs", name, float(value), float(errors[at])))
    return tuple(out)
