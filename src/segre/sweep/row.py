"""What is a row of a store? One architecture and what was found, with a checksum.

The checksum is of the plan and of every column as it is stored, so that a row that was changed
by anything but a run, or that belongs to another sweep, is known for what it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any


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
        dimension, theorem = self.dimension, self.evidence.get("theorem")
        found = {
            "parameters": self.parameters,
            "lower": self.lower,
            "upper": self.upper,
            "closed_form": self.closed_form,
            "status": self.status,
            "dimension": dimension,
            "redundancy": None if dimension is None else self.parameters - dimension,
        }
        if theorem:
            found |= {"theorem": theorem["count"], "hypotheses": int(theorem["holds"])}
        return found

    def document(self) -> dict[str, Any]:
        """The row as plain data, for JSON."""
        return {
            "digest": self.digest,
            "spec": self.spec,
            "fields": dict(self.fields),
            **self.results(),
            "claim": self.claim,
            "evidence": dict(self.evidence),
            "seed": self.seed,
            "seconds": self.seconds,
        }

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


COLUMNS = tuple(field.name for field in fields(Row))


def checksum(plan: str, values: Sequence[Any]) -> str:
    """The checksum of plain data that belongs to a plan."""
    text = json.dumps([plan, *values], ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
