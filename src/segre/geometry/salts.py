"""Inputs mod p at which every square root of a network exists, found token by token.

The sources of randomness are the input's columns and then the stages that draw exponentials. A
root that is missing after one source and before the next is repaired by the *salt* of its token
at that source: the smallest number for which all such roots of the token exist. Where that does not
help (a token sees only itself, or tokens are mixed before the root) all begins again with other
columns.

A root that was missing is worth remembering: a number without a root mod p, at a point where
all roots before it exist, proves that what stands under this root is not a square of anything
computed before it (docs/soundness.md).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import InitVar, dataclass, field

import numpy as np

from segre.architectures import Architecture
from segre.errors import UnluckyError
from segre.fields.formal import Drawn, Formal
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.network import named_tensors, stages, with_head_axes

MOST_SALTS = 1 << 13
FEW_SALTS = 1 << 6
MOST_STARTS = 1 << 12
MOST_EXHAUSTED = 2
_STARTS_AT_ONCE = 1 << 6
_BETWEEN_STARTS = 1 << 6  # salts of columns: so far apart do starts begin
_AT_ONCE = 1 << 11
_ENOUGH = 1 << 5  # a root that is missing so often in a row is missing for a reason

Draw = Callable[[Array, Array], Array]  # (numbers, salts of columns) -> inputs
Salts = list[list[int]]  # by source: the columns of X, then the stages; one for each token
Radicand = tuple[int, int, int]  # stage, root within it, entry in row-major order


@dataclass
class Roots:
    """The radicands, and for each an input and salts at which it has no root."""

    sites: set[Radicand] = field(default_factory=set)
    seen: dict[Radicand, tuple[int, Salts]] = field(default_factory=dict)

    @property
    def established(self) -> bool:
        """Whether every radicand was seen without a root."""
        return self.sites <= self.seen.keys()


@dataclass(frozen=True)
class SaltedInputs:
    """Inputs at which all roots exist: their numbers, themselves, and salts by source."""

    numbers: Array
    X: Array
    salts: Array  # (sources, inputs, tokens): the columns of X, then the stages
    free_roots: bool = False

    def fields(self, base: Prime) -> list[Formal]:
        """The field of each stage."""
        return [Formal(base, salt, free_roots=self.free_roots) for salt in self.salts[1:]]


def find_salts(
    base: Prime,
    spec: Architecture,
    weights: Array,
    numbers: Array,
    draw: Draw,
    roots: Roots,
    free_roots: bool = False,
) -> SaltedInputs:
    """Salts for the inputs of the given numbers; `weights` is one vector or one for each.

    With `free_roots` roots are drawn: only divisions by zero are to be avoided.
    """
    sources = len(stages(spec)) + 1
    salts = np.zeros((sources, len(numbers), spec.t), dtype=np.int64)
    if not spec.salts_searched:
        return SaltedInputs(numbers, draw(numbers, salts[0]), salts, free_roots)
    left = np.arange(len(numbers))
    starts = exhausted = 0
    while len(left) and starts < MOST_STARTS and exhausted < MOST_EXHAUSTED:
        copies = 1 if not starts else max(1, _STARTS_AT_ONCE // len(left))
        many = np.repeat(left, copies)
        own = weights if weights.ndim == 1 else weights[many]
        begin = _BETWEEN_STARTS * (starts + np.tile(np.arange(copies), len(left)))
        columns = np.repeat(begin[:, None], spec.t, axis=1)
        run = _Run(base, spec, own, numbers[many], draw, roots, columns, free_roots)
        source: int | None = 0
        while source is not None and run.alive.any():
            source = run.find_source_salts(source)
        alive = run.alive.reshape(len(left), copies)
        first = np.arange(len(left)) * copies + alive.argmax(axis=1)
        done = alive.any(axis=1)
        salts[:, left[done]] = run.salts[:, first[done]]
        left = left[~done]
        starts += copies
        exhausted += run.exhausted and not run.alive.any()
    if not len(left):
        return SaltedInputs(numbers, draw(numbers, salts[0]), salts, free_roots)
    raise UnluckyError("no point was found at which all square roots exist mod p; try another seed")


@dataclass(eq=False)
class _Run:
    """One attempt, source by source, for all inputs at once; hopeless inputs are dropped."""

    base: Prime
    spec: Architecture
    weights: Array
    numbers: Array
    draw: Draw
    roots: Roots
    columns: InitVar[Array]
    free_roots: bool

    def __post_init__(self, columns: Array) -> None:
        self.stages = stages(self.spec)
        count = len(self.numbers)
        self.alive = np.ones(count, dtype=bool)
        self.salts = np.zeros((len(self.stages) + 1, count, self.spec.t), dtype=np.int64)
        self.salts[0] = columns
        self.before: Array | None = None  # tokens before the stage that is the source
        self._next: int | None = None
        self.exhausted = False  # whether salts were tried for long in vain
        self._missed: list[Array] = []  # where roots were missing in the last trial, by radicand
        self._always: list[Array] = []  # where they were in all trials of this source
        self._noting = True  # whether some radicand has not been seen without a root yet
        self._mixed = False  # whether tokens are mixed between this source and the next

    def find_source_salts(self, source: int) -> int | None:
        """Find salts for one source; the next source, if there is one.

        Tokens do not see each other's salts between two sources, so that several salts of every
        token are tried at once, and the smallest good one is taken for each.
        """
        active = np.flatnonzero(self.alive)
        open_ = np.ones((len(active), self.spec.t), dtype=bool)
        self._always = []
        tried, most = 0, MOST_SALTS
        if source and not self.stages[source - 1].mixes and self.spec.piecewise_units:
            most = FEW_SALTS  # a region is all that is drawn, and there are few
        while len(active) and tried < most:
            tries = 1 if not tried else int(min(64, max(1, _AT_ONCE // len(active))))
            steps = np.arange(tries)[None, :, None] * open_[:, None, :]
            trial = (self.salts[source, active][:, None, :] + steps).reshape(-1, self.spec.t)
            missing, hopeless = self._try(source, np.repeat(active, tries), trial)
            missing = missing.reshape(len(active), tries, -1) & open_[:, None, :]
            hopeless = hopeless.reshape(len(active), tries)[:, 0]
            good = ~missing
            found: Array = np.asarray(good.any(axis=1))
            step = np.where(found, good.argmax(axis=1), tries)
            self.salts[source, active] += np.where(open_, step, 0)
            self.alive[active[hopeless]] = False
            tried += tries
            never = self._never(active, tries) & (tried >= _ENOUGH) & ~hopeless
            self.alive[active[never]] = False
            self.exhausted |= bool(never.any())
            again = ~found.all(axis=1) & ~hopeless & ~never
            active, open_ = active[again], ~found[again]
        self.exhausted |= len(active) > 0 and most == MOST_SALTS
        self.alive[active] = False
        mixed = self._mixed or self.spec.salts_mix
        if mixed and self.alive.any():  # tokens saw each other: are all choices good at once?
            left = np.flatnonzero(self.alive)
            missing, _ = self._try(source, left, self.salts[source, left])
            self.alive[left[missing.any(axis=1)]] = False
        return self._advance(source)

    def _never(self, active: Array, tries: int) -> Array:
        """Which inputs lacked some root in all trials: it may depend on the weights alone, say."""
        never = np.zeros(len(active), dtype=bool)
        if not self._always:
            everyone = len(self.numbers)
            self._always = [np.ones((everyone, m.shape[1]), dtype=bool) for m in self._missed]
        for always, missed in zip(self._always, self._missed, strict=True):
            always[active] &= missed.reshape(len(active), tries, -1).all(axis=1)
            never |= always[active].any(axis=1)
        return never

    def _advance(self, source: int) -> int | None:
        """Move on to the next stage that draws, with the salts that were found."""
        everyone = np.arange(len(self.numbers))
        if self._next is None:
            return None
        tokens = self._tokens_after(source, everyone, self.salts[source])
        for k in range(source, self._next - 1):
            tokens = self._apply(k, tokens, everyone, self.salts[k + 1])[0]
        self.before = tokens
        return self._next

    def _tokens_after(self, source: int, chosen: Array, salts: Array) -> Array:
        if source == 0:
            return with_head_axes(self.spec, self.draw(self.numbers[chosen], salts))
        assert self.before is not None
        return self._apply(source - 1, self.before[chosen], chosen, salts)[0]

    def _apply(
        self, k: int, tokens: Array, chosen: Array, salts: Array | None
    ) -> tuple[Array, Formal]:
        """A stage; without salts up to what it draws, with an output only if it draws nothing."""
        formal = Formal(self.base, salts, probe=salts is None, free_roots=self.free_roots)
        own = self.weights if self.weights.ndim == 1 else self.weights[chosen]
        stage = self.stages[k]
        with suppress(Drawn):
            tokens = stage.apply(formal, named_tensors(stage, own), tokens)
        return tokens, formal

    def _try(self, source: int, chosen: Array, salts: Array) -> tuple[Array, Array]:
        """Where roots are missing with these salts: (inputs, tokens), and which have no hope."""
        self._missed, self._noting = [], not self.roots.established or not self.roots.sites
        missing = np.zeros((len(chosen), self.spec.t), dtype=bool)
        hopeless = np.zeros(len(chosen), dtype=bool)
        first: dict[int, Radicand] = {}
        alone = bool(source) and self.stages[source - 1].mixes and self.spec.first_token_alone
        if source == 0:
            tokens = self._tokens_after(0, chosen, salts)
        else:
            assert self.before is not None
            tokens, formal = self._apply(source - 1, self.before[chosen], chosen, salts)
            after = [(n, mask) for n, (mask, drew) in enumerate(formal.rootless) if drew]
            self._note(source - 1, after, missing, first)
            self._mark_zeros(formal, missing)
        self._next, self._mixed = None, False
        for k in range(source, len(self.stages)):
            tokens, formal = self._apply(k, tokens, chosen, None)
            sites = [(n, m) for n, (m, drew) in enumerate(formal.rootless) if not drew]
            mixes = self.stages[k].mixes and not formal.drew
            last = mixes and self.spec.roots_after_mixing
            split = len(sites) - int(last)  # roots before and after this stage mixes tokens
            for some in (sites[:split], sites[split:]):
                here = np.zeros_like(missing)
                self._note(k, some, here, first)
                if self._mixed:
                    here &= ~missing.any(axis=1, keepdims=True)  # roots before must exist first
                    hopeless |= here.any(axis=1)
                missing |= here
                self._mixed |= mixes
            if formal.drew:
                self._next = k + 1
                break
            self._mark_zeros(formal, missing)
        hopeless |= missing[:, 0] & alone
        for n, radicand in first.items():
            if radicand not in self.roots.seen:
                at = int(chosen[n])
                before = self.salts[:source, at].tolist()
                self.roots.seen[radicand] = (int(self.numbers[at]), [*before, salts[n].tolist()])
        return missing, hopeless

    @staticmethod
    def _mark_zeros(formal: Formal, missing: Array) -> None:
        """Divisions by zero are repaired like missing roots."""
        for zero in formal.divided:
            missing[:, : zero.shape[-1]] |= zero.any(axis=tuple(range(1, zero.ndim - 1)))

    def _note(
        self, stage: int, sites: list[tuple[int, Array]], missing: Array, first: dict[int, Radicand]
    ) -> None:
        """Mark the tokens that lack roots, and each input's first missing root."""
        for site, mask in sites:
            flat = mask.reshape(len(mask), -1)
            self.roots.sites |= {(stage, site, entry) for entry in range(flat.shape[1])}
            self._missed.append(flat)
            middle = tuple(range(1, mask.ndim - 1))
            missing[:, : mask.shape[-1]] |= mask.any(axis=middle)
            for n in np.flatnonzero(flat.any(axis=1)) if self._noting else ():
                first.setdefault(int(n), (stage, site, int(flat[n].argmax())))
