"""Do L + 1 layers of full attention compose L functions, and what does a linear lookup lose?

Read in the paper (its abstract): L + 1 layers of full attention suffice for sequential function
composition, and L - 1 of them with 2^(3 L^2) linear ones do not. Derived here: the form of the
sequences, the weights, and all numbers. That a lookup with few coordinates goes wrong if it is
linear is a matter of capacity. It illustrates the difference, and is no evidence for the bound.

A sequence describes functions f_1, ..., f_L of m symbols: for every step l and symbol x a token
that names (l, x) and, right after it, a token that holds f_l(x). The pairs come in random order.
The first token is empty, and the last one holds a symbol x_0: the answer is f_L(... f_1(x_0) ...).

Layer 1 lets every token copy the name that the token before it has. Layer 1 + l lets the last token
look up the value whose name is (l, its own symbol). In every layer a second head, which attends to
its own token, carries everything else along: there are no skips and no MLPs. All is causal.
A lookup may be linear instead, its keys and queries being vectors of a given width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import ceil, log2

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.network import forward, tensors
from segre.reproduce.claim import DERIVED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Table
from segre.reproduce.state import Kept
from segre.spec import Network

SHARP = 40.0  # scores of what matches are larger by that


@dataclass(frozen=True)
class Task:
    """L functions of m symbols, and which lookups are linear (none if not said)."""

    L: int
    m: int
    linear: tuple[bool, ...] = ()
    width: int = 0  # of keys and queries of lookups; 0 is one coordinate for every symbol

    @property
    def tokens(self) -> int:
        """The length of a sequence."""
        return 2 + 2 * self.L * self.m

    @property
    def bits(self) -> int:
        """Signs that tell one position from another."""
        return ceil(log2(self.tokens))

    @property
    def parts(self) -> dict[str, slice]:
        """Coordinates: own position, position before, name, name before, value, symbol."""
        L, m, bits = self.L, self.m, self.bits
        sizes = {"here": bits, "before": bits, "name": L * m, "copied": L * m}
        sizes |= {"value": m, "symbol": m}
        ends = accumulate(sizes.values())
        return {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}

    @property
    def d(self) -> int:
        """The width of a token."""
        return int(self.parts["symbol"].stop)

    @property
    def a(self) -> int:
        """The width of keys and queries, of both heads."""
        return max(self.bits, self.width or self.m)

    def spec(self) -> Network:
        """L + 1 layers of two heads."""
        full, line = "softmax:causal", "lightning:causal"
        flags = (False, *(self.linear or (False,) * self.L))
        heads = [f"{full}+{line}" if flag else f"{full}*2" for flag in flags]
        sizes = {"d": [self.d] * (self.L + 2), "a": [self.a] * (self.L + 1), "t": self.tokens}
        return Network.parse({"kind": "mix", "heads": heads, **sizes})


def embedding(task: Task, rng: np.random.Generator) -> Array:
    """Symbols as unit vectors, in columns (width, m): random, or orthogonal if there is room."""
    if not 0 < task.width < task.m:
        return np.eye(task.m)
    drawn = rng.standard_normal((task.width, task.m))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=0))


def weights(task: Task, E: Array) -> Array:
    """The weights, by hand, as one vector."""
    vector = np.zeros(task.spec().parameters)
    part, slots = task.parts, tensors(task.spec())
    here, symbol = part["here"], part["symbol"]

    def head(layer: int, place: int) -> Iterator[Array]:
        """W_K, W_Q and W_V of a head, to be written into."""
        for name in ("W_K", "W_Q", "W_V"):
            both = slots[str(layer), name]
            slot = slots.get((str(layer), f"2.{name}"), both) if place else both
            yield vector[slot.range].reshape(slot.shape)[-1 if place else 0]

    for layer in range(1, task.L + 2):
        # one head attends to its own token, and keeps all coordinates but some
        W_K, W_Q, W_V = head(layer, 0)
        W_K[: task.bits, here] = np.eye(task.bits)
        W_Q[: task.bits, here] = SHARP * np.eye(task.bits)
        W_V += np.eye(task.d)
        W_V[part["copied"] if layer == 1 else symbol] = 0
        # the other one looks up
        W_K, W_Q, W_V = head(layer, 1)
        if layer == 1:
            keys, at, queries, asked = np.eye(task.bits), here, SHARP * np.eye(task.bits), "before"
            W_V[part["copied"], part["name"]] = np.eye(task.L * task.m)
        else:
            linear = bool(task.linear) and task.linear[layer - 2]
            start = part["copied"].start + (layer - 2) * task.m
            keys, at = E, slice(start, start + task.m)
            queries, asked = E if linear else _sharp(E), "symbol"
            W_V[symbol, part["value"]] = np.eye(task.m)
        W_K[: len(keys), at] = keys
        W_Q[: len(queries), part[asked]] = queries
    return vector


def _sharp(E: Array) -> Array:
    """Queries so large that the right key is ahead by `SHARP`."""
    products = E.T @ E
    ahead = (1 - (products - 2 * np.eye(len(products))).max(axis=0)).min()
    return np.asarray(SHARP / max(ahead, 1e-3) * E)


# --- sequences ---------------------------------------------------------------------------------


def functions(task: Task, rng: np.random.Generator) -> Array:
    """Random functions (L, m)."""
    return rng.integers(task.m, size=(task.L, task.m))


def sequence(task: Task, f: Array, rng: np.random.Generator) -> Array:
    """The tokens that describe functions, in random order: (d, tokens); no symbol is asked for."""
    part, t = task.parts, task.tokens
    X = np.zeros((task.d, t))
    signs = 2.0 * (np.arange(t)[:, None] >> np.arange(task.bits) & 1) - 1
    X[part["here"]] = signs.T
    X[part["before"]] = signs[[0, *range(t - 1)]].T
    order = rng.permutation(task.L * task.m)
    at = 1 + 2 * np.arange(len(order))
    X[part["name"]][order, at] = 1
    X[part["value"]][f.reshape(-1)[order], at + 1] = 1
    return X


def starts(task: Task, X: Array) -> Array:
    """The sequence once for every symbol that may be asked for: (m, d, tokens)."""
    every = np.repeat(X[None], task.m, axis=0)
    for symbol in range(task.m):
        every[symbol, task.parts["symbol"].start + symbol, -1] = 1
    return every


def answers(task: Task, vector: Array, X: Array) -> Array:
    """What the last token holds after all layers, for each sequence: (sequences, m)."""
    out = forward(Real(), task.spec(), vector, X)
    return np.asarray(out[:, task.parts["symbol"], -1])


def composed(f: Array) -> Array:
    """f_L(... f_1(x) ...) for every x.

    >>> composed(np.array([[1, 2, 0], [0, 0, 2]])).tolist()
    [0, 2, 0]
    """
    at = np.arange(f.shape[1])
    for row in f:
        at = row[at]
    return at


SIZES = ((2, 8), (4, 16), (6, 32))
SYMBOLS = 16
WIDTHS = (2, 4, 6, 8, 12, 16)
LOOKUPS = 10  # functions for each width
STEPS = 4
REPLACED = 8  # width of lookups in the stacks of which some are linear


def run(given: Run) -> Found:
    """Full attention on three sizes, then linear lookups of several widths."""
    count = given.options["functions"] * (4 if given.full else 1)
    sizes = [size for size in SIZES if size[0] <= given.options["steps"]]
    full = {
        (L, m): given.each_seed(f"{L} steps of {m} symbols", partial(_shares, Task(L, m), count))
        for L, m in sizes
    }
    lookups = given.options["lookups"]
    widths = given.each_seed("lookups", lambda seed, _: _by_width(seed, lookups))
    stacks = given.each_seed("linear layers", lambda seed, _: _by_layers(seed, lookups))
    return Found(
        _claims(full, widths, stacks),
        tuple(_tables(full, widths, stacks)),
        tuple(_panels(widths, stacks)),
        (
            "All weights are set by hand: one head looks up, another carries the token along. "
            "Attention is causal; there are no skips and no MLPs. Every symbol is queried.",
            "A linear lookup sums the values of all symbols, weighted by the similarity of their "
            "keys; a softmax picks one. With as many coordinates as symbols, both are exact.",
        ),
    )


def _accuracy(task: Task, rng: np.random.Generator, count: int) -> tuple[float, float]:
    """The share of correct answers over random functions, and the largest error of an answer."""
    vector = weights(task, embedding(task, rng))
    right, off = [], 0.0
    for _ in range(count):
        f = functions(task, rng)
        found = answers(task, vector, starts(task, sequence(task, f, rng)))
        meant = composed(f)
        right.append((found.argmax(axis=1) == meant).mean())
        off = max(off, float(abs(found - np.eye(task.m)[meant]).max()))
    return float(np.mean(right)), off


def _shares(task: Task, count: int, seed: int, _kept: Kept) -> dict[str, float]:
    """The same for one size and seed."""
    share, off = _accuracy(task, np.random.default_rng([seed, task.L, task.m]), count)
    return {"share": share, "off": off}


def _mean(task: Task, count: int, *seeds: int) -> float:
    """The share of correct answers over tables of keys, each with one function."""
    rngs = [np.random.default_rng([*seeds, n]) for n in range(count)]
    return float(np.mean([_accuracy(task, rng, 1)[0] for rng in rngs]))


def _by_width(seed: int, count: int) -> dict[str, list[float]]:
    """One lookup, linear and full, with the same keys."""
    return {
        name: [_mean(Task(1, SYMBOLS, (flag,), w), count, seed, w) for w in WIDTHS]
        for name, flag in (("linear", True), ("full", False))
    }


def _by_layers(seed: int, count: int) -> list[float]:
    """Several steps, of which the first so many are linear."""
    flags = [tuple(step < linear for step in range(STEPS)) for linear in range(STEPS + 1)]
    tasks = [Task(STEPS, SYMBOLS, linear, REPLACED) for linear in flags]
    return [_mean(task, -(-count // 3), seed, 7) for task in tasks]


def _claims(full: dict[tuple[int, int], Seeds], widths: Seeds, stacks: Seeds) -> list[Claim]:
    return [
        *(
            PAPER(
                f"{L + 1} layers of full attention, {L} steps, {m} symbols: share of correct "
                "answers"
            ).near(1, found.of("share"), tolerance=0)
            for (L, m), found in full.items()
        ),
        DERIVED("The same networks: largest distance between an answer and the exact one").at_most(
            1e-12,
            [max(found[seed]["off"] for found in full.values()) for seed in range(len(widths))],
        ),
        DERIVED(
            f"Lookups by full attention among {SYMBOLS} symbols are correct at every key width"
        ).holds([min(one) == 1 for one in widths.of("full")]),
        DERIVED(f"Linear lookups make errors up to key width 8 and none at width {SYMBOLS}").holds(
            [max(one[: WIDTHS.index(8) + 1]) < 1 == one[-1] for one in widths.of("linear")]
        ),
        DERIVED(
            f"{STEPS} steps, key width {REPLACED}: all answers are correct only if no lookup is "
            "linear"
        ).holds([max(one[1:]) < 1 == one[0] for one in stacks]),
        PAPER(
            "No hybrid of L - 1 full layers and 2^(3 L^2) linear layers composes L functions"
        ).untestable(
            "no experiment can show that something is impossible, and failed training is not "
            "evidence"
        ),
    ]


def _tables(full: dict[tuple[int, int], Seeds], widths: Seeds, stacks: Seeds) -> Iterator[Table]:
    yield Table(
        "Composition by full attention",
        "{steps:d} {symbols:d} {layers:d} {tokens:d} {width:d} {correct:.1%} {largest error:.0e}",
        [
            (L, m, L + 1, Task(L, m).tokens, Task(L, m).d, each.means("share"), max(each.of("off")))
            for (L, m), each in full.items()
        ],
    )
    means = widths.means("linear"), widths.spreads("linear"), widths.means("full")
    yield Table(
        f"One lookup among {SYMBOLS} symbols: share of correct answers by key width, means over "
        "seeds",
        "{width:d} {linear:.1%} {± over seeds:.1%} {full:.1%}",
        [*zip(WIDTHS, *means, strict=True)],
    )
    yield Table(
        f"{STEPS} steps, {SYMBOLS} symbols, key width {REPLACED}: share of correct answers if the "
        "first lookups are linear, means over seeds",
        " ".join(f"{{{linear} linear:.1%}}" for linear in range(STEPS + 1)),
        [stacks.means()],
    )


def _panels(widths: Seeds, stacks: Seeds) -> Iterator[Panel]:
    full = widths.curve("full (softmax)", WIDTHS, "full", colour=0)
    linear = widths.curve("linear", WIDTHS, "linear", colour=1)
    replaced = stacks.curve("", range(STEPS + 1), colour=1)
    lookup, steps = f"One lookup among {SYMBOLS} symbols", f"{STEPS} steps, key width {REPLACED}"
    for title, x, curves in (
        (lookup, "width of keys and queries", (full, linear)),
        (steps, "linear lookups", (replaced,)),
    ):
        ticks = curves[0].x
        yield Panel(title, x, "share of correct answers", curves, ticks=ticks, low=0, high=1.05)


EXPERIMENT = Experiment(
    name="composition",
    title="Function composition by layers of full attention, with weights set by hand.",
    work=Work(
        "A Provable Expressiveness Hierarchy in Hybrid Linear-Full Attention",
        "Ye, He, Liao, Wu, Lu",
        2026,
        "2602.01763",
    ),
    question="Do L + 1 layers of full attention compose L functions, and what do linear layers "
    "lose?",
    run=run,
    examples=("composition -o composition.png", "composition -o small.png --steps 4"),
    options=(
        Option("functions", int, 1, "Number of random functions for each size.", 1, 100),
        Option("steps", int, 6, "Largest number of steps.", 2, 6),
        Option(
            "lookups", int, LOOKUPS, "Number of random functions for each width of keys.", 1, 1000
        ),
    ),
    longer="four times as many functions",
    small={"steps": 2, "lookups": 1},
)
