"""Is this a certificate of a transformer, and is it well formed? Sections 1, 2 and 6 to 9.

Nothing here computes with the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    sha256,
)
from segre.referee.document import KEYS
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import check_fractions, distinct, items, keys, quote, whole
from segre.referee.transformers.content import (
    MOST_BITS,
    BallMinor,
    Certificate,
    Contexts,
    Independence,
    ModularMinor,
    Root,
    Salts,
    Upper,
    outputs,
)
from segre.referee.transformers.modular import MOST_SALTS
from segre.referee.transformers.numbers import Radicand
from segre.referee.transformers.stages import (
    argument_count,
    minor_mod_p,
    needs_independence,
    root_counts,
    sources,
)
from segre.referee.transformers.weights import Layout
from segre.transformer.spec import Transformer

FEWEST_BITS = 64

# The largest number that a salt adds to the index of an input's entry.
_SALTED = MOST_SALTS << 40


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, (*KEYS, "roots"), "the certificate")
    check_seal(document)
    spec = _spec(document["spec"])
    if document["digest"] != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    layout = Layout(spec)
    claim = read_claim(document["claim"], layout.parameters)
    prime = read_prime(document["prime"])
    if prime % 4 != 3:
        raise RejectionError(f"prime: {prime} is not 3 mod 4")
    seed = whole(document["seed"], "seed", 0, WORD - 1)
    reader = _Reader(layout, claim, prime)
    lower = reader.lower(document["lower"])
    modular = isinstance(lower, ModularMinor)
    for key in ("independence", "roots"):
        if not modular and document[key] is not None:
            raise RejectionError(f"{key}: a ball-minor has none; it must be null")
    independence = reader.independence(document["independence"]) if modular else None
    roots = reader.roots(document["roots"]) if modular else ()
    upper = reader.upper(document["upper"])
    return Certificate(layout, claim, prime, seed, lower, independence, roots, upper)


def _spec(value: Any) -> Transformer:
    if not isinstance(value, dict) or value.get("kind") != "transformer":
        raise RejectionError("spec: certificates of version 2 are of kind 'transformer'")
    check_fractions(value)
    try:
        spec = Transformer.from_mapping(value)
    except SpecError as error:
        raise RejectionError(str(error)) from None
    if canonical(value) != canonical(spec.document()):
        raise RejectionError("spec: not in canonical form (defaults left out)")
    return spec


class _Reader:
    """Reads the parts of a certificate that depend on the architecture."""

    def __init__(self, layout: Layout, claim: Claim, prime: int) -> None:
        self.layout, self.claim, self.prime = layout, claim, prime
        self.spec = layout.spec
        self.sources = sources(self.spec)

    def salts(self, value: Any, where: str, *, short: bool = False) -> Salts:
        """Salts by source and token; if short, sources at the end may be left out."""
        given = items(value, where, None if short else self.sources)
        if len(given) > self.sources:
            raise RejectionError(f"{where}: {len(given)} sources, but there are {self.sources}")
        return tuple(
            tuple(
                whole(salt, f"{where}[{s}][{c}]", 0, MOST_SALTS - 1)
                for c, salt in enumerate(items(tokens, f"{where}[{s}]", self.spec.t))
            )
            for s, tokens in enumerate(given)
        )

    def salts_of_inputs(self, value: Any, where: str, inputs: list[int]) -> dict[int, Salts]:
        keys(value, tuple(map(str, inputs)), where)
        return {n: self.salts(value[str(n)], f"{where}.{n}") for n in inputs}

    def inputs(self) -> int:
        """How many inputs mod p there are: beyond, the random generator would wrap around."""
        return (WORD - _SALTED) // (self.spec.width_in * self.spec.t)

    def lower(self, value: Any) -> ModularMinor | BallMinor:
        kind = value.get("kind") if isinstance(value, dict) else None
        rows, columns = outputs(self.spec)
        if kind == "ball-minor":
            keys(value, ("kind", "rows", "columns", "bits", "seed"), "lower")
            t, rows_in = self.spec.t, self.spec.patch or self.spec.d
            inputs = (WORD - (1 << 41)) // t if self.spec.vocab else WORD // (rows_in * t)
            places = read_places(value, self.claim, inputs, rows * columns)
            bits = whole(value["bits"], "lower.bits", FEWEST_BITS, MOST_BITS)
            seed = whole(value["seed"], "lower.seed", 0, WORD - 1)
            return BallMinor(*places, bits, seed)
        if kind != "minor-mod-p":
            raise RejectionError("lower.kind: allowed are 'minor-mod-p' and 'ball-minor'")
        if not minor_mod_p(self.spec):
            raise RejectionError("lower.kind: a minor mod p proves nothing about this architecture")
        keys(value, ("kind", "rows", "columns", "determinant", "salts"), "lower")
        places = read_places(value, self.claim, self.inputs(), rows * columns)
        determinant = whole(value["determinant"], "lower.determinant", 1, self.prime - 1)
        used = sorted({n for n, _ in places[0]})
        salts = self.salts_of_inputs(value["salts"], "lower.salts", used)
        return ModularMinor(*places, determinant, salts)

    def independence(self, value: Any) -> Independence | None:
        if not needs_independence(self.spec):
            if value is not None:
                raise RejectionError("independence: nothing to be shown here; it must be null")
            return None
        names = ("arguments", "coordinates", "points", "salts", "determinant")
        keys(value, names, "independence")
        counts = {"arguments": argument_count(self.spec), "coordinates": self.spec.d * self.spec.t}
        for key, expected in counts.items():
            if whole(value[key], f"independence.{key}", 0, MANY) != expected:
                raise RejectionError(f"independence.{key}: {value[key]}, but there are {expected}")
        size = sum(counts.values())
        last = min(WORD // self.layout.parameters, self.inputs() // 2) - 1
        points = [
            whole(point, f"independence.points[{i}]", 0, last)
            for i, point in enumerate(items(value["points"], "independence.points", size))
        ]
        distinct(points, "independence.points")
        salts = []
        for i, pair in enumerate(items(value["salts"], "independence.salts", size)):
            where = f"independence.salts[{i}]"
            first, second = items(pair, where, 2)
            salts.append((self.salts(first, f"{where}[0]"), self.salts(second, f"{where}[1]")))
        determinant = whole(value["determinant"], "independence.determinant", 1, self.prime - 1)
        return Independence(tuple(points), tuple(salts), determinant)

    def roots(self, value: Any) -> tuple[Root, ...]:
        counts = root_counts(self.spec)
        total = sum(map(sum, counts))
        roots = []
        for i, root in enumerate(items(value, "roots", total)):
            where = f"roots[{i}]"
            keys(root, ("stage", "root", "entry", "input", "salts"), where)
            stage = whole(root["stage"], f"{where}.stage", 0, len(counts) - 1)
            number = whole(root["root"], f"{where}.root", 0, len(counts[stage]) - 1)
            entry = whole(root["entry"], f"{where}.entry", 0, counts[stage][number] - 1)
            at = whole(root["input"], f"{where}.input", 0, self.inputs() - 1)
            salts = self.salts(root["salts"], f"{where}.salts", short=True)
            roots.append(Root(Radicand(stage, number, entry), at, salts))
        distinct([root.place for root in roots], "roots")
        return tuple(roots)

    def upper(self, value: Any) -> Upper | Contexts:
        if isinstance(value, dict) and value.get("kind") == "contexts":
            keys(value, ("kind", "contexts"), "upper")
            return Contexts(whole(value["contexts"], "upper.contexts", 1, MANY))
        if isinstance(value, dict) and value.get("kind") == "within":
            return self._within(value)
        free_roots = isinstance(value, dict) and "roots" in value
        keys(value, ("kind", "rank", "salts", *["roots"] * free_roots), "upper")
        if free_roots and value["roots"] != "drawn":
            raise RejectionError(f"upper.roots: {quote(value['roots'])} is not 'drawn'")
        if free_roots and not any(map(sum, root_counts(self.spec))):
            raise RejectionError("upper.roots: this architecture has no roots")
        if value["kind"] != "symmetries":
            raise RejectionError("upper.kind: allowed are 'symmetries' and 'contexts'")
        rank = whole(value["rank"], "upper.rank", 0, self.claim.parameters)
        if self.claim.upper != self.claim.parameters - rank:
            raise RejectionError(
                f"claim.upper: {self.claim.upper}, but {self.claim.parameters} parameters and "
                f"symmetries of rank {rank} give {self.claim.parameters - rank}"
            )
        salts = self.salts_of_inputs(value["salts"], "upper.salts", [0, 1])
        return Upper(rank, salts, free_roots, self.layout)

    def _within(self, value: dict[str, Any]) -> Upper:
        """Section 11: the symmetries of an architecture that has all functions of this one."""
        keys(value, ("kind", "spec", "upper"), "upper")
        spec = self.spec
        other = _spec(value["spec"])
        if not _wider(spec, other):
            raise RejectionError("upper.spec: not one that has all functions of this spec")
        layout = Layout(other)
        claim = replace(self.claim, parameters=layout.parameters)
        found = _Reader(layout, claim, self.prime).upper(value["upper"])
        if not isinstance(found, Upper) or found.layout is not layout:
            raise RejectionError("upper.upper.kind: allowed is 'symmetries'")
        return found


def _wider(spec: Transformer, other: Transformer) -> bool:
    """Whether the second is the first with a freer table of words, as section 11 says."""
    if not spec.vocab or spec.tied or spec.pos == "learned" or spec.types or not spec.firstnorm:
        return False
    plain = {key: value for key, value in spec.document().items() if key != "embnorm"}
    if spec.embnorm and other.document() == plain:
        return True
    odd = (
        spec.embed
        or spec.dense
        or spec.window
        or len({spec.at(i) for i in range(1, spec.layers + 1)}) > 1
    )
    if spec.t > 1 or spec.layers == 1 or odd:
        return False
    return other.document() == {key: value for key, value in plain.items() if key != "layers"}
