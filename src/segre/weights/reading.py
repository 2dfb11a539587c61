"""Which network does a file of weights hold: an attention stack, or a polynomial network?"""

from __future__ import annotations

from pathlib import Path

from segre.errors import SegreError, WeightsError
from segre.weights.arrays import read_arrays
from segre.weights.polynomial import PolynomialWeights, is_polynomial
from segre.weights.vector import Weights


def read_weights(path: str | Path) -> Weights | PolynomialWeights:
    """Read a .json or .npz file, or standard input (`-`)."""
    try:
        given = read_arrays(Path(path), strings=("spec",))
        return (PolynomialWeights if is_polynomial(given) else Weights).of_document(given)
    except SegreError as error:
        raise WeightsError(f"weights {str(path)!r}: {error}") from None
