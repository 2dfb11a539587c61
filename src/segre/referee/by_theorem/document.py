"""Is this a certificate by theorem, and is it well formed? Section 1.

Nothing is compared here with what the architecture has: that is `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from segre.errors import SpecError
from segre.polynomial.spec import Polynomial
from segre.referee.by_theorem.designs import NAMES, Spec
from segre.referee.by_theorem.hypotheses import Hypothesis
from segre.referee.claims import MANY, Claim, canonical, check_seal, sha256
from segre.referee.rejection import RejectionError
from segre.referee.shapes import check_fractions, items, keys, quote, whole
from segre.spec import Network
from segre.transformer.spec import Transformer

KEYS = ("format", "version", "spec", "digest", "claim", "theorem", "checksum")
MOST_ENTRIES = 64  # more than any theorem lists
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate whose form is right: what it lists is still to be compared."""

    spec: Spec
    claim: Claim
    theorem: str
    hypotheses: tuple[Hypothesis, ...]
    symmetries: tuple[tuple[str, int], ...]


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, KEYS, "the certificate")
    check_seal(document)
    spec = _spec(document["spec"])
    if document["digest"] != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    claim = _claim(document["claim"])
    theorem = document["theorem"]
    keys(theorem, ("name", "hypotheses", "symmetries"), "theorem")
    name = _text(theorem["name"], "theorem.name")
    if name not in NAMES:
        raise RejectionError(f"theorem.name: {quote(name)}; allowed: {', '.join(NAMES)}")
    hypotheses = _entries(theorem["hypotheses"], "theorem.hypotheses", _hypothesis)
    symmetries = _entries(theorem["symmetries"], "theorem.symmetries", _symmetry)
    return Certificate(spec, claim, name, hypotheses, symmetries)


def _spec(value: Any) -> Spec:
    if not isinstance(value, dict):
        raise RejectionError(f"spec: {quote(value)} is not an object")
    check_fractions(value)
    kind: type[Spec] = Network
    if value.get("kind") == "transformer":
        kind = Transformer
    elif value.get("kind") in ("poly", "cnn"):
        kind = Polynomial
    try:
        spec = kind.from_mapping(value)
    except SpecError as error:
        raise RejectionError(str(error)) from None
    if canonical(value) != canonical(spec.document()):
        raise RejectionError("spec: not in canonical form (defaults left out)")
    return spec


def _claim(value: Any) -> Claim:
    keys(value, ("parameters", "lower", "upper", "status"), "claim")
    parameters = whole(value["parameters"], "claim.parameters", 1, MANY)
    lower = whole(value["lower"], "claim.lower", 0, MANY)
    upper = whole(value["upper"], "claim.upper", 0, MANY)
    if value["status"] != "proved":
        raise RejectionError(f"claim.status: {quote(value['status'])}, but it should be 'proved'")
    return Claim(parameters, lower, upper, "proved")


def _entries(value: Any, where: str, read: Callable[[Any, str], Entry]) -> tuple[Entry, ...]:
    listed = items(value, where)
    if len(listed) > MOST_ENTRIES:
        raise RejectionError(f"{where}: {len(listed)} entries, but no theorem has so many")
    return tuple(read(entry, f"{where}[{i}]") for i, entry in enumerate(listed))


def _hypothesis(value: Any, where: str) -> Hypothesis:
    keys(value, ("name", "left", "relation", "right"), where)
    name = _text(value["name"], f"{where}.name")
    relation = _text(value["relation"], f"{where}.relation")
    left = whole(value["left"], f"{where}.left", -MANY, MANY)
    right = whole(value["right"], f"{where}.right", -MANY, MANY)
    return Hypothesis(name, left, relation, right)


def _symmetry(value: Any, where: str) -> tuple[str, int]:
    keys(value, ("name", "dimension"), where)
    name = _text(value["name"], f"{where}.name")
    return name, whole(value["dimension"], f"{where}.dimension", 1, MANY)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RejectionError(f"{where}: {quote(value)} is not a string")
    return value
