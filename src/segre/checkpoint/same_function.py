"""Are two networks the same function: weights of small ones, or checkpoints?"""

from __future__ import annotations

from pathlib import Path
from typing import overload

from segre.checkpoint.commands import same
from segre.checkpoint.comparison import Comparison
from segre.errors import SegreError
from segre.geometry.normal_form import TOLERANCE
from segre.geometry.same import same_function as same_weights
from segre.geometry.verdict import Comparison as SmallComparison
from segre.models import Source
from segre.weights import PolynomialWeights, Weights, read_weights

Small = Weights | PolynomialWeights


@overload
def same_function(
    one: Small, two: Small, *, tolerance: float = TOLERANCE, seed: int = 0
) -> SmallComparison: ...
@overload
def same_function(
    one: Source, two: Source, *, tolerance: float = TOLERANCE, seed: int = 0
) -> SmallComparison | Comparison: ...


def same_function(
    one: Source, two: Source, *, tolerance: float = TOLERANCE, seed: int = 0
) -> SmallComparison | Comparison:
    """Compare two networks, `one` and `two`: both small, or both checkpoints.

    Small networks are `Weights`, or .json and .npz files of them. Fractions are compared exactly;
    floats agree if they differ by at most `tolerance`, relative. Checkpoints are directories, files
    and models in memory; they are compared as by `checkpoints.same`, which knows its tolerances.

    >>> w = Weights.random("lightning/d=3,3,3/a=2/t=2", exact=True)
    >>> same_function(w, w).verdict, same_function(w, w).proved
    ('same', True)
    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     same_function(model, example(f"{folder}/other", seed=1)).verdict
    'different'
    """
    a, b = (read_weights(each) if _file_of_weights(each) else each for each in (one, two))
    if isinstance(a, Small) and isinstance(b, Small):
        return same_weights(a, b, tolerance=tolerance, seed=seed)
    if isinstance(a, Small) or isinstance(b, Small):
        raise SegreError(
            "the networks cannot be compared: one is the weights of a small network, the other a "
            "checkpoint"
        )
    return same(a, b, seed=seed)


def _file_of_weights(source: Source) -> bool:
    """Whether it is a file of weights: those of a checkpoint have other endings."""
    return isinstance(source, str | Path) and Path(source).suffix in (".json", ".npz")
