"""What changed between two models? Both in one gauge, so that only changes of function count.

Configs first; then distances of the whole model, by layer, piece, head, unit and token; how much of
the difference of the files was gauge; how many directions each update has, which tells a full
fine-tune from one of low rank; and how far outputs are apart on a text or on random tokens. Of
small networks the normal forms are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from segre.checkpoint.align import Change
from segre.checkpoint.changes import MOST, Changes, Update, changes
from segre.checkpoint.function import require_same_architecture
from segre.checkpoint.inputs import common_inputs, longest, token_texts
from segre.checkpoint.model import Model, Progress, no_progress
from segre.checkpoint.one_form import in_one_form
from segre.checkpoint.outputs import furthest, outputs, random_tokens, relative
from segre.checkpoint.overflow import on_models
from segre.checkpoint.small import Small, name_of, outputs_of, small
from segre.errors import SegreError, SpecError
from segre.fields.interface import Array
from segre.files import shown
from segre.finding import Status, Unbounded
from segre.geometry.normal_form import canonical
from segre.geometry.same import Comparison, same_function
from segre.json_data import stated
from segre.models import Source
from segre.models.registry import IRRELEVANT
from segre.shown import Tabular
from segre.transformer.forward import Tokens
from segre.values import quote
from segre.weights import Weights, common_kind

INPUTS, LENGTH = 4, 64


@dataclass(frozen=True)
class OutputChange:
    """How far the outputs of two models are apart on the same inputs."""

    inputs: str  # random tokens, or the name of a text
    count: int
    length: int
    largest: float  # the largest difference, relative to the largest output
    mean: float  # norm of the difference, relative to the norm of the outputs
    divergence: float | None = None  # of next tokens, in nats; None: outputs are no logits
    agreement: float | None = None  # how often the likeliest token is the same
    losses: tuple[float, float] | None = None  # of next tokens of a text, in nats

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return stated(self, " ".join(vars(self)))


@dataclass(frozen=True)
class Diff(Unbounded, Tabular):
    """What changed from one checkpoint to another."""

    one: str
    two: str
    config: Mapping[str, tuple[Any, Any]]  # keys that differ and may change the function
    ignored: Mapping[str, tuple[Any, Any]]  # keys that differ and do not
    changes: Changes
    outputs: OutputChange
    roundoff: float  # of the coarser of the two files
    common: int | None = None  # only so many tokens were compared; None: all

    @property
    def value(self) -> float:
        """The relative distance of the whole model, in one gauge."""
        return self.changes.total.relative

    @property
    def status(self) -> Status:
        """Distances are measured."""
        return "measured"

    @property
    def how(self) -> str:
        """How they are measured."""
        return "in one gauge, relative to the first"

    @property
    def gauge(self) -> float:
        """The share of the squared difference of the files that was gauge."""
        total = self.changes.total
        return max(0.0, 1 - total.after / total.raw) if total.raw else 0.0

    @property
    def by_piece(self) -> dict[str, Change]:
        """Sums over the layers."""
        return self.changes.summed(1)

    @property
    def by_part(self) -> dict[str, Change]:
        """Sums over the pieces."""
        return self.changes.summed(0)

    @property
    def updates(self) -> list[Update]:
        """Updates of the matrices of layers, the largest first."""
        return sorted(self.changes.updates, key=lambda update: -update.distance)

    @property
    def changed(self) -> list[Update]:
        """The updates that exceed rounding."""
        return [update for update in self.updates if update.rank]

    @property
    def others(self) -> list[str]:
        """What else changed by more than rounding: tables, norms, biases."""
        found = self.changes
        kinds = {kind for (_, kind), one in found.others.items() if found.beyond(one)}
        return sorted(kinds | ({"tables"} if found.tokens else set()))

    @property
    def largest(self) -> dict[str, Update]:
        """The largest update of each kind of matrix that changed."""
        out: dict[str, Update] = {}
        for update in self.changed:
            out.setdefault(update.name, update)
        return out

    @property
    def low_rank(self) -> int | None:
        """The largest rank of an update, if only matrices changed, and each in few directions."""
        if self.others or not self.changed or not all(one.low_rank for one in self.changed):
            return None
        return max(update.rank for update in self.changed)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        grid = [
            {"part": part, "piece": piece, **one.document()}
            for (part, piece), one in self.changes.grid.items()
        ]
        spots = {name: getattr(self.changes, name) for name in ("heads", "units", "tokens")}
        return stated(
            self,
            "config roundoff gauge low_rank updates outputs",
            one=shown(self.one),
            two=shown(self.two),
            config_ignored={key: list(pair) for key, pair in self.ignored.items()},
            common_tokens=self.common,
            whole=self.changes.total.document(),
            moved=self.changes.moved,
            pieces={name: one.document() for name, one in self.by_piece.items()},
            layers={name: one.document() for name, one in self.by_part.items()},
            grid=grid,
            spectra={name: one.spectrum.tolist() for name, one in self.largest.items()},
            **{name: [vars(one) for one in every] for name, every in spots.items()},
        )


@dataclass(frozen=True)
class SmallDiff(Unbounded, Tabular):
    """What changed from one small network to another; distances are relative to the first."""

    one: str
    two: str
    same: Comparison
    stored: float | None  # of the weights; None if the designs differ
    outputs: float  # at random inputs
    invariants: tuple[tuple[str, float], ...]  # of the normal forms, as far as both have them

    @property
    def value(self) -> float:
        """The relative distance of outputs."""
        return self.outputs

    @property
    def status(self) -> Status:
        """Distances are measured, in floats."""
        return "measured"

    @property
    def how(self) -> str:
        """How they are measured."""
        return f"outputs at {INPUTS} random inputs, relative to the first"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        invariants = [{"name": name, "distance": far} for name, far in self.invariants]
        return stated(self, "one two same outputs stored", invariants=invariants)


@overload
def diff(one: Small, two: Small, *, seed: int = 0) -> SmallDiff: ...
@overload
def diff(
    one: Source,
    two: Source,
    *,
    text: str | Path | None = None,
    inputs: int = INPUTS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff | SmallDiff: ...


def diff(
    one: Source,
    two: Source,
    *,
    text: str | Path | None = None,
    inputs: int = INPUTS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff | SmallDiff:
    """What changed from the first model, `one`, to the second, `two`.

    Outputs of checkpoints are compared on the beginning of `text`, or on random tokens; those of
    small networks at random inputs.

    >>> import segre
    >>> w = segre.Weights.random("lightning/d=3,3/a=2/t=2")
    >>> found = segre.diff(w, segre.move(w))
    >>> found.outputs < 1e-9 < 0.1 < found.stored
    True
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     model = segre.checkpoints.example(f"{folder}/model")
    ...     moved = segre.checkpoints.move(model, f"{folder}/moved")
    ...     found = segre.diff(model, moved.directory)
    >>> found.value < 1e-6, round(found.gauge, 6), found.changed
    (True, 1.0, [])
    """
    a, b = small(one), small(two)
    if a is not None and b is not None:
        if text is not None:
            raise SegreError("a text is for checkpoints; small networks are compared on numbers")
        return _of_small_networks(a, b, name_of(one, a), name_of(two, b), seed)
    if a is not None or b is not None:
        raise SegreError("one is the weights of a small network, the other a checkpoint")
    return of_checkpoints(one, two, text, inputs, length, seed, progress)


@on_models(2)
def of_checkpoints(
    one: Source,
    two: Source,
    text: str | Path | None = None,
    inputs: int = INPUTS,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Diff:
    """What changed from one checkpoint to the other, layer by layer."""
    a, b, common = in_one_form(one, two)
    require_same_architecture(a, b)
    kind, batches = "random tokens", [random_tokens(a.spec, seed)]
    if text is not None:
        most = min(length, *(longest(model.spec) or length for model in (a, b)))
        read, batches = common_inputs(one, two, text, count=inputs, length=most)
        kind = str(text) if read is None else read.kind
        if max(int(tokens.words.max()) for tokens in batches) >= a.spec.vocab:
            raise SpecError(f"text {quote(str(text))}: has tokens that only one model knows")
    found = changes(a, b, progress)
    found.heads, found.units, tops = (
        sorted(spots, key=lambda spot: -spot.distance)[:MOST]
        for spots in (found.heads, found.units, found.tokens)
    )
    words = token_texts(one, [spot.number for spot in tops])
    found.tokens = [replace(spot, text=words.get(spot.number, "")) for spot in tops]
    changed, ignored = config_changes(one.store.config, two.store.config)
    return Diff(
        one.name,
        two.name,
        changed,
        ignored,
        found,
        _outputs_apart(a, b, kind, batches, text is not None, progress),
        max(a.roundoff(), b.roundoff()),
        common,
    )


def config_changes(
    one: Mapping[str, Any], two: Mapping[str, Any]
) -> tuple[dict[str, tuple[Any, Any]], dict[str, tuple[Any, Any]]]:
    """Keys in which two configs differ: those that may change the function, and the others."""
    changed: dict[str, tuple[Any, Any]] = {}
    ignored: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*one, *two}):
        if one.get(key) != two.get(key):
            pair = (one.get(key), two.get(key))
            (ignored if key in IRRELEVANT else changed)[key] = pair
    return changed, ignored


def _outputs_apart(
    one: Model, two: Model, kind: str, batches: list[Tokens], text: bool, progress: Progress
) -> OutputChange:
    spec = one.spec
    far: list[float] = []
    squares: list[tuple[float, float]] = []  # of differences, and of the outputs of the first
    nexts: list[tuple[float, int, int]] = []  # divergences, agreements, positions
    losses: list[Array] = []
    for tokens in batches:
        ours, theirs = (outputs(model, tokens, progress) for model in (one, two))
        far.append(furthest(ours, theirs))
        squares.append((float(((ours - theirs) ** 2).sum()), float((ours**2).sum())))
        if spec.output != "hidden" and ours.shape[1:] == (spec.vocab, tokens.length):
            p, q = (_log_softmax(x) for x in (ours, theirs))
            same = p.argmax(axis=1) == q.argmax(axis=1)
            nexts.append((float((np.exp(p) * (p - q)).sum()), int(same.sum()), same.size))
            losses.append(np.stack([_losses(x, tokens.words) for x in (p, q)]))
    found = OutputChange(
        kind,
        sum(len(tokens.words) for tokens in batches),
        int(batches[0].words.shape[-1]),
        max(far),
        float(np.sqrt(relative(*map(sum, zip(*squares, strict=True))))),
    )
    if not nexts:
        return found
    divergence, agreed, positions = map(sum, zip(*nexts, strict=True))
    first, second = np.concatenate(losses, axis=1).mean(axis=1).tolist()
    return replace(
        found,
        divergence=max(0.0, divergence / positions),
        agreement=agreed / positions,
        losses=(first, second) if text and spec.causal else None,
    )


def _log_softmax(logits: Array) -> Array:
    """Logarithms of the softmax over tokens, which are the rows."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _losses(logs: Array, words: Array) -> Array:
    """Minus the log-probability of every next token."""
    return -np.take_along_axis(logs[:, :, :-1], words[:, None, 1:], axis=1).reshape(-1)


def _of_small_networks(one: Small, two: Small, name: str, other: str, seed: int) -> SmallDiff:
    same = same_function(one, two, seed=seed)  # refuses what cannot be compared
    shape = INPUTS, one.spec.widths[0], one.spec.t
    X = np.random.default_rng(seed).standard_normal(shape)
    invariants: list[tuple[str, float]] = []
    if isinstance(one, Weights) and isinstance(two, Weights):
        theirs = dict(canonical(two).invariants)
        for what, x in canonical(one).invariants:
            if what in theirs and theirs[what].shape == x.shape:
                invariants.append((what, _distance(x, theirs[what])))
    stored = _distance(one.vector, two.vector) if one.spec == two.spec else None
    outputs = _distance(*(outputs_of(w, X)[0] for w in (one, two)))
    return SmallDiff(name, other, same, stored, outputs, tuple(invariants))


def _distance(one: Array, two: Array) -> float:
    """Relative to the first, in floats."""
    x, y, _ = common_kind([one, two, np.zeros(0)])
    return relative(float(np.linalg.norm(x - y)), float(np.linalg.norm(x)))
