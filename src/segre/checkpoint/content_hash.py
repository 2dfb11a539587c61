"""Hashes of the contents of a checkpoint: of its values, and of its function.

The hash of the values covers all tensors, independently of the files, names, order and types that
hold them. The hash of the function covers invariants that all copies share (`fingerprint`), each
rounded to a grid: a fine grid, and a coarse one for coarse types.

Equal hashes of functions mean that the two agree in every invariant to within a step of the grid.
Copies of one function do; different models do not, unless one is a very small change of the other.
A hash of a function begins with its version, which is raised when the invariants change.
Unequal hashes mean different functions, unless a number lies so close to a boundary of the grid
that rounding can move it across. The answer then says so and lists the other hashes that rounding
can give, and `compare` decides by the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from typing import Any, Literal

import numpy as np

from segre.checkpoint.fingerprint import Number, numbers
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.overflow import within_float64
from segre.checkpoint.small import name_of, numbers_of, sizes_of, small, values_of
from segre.errors import CheckpointError
from segre.files import shown
from segre.finding import Status, Unbounded
from segre.json_data import stated
from segre.models import Source
from segre.shown import Tabular

VERSION = 2  # of hashes of functions; 1 had fewer invariants
STEPS = {"fine": 2.0**-8, "coarse": 2.0**-3}
TOO_COARSE = 1 / 8  # of a step: an error beyond this makes most numbers lie near edges
LISTED = 4  # numbers on edges, both of whose sides are listed
LENGTH = 32  # hexadecimal digits
LONGEST = 100_000_000  # bytes of a file with hashes
Level = Literal["fine", "coarse"]


@dataclass(frozen=True)
class FunctionHash:
    """The hash of a function on one grid."""

    level: Level
    hash: str
    edges: tuple[str, ...]  # numbers so near to an edge that rounding can take them across
    others: tuple[str, ...]  # hashes that rounding can give instead, if there are few

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "hash edges others")


@dataclass(frozen=True)
class ContentHash(Unbounded, Tabular):
    """The hashes of a checkpoint, and the numbers behind the hash of its function."""

    name: str
    values: str
    functions: Mapping[Level, FunctionHash] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)  # part by part, on the finest grid
    numbers: tuple[Number, ...] = ()
    architecture: str = ""
    version: int = VERSION

    @property
    def function(self) -> FunctionHash | None:
        """The hash on the finest grid."""
        return next(iter(self.functions.values()), None)

    @property
    def value(self) -> str:
        """The hash of the function, or the hash of the values if only that was requested."""
        return self.values if self.function is None else self.function.hash

    @property
    def status(self) -> Status:
        """The hash of the values is exact."""
        return "exact" if self.function is None else "measured"

    @property
    def how(self) -> str:
        """How it is known."""
        if self.function is None:
            return "all values"
        return f"{len(self.numbers)} invariants of the function, rounded"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        names = "version values architecture functions parts numbers"
        return stated(self, names, model=self.name)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ContentHash:
        """Read what `document` wrote."""
        try:
            version = document["version"]
            if version not in (1, VERSION):
                raise CheckpointError(f"hash version {version!r} is not supported; allowed: 1, 2")
            functions: dict[Level, FunctionHash] = {
                level: FunctionHash(level, x["hash"], tuple(x["edges"]), tuple(x["others"]))
                for level, x in document["functions"].items()
            }
            return cls(
                str(document["model"]),
                str(document["values"]),
                functions,
                dict(document["parts"]),
                tuple(
                    Number(str(part), str(name), float(value), float(error))
                    for part, name, value, error in document["numbers"]
                ),
                document["architecture"],
                version,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"no key {error}" if isinstance(error, KeyError) else error
            raise CheckpointError(
                f"this is not a file written by segre model hash --json: {reason}"
            ) from None

    def compare(self, other: ContentHash) -> Agreement:
        """Whether two are the same function, by their numbers and the effect of rounding."""
        if self.values == other.values:
            return Agreement("same values", "all values are equal")
        if self.function is None or other.function is None:
            return Agreement("different", "some values differ; functions were not compared")
        if self.architecture != other.architecture:
            said = f"the architectures differ: {self.architecture} and {other.architecture}"
            return Agreement("different", said)
        ours, theirs = ({x[:2]: x for x in y.numbers} for y in (self, other))
        common = [(ours[name], theirs[name]) for name in ours if name in theirs]
        known = self.version == other.version
        if not common or (known and ours.keys() != theirs.keys()):
            return Agreement("different", "some parts of one checkpoint are zero in the other")
        ratios = [abs(x.value - y.value) / (x.error + y.error) for x, y in common]
        worst = int(np.argmax(ratios))
        where = common[worst][0].place
        said = f"{where} differs by {ratios[worst]:.2g} times what rounding can explain"
        if not known:
            said += f"; only the {len(common)} numbers of both versions of the hash are compared"
        return Agreement("same function" if ratios[worst] <= 1 else "different", said)


@dataclass(frozen=True)
class Agreement:
    """A comparison of two hashes."""

    verdict: Literal["same values", "same function", "different"]
    reason: str


@dataclass(frozen=True)
class Hashes(Unbounded, Tabular):
    """The hashes of several checkpoints."""

    each: tuple[ContentHash, ...]

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Names of checkpoints that agree with the first of their group."""
        found: list[list[ContentHash]] = []
        for one in self.each:
            own = next((x for x in found if x[0].compare(one).verdict != "different"), None)
            if own is None:
                found.append([one])
            else:
                own.append(one)
        return tuple(tuple(x.name for x in group) for group in found)

    @property
    def value(self) -> tuple[tuple[str, ...], ...]:
        """The groups."""
        return self.groups

    @property
    def status(self) -> Status:
        """Hashes of values are exact."""
        return "exact" if all(x.status == "exact" for x in self.each) else "measured"

    @property
    def how(self) -> str:
        """How it is known."""
        return self.each[0].how

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, "models groups", models=[x.document() for x in self.each])


def content_hash(
    model: Source, *, exact: bool = False, progress: Progress = no_progress
) -> ContentHash:
    """The hashes of a model: of its values, and of its function (equal for moved copies).

    With `exact` of its values alone, which works for all families. A model is a checkpoint, or a
    small network: `Weights`, or a .json or .npz file of them.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.commands import move
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     one, two = content_hash(model), content_hash(move(model))
    >>> one.values == two.values, one.value == two.value, one.compare(two).verdict
    (False, True, 'same function')
    """
    with within_float64(model):
        if (weights := small(model)) is not None:
            every = () if exact else numbers_of(weights)
            said = name_of(model, weights), values_of(weights)[:LENGTH], sizes_of(weights)
            return _hashes(*said, every, ["outputs"])
        with Model.open(model) as opened:
            architecture, name = str(opened.spec), shown(opened.name)
            values = _of_values(opened, architecture, progress)
            every = () if exact else numbers(opened, progress)
            return _hashes(name, values, architecture, every, opened.parts)


def _hashes(
    name: str, values: str, architecture: str, every: tuple[Number, ...], own: list[str]
) -> ContentHash:
    """The hash of the values, and those of the function if there are numbers."""
    if not every:
        return ContentHash(name, values, architecture=architecture)
    typical = float(np.median([x.error for x in every]))
    levels: tuple[Level, ...] = ("fine", "coarse")
    kept = [x for x in levels if typical <= TOO_COARSE * STEPS[x] or x == levels[-1]]
    functions = {level: _on_grid(level, every, architecture) for level in kept}
    step = STEPS[kept[0]]
    places: dict[str, list[str]] = {part: [] for part in own}
    for x in every:
        places[x.part].append(_written(x, round(x.value / step)))
    parts = {part: _digest(part, found, 12) for part, found in places.items()}
    return ContentHash(name, values, functions, parts, every, architecture)


def _of_values(model: Model, architecture: str, progress: Progress) -> str:
    """All tensors by part and name, as the shortest type of single or double that holds them."""
    whole = sha256(f"segre values 1\n{architecture}\n".encode())
    for done, part in enumerate(model.parts):
        progress("values", done, len(model.parts))
        tensors = model.part(part)
        for name in sorted(tensors):
            plain = np.ascontiguousarray(tensors[name]) + 0.0  # no negative zeros
            with np.errstate(over="ignore", under="ignore"):
                single = plain.astype("<f4")
            short = np.array_equal(single, plain)
            shape = "x".join(map(str, tensors[name].shape))
            whole.update(f"{part} {name} {shape} {'f4' if short else 'f8'} ".encode())
            whole.update((single if short else plain.astype("<f8")).data)
    return whole.hexdigest()[:LENGTH]


def _on_grid(level: Level, every: tuple[Number, ...], architecture: str) -> FunctionHash:
    """The numbers rounded to a grid; those on an edge are rounded to the other side as well."""
    step, title = STEPS[level], f"{level} {architecture}"

    def sides(x: Number) -> set[int]:
        """The lower and the upper neighbour that rounding can give, and what lies between."""
        return {round((x.value + side * x.error) / step) for side in (-1, 0, 1)}

    def hash_with(chosen: Mapping[int, int]) -> str:
        every_place = (chosen.get(i, round(x.value / step)) for i, x in enumerate(every))
        return _digest(title, [_written(x, at) for x, at in zip(every, every_place, strict=True)])

    own = hash_with({})
    edges = {i: sorted(both) for i, x in enumerate(every) if len(both := sides(x)) > 1}
    choices = product(*edges.values()) if len(edges) <= LISTED else ()
    found = (hash_with(dict(zip(edges, choice, strict=True))) for choice in choices)
    others = tuple(x for x in found if x != own)
    return FunctionHash(level, own, tuple(every[i].place for i in edges), others)


def _written(number: Number, at: int) -> str:
    return f"{number.part}/{number.name}={at}"


def _digest(title: str, places: list[str], length: int = LENGTH) -> str:
    text = "\n".join([f"segre function {VERSION}", title, *places])
    return f"v{VERSION}:{sha256(text.encode()).hexdigest()[:length]}"
