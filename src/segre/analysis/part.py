"""One part of an analysis: a question, its answer, and how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from segre.finding import ProvedBy, Status, labelled
from segre.json_data import stated
from segre.shown import Shown


def percent(part: float, whole: float, digits: int = 0) -> str:
    """A share in percent.

    >>> percent(1, 3), percent(1, 3, 2)
    ('33%', '33.33%')
    """
    return f"{100 * part / whole:.{digits}f}%"


@dataclass(frozen=True, kw_only=True)
class Part(Shown):
    """A question with its answer: a sentence or two, how it is known, and its data.

    A part without an answer has the reason for that.
    """

    status: Status
    proved_by: ProvedBy | None = None  # of what is proved
    key: str = ""  # of the question, and its title
    title: str = ""
    lead: str = ""
    how: str = ""
    command: str = ""  # what answers this question alone
    data: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()  # sentences: what else is to be said
    takeaways: Mapping[str, str] = field(default_factory=dict)  # what each plot shows
    details: Any = None  # what the data are taken from, where a page shows more of it
    reason: str = ""  # why it did not run
    failed: bool = False  # it did not run for a reason that segre did not foresee
    seconds: float = 0.0

    @property
    def label(self) -> Status:
        """How it is known, as pages show it; a proof says what kind of proof it is."""
        return labelled(self.status, self.proved_by)

    @property
    def value(self) -> Mapping[str, Any] | None:
        """The data; None if there is no answer."""
        return self.data

    @property
    def found(self) -> Mapping[str, Any]:
        """The data of a part that has an answer."""
        assert self.data is not None
        return self.data

    @property
    def lower(self) -> int | None:
        """The lower bound; None if the answer has none."""
        return (self.data or {}).get("lower")

    @property
    def upper(self) -> int | None:
        """The upper bound; None if the answer has none."""
        return (self.data or {}).get("upper")

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "key title status proved_by lead how command notes takeaways data"
        return stated(self, names, reason=self.reason or None, seconds=round(self.seconds, 3))
