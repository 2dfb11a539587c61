"""A training problem and weights in a file, read without being believed.

A JSON file is {"X": ..., "Y": ..., "W_QK": ..., "W_OV": ..., "beta": ...}: nested lists of shapes
(sequences, tokens, d), (sequences, tokens, c), (heads, d, d) and (heads, d, c), and a number. A
.safetensors or .npz file has arrays of these names, beta with one entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import SegreError, WeightsError
from segre.fields.interface import Array
from segre.optimum.problem import Problem
from segre.sequence.files import read_tensors
from segre.values import quote
from segre.weights import number_array

NAMES = ("X", "Y", "W_QK", "W_OV", "beta")


def read_run(path: Path) -> tuple[Problem, Array, Array]:
    """The problem and the weights, W_QK and W_OV, of a file or of what is piped in (`-`)."""
    given, spec = read_tensors(path)
    try:
        if spec is not None or set(given) != set(NAMES):
            missing = [name for name in NAMES if name not in given]
            said = f"{missing[0]} is missing" if missing else _unknown(given)
            raise WeightsError(f"{said}; the file must hold exactly {', '.join(NAMES)}")
        numbers = {name: _floats(name, given[name]) for name in NAMES}
        if numbers["beta"].size != 1:
            raise WeightsError(f"beta has {numbers['beta'].size} entries; allowed: one number")
        problem = Problem(numbers["X"], numbers["Y"], float(numbers["beta"].reshape(-1)[0]))
        return problem, *problem.weights(numbers["W_QK"], numbers["W_OV"])
    except SegreError as error:
        raise WeightsError(f"run {str(path)!r}: {error}") from None


def _unknown(given: dict[str, Any]) -> str:
    return f"unknown name {quote(sorted(given.keys() - set(NAMES))[0])}" if given else "empty"


def _floats(name: str, value: Any) -> Array:
    """An array of float64; numbers that floats cannot hold exactly are refused."""
    array = value if isinstance(value, np.ndarray) else number_array(value, name)
    if array.dtype == object:  # whole numbers, or fractions as strings
        exact = array.reshape(-1).tolist()
        if any(one.q & (one.q - 1) or abs(one.p) >= 1 << 53 or one.q >= 1 << 53 for one in exact):
            raise WeightsError(f"{name} has a number that is no float; give floats")
        return np.array([int(one.p) / int(one.q) for one in exact]).reshape(array.shape)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise WeightsError(f"{name}: {array.dtype} is not allowed; allowed: real numbers")
    found = array.astype(np.float64)
    if array.dtype.kind in "iu" and (abs(found) >= 2.0**53).any():
        raise WeightsError(f"{name} has a number that is no float; give floats")
    if not np.isfinite(found).all():
        raise WeightsError(f"{name} has a NaN or an infinity")
    return found
