"""What is an attention mechanism? How scores become mixing weights, and what is known of them.

The rest of the house asks for these traits and never compares names. Tests check every declared
trait on random scores, and that a trait that is not declared does fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mechanism:
    """A map from scores (row = key, column = query) to the matrix that mixes tokens.

    `pattern(field, scores, seen, used, sink)` works over any field; where there is a mask, `seen`
    has it as zeros and ones of the field and `used` as an array. With `sink` there is one more key,
    whose score is 0, and which is not mixed.
    """

    name: str
    pattern: Callable[..., Any]
    bilinear: bool = False  # the pattern is the scores themselves: keys^T queries
    exponentials: bool = False  # its values are independent exponentials, not rational functions
    sums_to_one: bool = False  # in every column: a query shares out a whole
    non_negative: bool = False
    ignores_shifts: bool = False  # of a column: one number added to all scores of a query
    closed_form: bool = False  # the dimension of one-head stacks is known by a formula

    @property
    def scales(self) -> bool:
        """Whether a factor of the scores is a factor of the pattern, for the values to undo."""
        return self.bilinear

    def silent(self, tokens: int) -> bool:
        """Whether the scores of so many tokens have no effect at all."""
        return self.sums_to_one and tokens == 1
