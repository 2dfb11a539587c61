"""Is this a certificate, and is it well formed? Sections 1, 5, 6 and 7 of the document.

What cannot be read at all raises `CertificateError`; what can be read but has a wrong type,
key, range or checksum is `RejectionError`. Nothing here computes with the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segre.errors import SpecError
from segre.referee.claims import (
    MANY,
    Claim,
    canonical,
    check_seal,
    read_claim,
    read_places,
    read_prime,
    read_rank,
)
from segre.referee.dimensions import Dimensions
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import distinct, items, keys, quote, whole
from segre.spec import Network

KEYS = (
    "format",
    "version",
    "spec",
    "digest",
    "claim",
    "prime",
    "seed",
    "lower",
    "independence",
    "upper",
    "checksum",
)
_SPEC_KEYS = ("version", "kind", "d", "a", "heads", "dv", "t")


@dataclass(frozen=True, slots=True)
class Minor:
    """Section 5."""

    rows: tuple[tuple[int, int], ...]
    columns: tuple[int, ...]
    determinant: int


@dataclass(frozen=True, slots=True)
class Independence:
    """Section 6."""

    points: tuple[int, ...]
    determinant: int


@dataclass(frozen=True, slots=True)
class ListedPiece:
    """A piece of section 7.3 and how much it adds to the rank."""

    kind: str
    layer: int
    head: int | None
    dimension: int


@dataclass(frozen=True, slots=True)
class Upper:
    """Section 7: how the upper bound is argued; pieces and rank only for symmetries."""

    kind: str
    pieces: tuple[ListedPiece, ...] = ()
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate whose form is right and whose parts fit together."""

    net: Network
    dimensions: Dimensions
    claim: Claim
    prime: int
    seed: int
    minor: Minor
    independence: Independence | None
    upper: Upper


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, KEYS, "the certificate")
    check_seal(document)
    net = _spec(document["spec"])
    if document["digest"] != net.digest:
        raise RejectionError("digest: not the SHA-256 of the spec")
    claim = read_claim(document["claim"], net.parameters)
    prime = read_prime(document["prime"])
    seed = whole(document["seed"], "seed", 0, WORD - 1)
    dimensions = Dimensions.of(net)
    minor = _minor(document["lower"], net, claim, prime)
    independence = _independence(document["independence"], net, dimensions, prime)
    upper = _upper(document["upper"], net, claim)
    return Certificate(net, dimensions, claim, prime, seed, minor, independence, upper)


def _spec(value: Any) -> Network:
    if not isinstance(value, dict):
        raise RejectionError(f"spec: {quote(value)} is not an object")
    for key in value:
        if key not in _SPEC_KEYS:
            raise RejectionError(
                f"spec: the key {quote(key)} is not allowed; this certificate version covers "
                "attention stacks only"
            )
    try:
        net = Network.from_mapping(value)
    except SpecError as error:
        raise RejectionError(str(error)) from None
    if not net.plain:
        raise RejectionError("spec: certificates of version 1 are of kinds 'lightning', 'softmax'")
    if canonical(value) != canonical(net.document()):
        raise RejectionError(
            "spec: not in canonical form (one value for each layer, defaults left out)"
        )
    return net


def _minor(value: Any, net: Network, claim: Claim, prime: int) -> Minor:
    keys(value, ("kind", "rows", "columns", "determinant"), "lower")
    if value["kind"] != "minor-mod-p":
        raise RejectionError(f"lower.kind: {quote(value['kind'])} is not 'minor-mod-p'")
    outputs = net.widths[-1] * net.t
    # Beyond this the random generator would wrap around and repeat inputs.
    inputs = WORD // (net.widths[0] * net.t)
    rows, columns = read_places(value, claim, inputs, outputs)
    determinant = whole(value["determinant"], "lower.determinant", 1, prime - 1)
    return Minor(rows, columns, determinant)


def _independence(
    value: Any, net: Network, dimensions: Dimensions, prime: int
) -> Independence | None:
    if net.score == "lightning":
        if value is not None:
            raise RejectionError("independence: lightning attention has none; it must be null")
        return None
    keys(value, ("arguments", "coordinates", "points", "determinant"), "independence")
    arguments, coordinates = dimensions.distinct_scores(net), net.widths[0] * net.t
    for key, expected in (("arguments", arguments), ("coordinates", coordinates)):
        if whole(value[key], f"independence.{key}", 0, MANY) != expected:
            raise RejectionError(f"independence.{key}: {value[key]}, but there are {expected}")
    # As for the inputs of the minor: both witness streams must not wrap around.
    last = min(WORD // net.parameters, WORD // (2 * coordinates)) - 1
    points = [
        whole(point, f"independence.points[{i}]", 0, last)
        for i, point in enumerate(
            items(value["points"], "independence.points", arguments + coordinates)
        )
    ]
    distinct(points, "independence.points")
    determinant = whole(value["determinant"], "independence.determinant", 1, prime - 1)
    return Independence(tuple(points), determinant)


def _upper(value: Any, net: Network, claim: Claim) -> Upper:
    if not isinstance(value, dict) or value.get("kind") not in (
        "symmetries",
        "closed-form",
        "ambient",
    ):
        raise RejectionError("upper.kind: allowed are 'symmetries', 'closed-form' and 'ambient'")
    kind = value["kind"]
    if kind != "symmetries":
        keys(value, ("kind",), "upper")
        return Upper(kind)
    keys(value, ("kind", "pieces", "rank"), "upper")
    pieces = []
    for i, piece in enumerate(items(value["pieces"], "upper.pieces")):
        where = f"upper.pieces[{i}]"
        keys(piece, ("kind", "layer", "head", "dimension"), where)
        if not isinstance(piece["kind"], str):
            raise RejectionError(f"{where}.kind: {quote(piece['kind'])} is not a string")
        layer = whole(piece["layer"], f"{where}.layer", 1, net.depth)
        head = piece["head"]
        if head is not None:
            heads = net.layers[layer - 1].heads
            head = whole(head, f"{where}.head", 1, heads)
        gain = whole(piece["dimension"], f"{where}.dimension", 1, claim.parameters)
        pieces.append(ListedPiece(piece["kind"], layer, head, gain))
    rank = read_rank(value["rank"], sum(piece.dimension for piece in pieces), claim)
    return Upper(kind, tuple(pieces), rank)
