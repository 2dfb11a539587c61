"""Are the parts of a certificate well formed? Minors, witnesses, roots and symmetries.

Sections 6 to 9, for all networks that have salts. Nothing here computes with the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from segre.referee.claims import MANY, Claim, read_places
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import distinct, items, keys, quote, whole
from segre.referee.transformers.content import (
    MOST_BITS,
    BallMinor,
    Independence,
    ModularMinor,
    Root,
    Salts,
    Symmetries,
)
from segre.referee.transformers.modular import MOST_SALTS
from segre.referee.transformers.numbers import Radicand

FEWEST_BITS = 64

# The largest number that a salt adds to the index of an input's entry.
_SALTED = MOST_SALTS << 40


@dataclass(frozen=True)
class Facts:
    """What the form of a certificate depends on."""

    parameters: int
    tokens: int
    rows: int  # of an input mod p
    outputs: int
    sources: int
    real_inputs: int  # how many there are
    modular: bool  # whether a minor mod p proves anything
    arguments: int | None  # None if their independence need not be shown
    coordinates: int
    roots: list[list[int]]  # numbers of radicands, by stage and root


class Reader:
    """Reads the parts of a certificate that depend on the architecture."""

    def __init__(self, facts: Facts, claim: Claim, prime: int) -> None:
        self.facts, self.claim, self.prime = facts, claim, prime

    def salts(self, value: Any, where: str, *, short: bool = False) -> Salts:
        """Salts by source and token; if short, sources at the end may be left out."""
        sources = self.facts.sources
        given = items(value, where, None if short else sources)
        if len(given) > sources:
            raise RejectionError(f"{where}: {len(given)} sources, but there are {sources}")
        return tuple(
            tuple(
                whole(salt, f"{where}[{s}][{c}]", 0, MOST_SALTS - 1)
                for c, salt in enumerate(items(tokens, f"{where}[{s}]", self.facts.tokens))
            )
            for s, tokens in enumerate(given)
        )

    def salts_of_inputs(self, value: Any, where: str, inputs: list[int]) -> dict[int, Salts]:
        """Salts of each of some inputs."""
        keys(value, tuple(map(str, inputs)), where)
        return {n: self.salts(value[str(n)], f"{where}.{n}") for n in inputs}

    def inputs(self) -> int:
        """How many inputs mod p there are: beyond, the random generator would wrap around."""
        return (WORD - _SALTED) // (self.facts.rows * self.facts.tokens)

    def lower(self, value: Any) -> ModularMinor | BallMinor:
        """Sections 6 and 8."""
        kind = value.get("kind") if isinstance(value, dict) else None
        facts = self.facts
        if kind == "ball-minor":
            keys(value, ("kind", "rows", "columns", "bits", "seed"), "lower")
            places = read_places(value, self.claim, facts.real_inputs, facts.outputs)
            bits = whole(value["bits"], "lower.bits", FEWEST_BITS, MOST_BITS)
            seed = whole(value["seed"], "lower.seed", 0, WORD - 1)
            return BallMinor(*places, bits, seed)
        if kind != "minor-mod-p":
            raise RejectionError("lower.kind: allowed are 'minor-mod-p' and 'ball-minor'")
        if not facts.modular:
            raise RejectionError("lower.kind: a minor mod p proves nothing about this architecture")
        keys(value, ("kind", "rows", "columns", "determinant", "salts"), "lower")
        places = read_places(value, self.claim, self.inputs(), facts.outputs)
        determinant = whole(value["determinant"], "lower.determinant", 1, self.prime - 1)
        used = sorted({n for n, _ in places[0]})
        salts = self.salts_of_inputs(value["salts"], "lower.salts", used)
        return ModularMinor(*places, determinant, salts)

    def witnesses(
        self, document: Any, lower: ModularMinor | BallMinor
    ) -> tuple[Independence | None, tuple[Root, ...]]:
        """Section 7; nothing for minors in balls."""
        if isinstance(lower, ModularMinor):
            return self.independence(document["independence"]), self.roots(document["roots"])
        for key in ("independence", "roots"):
            if document[key] is not None:
                raise RejectionError(f"{key}: a ball-minor has none; it must be null")
        return None, ()

    def independence(self, value: Any) -> Independence | None:
        """Section 7: the witness of independent arguments."""
        facts = self.facts
        if facts.arguments is None:
            if value is not None:
                raise RejectionError("independence: nothing to be shown here; it must be null")
            return None
        names = ("arguments", "coordinates", "points", "salts", "determinant")
        keys(value, names, "independence")
        counts = {"arguments": facts.arguments, "coordinates": facts.coordinates}
        for key, expected in counts.items():
            if whole(value[key], f"independence.{key}", 0, MANY) != expected:
                raise RejectionError(f"independence.{key}: {value[key]}, but there are {expected}")
        size = sum(counts.values())
        last = min(WORD // facts.parameters, self.inputs() // 2) - 1
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
        """Section 7: inputs at which radicands have no roots."""
        counts = self.facts.roots
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

    def symmetries(self, value: Any, allowed: str) -> Symmetries:
        """Section 9: the rank that is claimed; `allowed` names the kinds that there are."""
        free_roots = isinstance(value, dict) and "roots" in value
        keys(value, ("kind", "rank", "salts", *["roots"] * free_roots), "upper")
        if free_roots and value["roots"] != "drawn":
            raise RejectionError(f"upper.roots: {quote(value['roots'])} is not 'drawn'")
        if free_roots and not any(map(sum, self.facts.roots)):
            raise RejectionError("upper.roots: this architecture has no roots")
        if value["kind"] != "symmetries":
            raise RejectionError(f"upper.kind: allowed {allowed}")
        rank = whole(value["rank"], "upper.rank", 0, self.claim.parameters)
        if self.claim.upper != self.claim.parameters - rank:
            raise RejectionError(
                f"claim.upper: {self.claim.upper}, but {self.claim.parameters} parameters and "
                f"symmetries of rank {rank} give {self.claim.parameters - rank}"
            )
        salts = self.salts_of_inputs(value["salts"], "upper.salts", [0, 1])
        return Symmetries(rank, salts, free_roots)
