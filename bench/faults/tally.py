"""The count of one kind of fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """How often a fault was tried, and how often segre answered wrongly."""

    fault: str  # what was tried, in a few words
    tried: int
    wrong: int  # answers that are wrong, tracebacks, data lost: 0 is the only good number
    note: str = ""  # what happened instead, in a few words: "all refused, exit code 2"
