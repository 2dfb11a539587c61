"""What do certificates of all versions have in common? Their seal, claim, prime and minor.

Sections 1 and 5 of the document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segre.errors import TooLargeError
from segre.referee.rejection import RejectionError
from segre.referee.shapes import distinct, items, keys, quote, whole

MOST_PARAMETERS = 20_000
MANY = 10**40


@dataclass(frozen=True, slots=True)
class Claim:
    """lower <= dimension <= upper, of a network with so many parameters."""

    parameters: int
    lower: int
    upper: int
    status: str


def canonical(value: Any) -> str:
    """The one JSON text of a value that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sha256(value: Any) -> str:
    """The hash of a value, as written in certificates."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def check_seal(document: Mapping[str, Any]) -> None:
    """Require the checksum that the rest of the document has."""
    body = {key: value for key, value in document.items() if key != "checksum"}
    if document["checksum"] != sha256(body):
        raise RejectionError("checksum: the file was altered or damaged after it was written")


def read_prime(value: Any) -> int:
    """Require a prime of the size that certificates have."""
    from flint import fmpz  # slow to import, and of no use to certificates by theorem

    prime = whole(value, "prime", (1 << 16) + 1, (1 << 31) - 1)
    if not fmpz(prime).is_prime():
        raise RejectionError(f"prime: {prime} is not a prime number")
    return prime


def read_claim(value: Any, expected: int) -> Claim:
    """Section 1: what is claimed of a network with the expected number of parameters."""
    keys(value, ("parameters", "lower", "upper", "status"), "claim")
    parameters = whole(value["parameters"], "claim.parameters", 1, MANY)
    if parameters != expected:
        raise RejectionError(f"claim.parameters: {parameters}, but the spec has {expected}")
    if parameters > MOST_PARAMETERS:
        raise TooLargeError(
            f"the certificate is of a network with {parameters} parameters; "
            f"certificates are checked up to {MOST_PARAMETERS}"
        )
    lower = whole(value["lower"], "claim.lower", 0, parameters)
    upper = whole(value["upper"], "claim.upper", 0, MANY)
    if lower > upper:
        raise RejectionError(f"claim: lower {lower} is above upper {upper}")
    status = "proved" if lower == upper else "lower-bound"
    if value["status"] != status:
        raise RejectionError(f"claim.status: {quote(value['status'])}, but it should be {status!r}")
    return Claim(parameters, lower, upper, status)


def read_rank(value: Any, gained: int, claim: Claim) -> int:
    """The rank of symmetries whose pieces add up to `gained`, which gives the upper bound."""
    rank = whole(value, "upper.rank", 0, claim.parameters)
    if rank != gained:
        raise RejectionError(f"upper.rank: {rank}, but the pieces add up to {gained}")
    if claim.upper != claim.parameters - rank:
        raise RejectionError(
            f"claim.upper: {claim.upper}, but {claim.parameters} parameters and "
            f"symmetries of rank {rank} give {claim.parameters - rank}"
        )
    return rank


def well_formed(spec: object, parameters: int) -> str:
    """The first sentence about a certificate: its form is right, and what it is about."""
    name = str(spec)
    name = name if len(name) <= 120 else name[:117] + "..."
    return (
        f"The file is complete and well formed, and describes {name} with {parameters} parameters."
    )


def read_places(
    value: Any, claim: Claim, inputs: int, outputs: int
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Section 5: the rows and columns of a minor, of so many inputs and outputs."""
    rows = []
    for i, row in enumerate(items(value["rows"], "lower.rows", claim.lower)):
        n, o = items(row, f"lower.rows[{i}]", 2)
        n = whole(n, f"lower.rows[{i}][0]", 0, inputs - 1)
        rows.append((n, whole(o, f"lower.rows[{i}][1]", 0, outputs - 1)))
    columns = [
        whole(column, f"lower.columns[{i}]", 0, claim.parameters - 1)
        for i, column in enumerate(items(value["columns"], "lower.columns", claim.lower))
    ]
    distinct(rows, "lower.rows")
    distinct(columns, "lower.columns")
    return tuple(rows), tuple(columns)
