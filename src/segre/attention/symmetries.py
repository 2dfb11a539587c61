"""What are the symmetries of attention called?

Generators and counts (symmetry/, geometry/stack_formula) take the names from here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Group = Literal["QK", "VO", "shifts", "residual"]

_GROUP_OF: dict[str, Group] = {
    "between": "residual",
    "unread": "residual",
    "unreached": "residual",
    "value-output": "VO",
    "scale": "VO",
    "pooled-heads": "VO",
    "mix-heads": "VO",
    "mix-some-heads": "VO",
    "mix-factored-heads": "VO",
    "filled": "VO",
    "zero-head": "VO",
    "zero": "VO",
    "value-filter": "VO",
    "mean": "shifts",
    "silent-bias": "shifts",
    "bias-pairs": "shifts",
    "bias-factor": "shifts",
}


class SymmetryName(NamedTuple):
    """A kind of symmetry, and its name for readers."""

    kind: str
    name: str

    @property
    def group(self) -> Group:
        """The piece of a stack's redundancy that it belongs to."""
        return group_of(self.kind)


def group_of(kind: str) -> Group:
    """The piece of a stack's redundancy that a kind of symmetry belongs to."""
    return _GROUP_OF.get(kind, "QK")


LENGTHS = SymmetryName("unit-scale", "lengths of queries and keys")
MEANS = SymmetryName("mean", "means of queries and keys")
FEATURE_ROW = SymmetryName("mean", "a row added to all features")
KEY_BIAS = SymmetryName("silent-bias", "key bias")
QUERY_BIAS = SymmetryName("silent-bias", "query bias")
SCORE_SCALE = SymmetryName("score-scale", "scale of scores")
SCALE = SymmetryName("scale", "scale of scores against values")
KEY_FILTER = SymmetryName("filter", "scale of the key filter")
VALUE_FILTER = SymmetryName("value-filter", "scale of the value filter")
UNREAD = SymmetryName("unread", "directions that no layer reads")
UNREACHED = SymmetryName("unreached", "directions that no token reaches")
POOLED = SymmetryName("pooled-heads", "differences of heads, of which only the sum matters")


def query_key(a: int, *, diagonal: bool = False) -> SymmetryName:
    """Queries against keys, by any invertible matrix, or by a diagonal one.

    >>> query_key(3).name, query_key(3, diagonal=True).name
    ('query-key basis GL(3)', 'query-key torus(3)')
    """
    return SymmetryName("query-key", f"query-key {_matrices(a, diagonal)}")


def rotations(n: int) -> SymmetryName:
    """Queries and keys turned together."""
    return SymmetryName("query-key", f"query-key rotations O({n})")


def skew_scores(a: int) -> SymmetryName:
    """Scores of which only the symmetric part counts."""
    return SymmetryName("skew-scores", f"skew part of scores, O({a},{a})")


def value_output(v: int, *, diagonal: bool = False) -> SymmetryName:
    """Values against outputs."""
    return SymmetryName("value-output", f"value-output {_matrices(v, diagonal)}")


def between(d: int, *, diagonal: bool = False) -> SymmetryName:
    """What a layer writes against what the next one reads."""
    return SymmetryName("between", f"token {_matrices(d, diagonal)}")


def _matrices(n: int, diagonal: bool) -> str:
    return f"torus({n})" if diagonal else f"basis GL({n})"
