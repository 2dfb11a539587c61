"""What is the degree of the variety of functions of a polynomial network?

The functions are vectors of coefficients, over the complex numbers, and the variety is the closure
of those of all weights. Its degree is the number of points it has in common with a generic affine
linear space of complementary dimension. Without biases the variety is a cone, and this is also
the degree of the projective variety of functions up to scale.
"""

from __future__ import annotations

from dataclasses import dataclass

from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.models import Source
from segre.variety.answer import SECONDS, Number, number
from segre.variety.counting import points_on_slice


@dataclass(frozen=True)
class Degree(Number):
    """The degree of a function variety, and how it is known."""


def degree(
    spec: Source,
    seed: int = 0,
    *,
    seconds: float = SECONDS,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Degree:
    """The degree, by a formula where one is proved and by counting points of a random slice mod p.

    The count is a proved lower bound. If it needs more than `seconds` or `memory`, only the formula
    is used.

    >>> found = degree("cnn/k=3,2/degree=2")
    >>> found.value, found.status, found.count.functions
    (12, 'proved', 12)
    >>> found = degree("poly/3-2-1/degree=3")
    >>> found.value, found.status, found.lower
    (None, 'lower-bound', 15)
    """
    found = number(
        *(spec, "the degree of a function variety", lambda named: named.degree(), points_on_slice),
        *(seed, seconds, memory, progress),
    )
    return Degree(**vars(found))
