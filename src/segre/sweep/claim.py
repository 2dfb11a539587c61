"""Does a claim hold for one architecture, as far as its bounds tell?

A claim about a dimension that is only known between two bounds is tried for every value it may
have: it holds if it holds for all of them, fails if it fails for all of them, and is undecided
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from segre.errors import SweepError
from segre.sweep.expression import Expression
from segre.sweep.names import with_entries
from segre.sweep.row import Row
from segre.sweep.task import UNFINISHED

Verdict = Literal["holds", "fails", "undecided", "undefined"]
_WIDEST = 2_000  # values to try


def judge(
    claim: Expression | None, fields: Mapping[str, Any], results: Mapping[str, Any]
) -> Verdict | None:
    """What the bounds say about the claim; `undefined` if the claim has no value here."""
    if claim is None:
        return None
    if results["status"] in UNFINISHED:
        return "undecided"
    names = {**with_entries(fields), **results}
    values: list[int | None] = [None]
    if claim.names & {"dimension", "redundancy"}:
        low, high = results["lower"] or 0, results["upper"]
        if high is None or high - low > _WIDEST:
            return "undecided"
        values = list(range(low, high + 1))
    answers = set()
    for value in values:
        rest = None if value is None else results["parameters"] - value
        try:
            answers.add(claim.holds({**names, "dimension": value, "redundancy": rest}))
        except SweepError:
            return "undefined"
    return "undecided" if len(answers) == 2 else "holds" if answers == {True} else "fails"


def judged(row: Row, claim: Expression | None) -> Row:
    """A row with what its bounds say about the claim."""
    return replace(row, claim=judge(claim, row.fields, row.results()))
