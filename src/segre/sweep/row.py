"""What is a row of a store? One architecture, what was found, whether the claim holds; a checksum.

The checksum is of the plan and of every column as it is stored, so that a row that was changed
by anything but a run, or that belongs to another sweep, is known for what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from typing import Any, Literal

from segre.errors import SweepError
from segre.json_data import stated
from segre.sweep.expression import Expression
from segre.sweep.names import with_entries

Verdict = Literal["holds", "fails", "undecided", "undefined"]
UNFINISHED = ("too-large", "failed", "died", "timed-out")  # statuses without any bounds
_WIDEST = 2_000  # values of a dimension to try


@dataclass(frozen=True)
class Row:
    """One architecture and what was found."""

    digest: str
    place: int  # in the plan's order
    spec: str
    fields: Mapping[str, Any]
    parameters: int
    lower: int | None
    upper: int | None
    closed_form: int | None
    status: str
    claim: str | None
    evidence: Mapping[str, Any]
    seed: int
    bytes: int
    seconds: float

    @property
    def dimension(self) -> int | None:
        """The dimension, where it is proved."""
        return self.lower if self.status == "proved" else None

    def results(self) -> dict[str, Any]:
        """Result fields that claims can name."""
        theorem = self.evidence.get("theorem")
        rest = None if self.dimension is None else self.parameters - self.dimension
        names = "parameters lower upper closed_form status dimension redundancy"
        found = stated(self, names, redundancy=rest)
        if theorem:
            found |= {"theorem": theorem["count"], "hypotheses": int(theorem["holds"])}
        return found

    def document(self) -> dict[str, Any]:
        """The row as plain data, for JSON."""
        first = stated(self, "digest spec fields")
        return first | self.results() | stated(self, "claim evidence seed seconds")

    def stored(self, plan: str) -> tuple[Any, ...]:
        """The columns, and their checksum in the sweep whose plan has that digest."""
        plain = {"fields": json.dumps(self.fields)}
        plain["evidence"] = json.dumps(self.evidence, sort_keys=True)
        values = [plain.get(name, value) for name, value in vars(self).items()]
        return (*values, checksum(plan, values))

    @classmethod
    def read(cls, found: Sequence[Any], plan: str | None) -> Row | None:
        """The row of such columns; None if it is not what was written.

        Without a plan, of stores without checksums, only what can be read at all is asked for.
        """
        values = list(found[: len(COLUMNS)])
        try:
            if plan is not None and checksum(plan, values) != found[len(COLUMNS)]:
                return None
            known = dict(zip(COLUMNS, values, strict=True))
            return cls(**known | {key: json.loads(known[key]) for key in ("fields", "evidence")})
        except (ValueError, TypeError, RecursionError):
            return None


def judged(row: Row, claim: Expression | None) -> Row:
    """A row with what its bounds say about the claim.

    A claim about a dimension that is only known between two bounds is tried for every value it may
    have: it holds if it holds for all of them, fails if it fails for all of them, and is undecided
    otherwise.
    """
    return replace(row, claim=None if claim is None else _verdict(row, claim))


def _verdict(row: Row, claim: Expression) -> Verdict:
    """What the bounds say; `undefined` if the claim has no value here."""
    if row.status in UNFINISHED:
        return "undecided"
    names = {**with_entries(row.fields), **row.results()}
    values: list[int | None] = [None]
    if claim.names & {"dimension", "redundancy"}:
        low, high = row.lower or 0, row.upper
        if high is None or high - low > _WIDEST:
            return "undecided"
        values = list(range(low, high + 1))
    answers = set()
    for value in values:
        rest = None if value is None else row.parameters - value
        try:
            answers.add(claim.holds({**names, "dimension": value, "redundancy": rest}))
        except SweepError:
            return "undefined"
    return "undecided" if len(answers) == 2 else "holds" if answers == {True} else "fails"


COLUMNS = tuple(field.name for field in fields(Row))


def checksum(plan: str, values: Sequence[Any]) -> str:
    """The checksum of plain data that belongs to a plan."""
    text = json.dumps([plan, *values], ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
