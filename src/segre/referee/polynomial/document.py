"""Is this a certificate of a polynomial network, and is it well formed? Sections P1, P2, P4 to P6.

Nothing here computes with the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segre.errors import SpecError
from segre.polynomial.spec import Polynomial
from segre.referee.claims import (
    MANY,
    Claim,
    canonical,
    check_seal,
    read_claim,
    read_places,
    read_prime,
    read_rank,
    sha256,
)
from segre.referee.document import KEYS, ListedPiece, Minor
from segre.referee.polynomial.inequalities import PLACED, RULES, Step
from segre.referee.polynomial.network import parameter_count
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import items, keys, quote, whole

_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Upper:
    """Sections P5 and P6: pieces and their rank, or steps."""

    kind: str
    pieces: tuple[ListedPiece, ...] = ()
    rank: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate whose form is right and whose parts fit together."""

    spec: Polynomial
    claim: Claim
    prime: int
    seed: int
    minor: Minor
    upper: Upper


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, KEYS, "the certificate")
    check_seal(document)
    spec = read_polynomial(document["spec"])
    if document["digest"] != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    claim = read_claim(document["claim"], parameter_count(spec))
    prime = read_prime(document["prime"])
    seed = whole(document["seed"], "seed", 0, WORD - 1)
    minor = _minor(document["lower"], spec, claim, prime)
    if document["independence"] is not None:
        raise RejectionError("independence: polynomial networks have none; it must be null")
    upper = _upper(document["upper"], spec, claim)
    return Certificate(spec, claim, prime, seed, minor, upper)


def read_polynomial(value: Any) -> Polynomial:
    """The spec, which must be in its canonical form."""
    if not isinstance(value, dict) or value.get("kind") not in ("poly", "cnn"):
        raise RejectionError("spec: certificates of version 5 are of kind 'poly' or 'cnn'")
    try:
        spec = Polynomial.from_mapping(value)
    except SpecError as error:
        reason = " ".join(str(error).split())
        raise RejectionError(reason[:_LONGEST_REASON]) from None
    if canonical(value) != canonical(spec.document()):
        raise RejectionError("spec: not in canonical form")
    return spec


def _minor(value: Any, spec: Polynomial, claim: Claim, prime: int) -> Minor:
    keys(value, ("kind", "rows", "columns", "determinant"), "lower")
    if value["kind"] != "minor-mod-p":
        raise RejectionError(f"lower.kind: {quote(value['kind'])} is not 'minor-mod-p'")
    # Beyond this the random generator would wrap around and repeat inputs.
    rows, columns = read_places(value, claim, WORD // spec.widths[0], spec.widths[-1])
    return Minor(rows, columns, whole(value["determinant"], "lower.determinant", 1, prime - 1))


def _upper(value: Any, spec: Polynomial, claim: Claim) -> Upper:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in ("symmetries", "inequalities"):
        raise RejectionError("upper.kind: allowed are 'symmetries' and 'inequalities'")
    if kind == "inequalities":
        keys(value, ("kind", "steps"), "upper")
        steps = items(value["steps"], "upper.steps")
        most = 2 * len(spec.layers)
        if not 0 < len(steps) <= most:
            raise RejectionError(f"upper.steps: {len(steps)} steps; allowed: 1 to {most}")
        return Upper(kind, steps=tuple(_step(step, i, spec) for i, step in enumerate(steps)))
    keys(value, ("kind", "pieces", "rank"), "upper")
    listed = items(value["pieces"], "upper.pieces")
    pieces = tuple(_piece(one, i, spec, claim) for i, one in enumerate(listed))
    rank = read_rank(value["rank"], sum(piece.dimension for piece in pieces), claim)
    return Upper(kind, pieces, rank)


def _piece(value: Any, i: int, spec: Polynomial, claim: Claim) -> ListedPiece:
    where = f"upper.pieces[{i}]"
    keys(value, ("kind", "layer", "head", "dimension"), where)
    if not isinstance(value["kind"], str):
        raise RejectionError(f"{where}.kind: {quote(value['kind'])} is not a string")
    if value["head"] is not None:
        raise RejectionError(f"{where}.head: {quote(value['head'])}, but it should be null")
    layer = whole(value["layer"], f"{where}.layer", 1, len(spec.layers))
    gain = whole(value["dimension"], f"{where}.dimension", 1, claim.parameters)
    return ListedPiece(value["kind"], layer, None, gain)


def _step(value: Any, i: int, spec: Polynomial) -> Step:
    where = f"upper.steps[{i}]"
    rule = value.get("rule") if isinstance(value, dict) else None
    placed = isinstance(rule, str) and rule in PLACED
    keys(value, ("rule", "at", "value") if placed else ("rule", "value"), where)
    if not isinstance(rule, str) or rule not in RULES:
        raise RejectionError(f"{where}.rule: {quote(rule)}; allowed: {', '.join(RULES)}")
    most = max(len(spec.layers), spec.degree)
    at = whole(value["at"], f"{where}.at", 0, most) if placed else 0
    return Step(rule, at, whole(value["value"], f"{where}.value", 0, MANY))
