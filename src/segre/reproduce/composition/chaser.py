"""How do L + 1 layers of full attention compose L functions? Weights by hand, nothing trained.

A sequence describes functions f_1, ..., f_L of m symbols: for every step l and symbol x a token
that names (l, x) and, right after it, a token that holds f_l(x). The pairs come in random order.
The first token is empty, and the last one holds a symbol x_0: the answer is f_L(... f_1(x_0) ...).

Layer 1 lets every token copy the name that the token before it has. Layer 1 + l lets the last token
look up the value whose name is (l, its own symbol). In every layer a second head, which attends to
its own token, carries everything else along: there are no skips and no MLPs. All is causal.
A lookup may be linear instead, its keys and queries being vectors of a given width.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.network import forward, tensors
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
        names, sizes = (
            ("here", "before", "name", "copied", "value", "symbol"),
            (*(self.bits, self.bits, self.L * self.m, self.L * self.m, self.m, self.m),),
        )
        ends = np.cumsum(sizes).tolist()
        return {
            name: slice(end - size, end) for name, size, end in zip(names, sizes, ends, strict=True)
        }

    @property
    def d(self) -> int:
        """The width of a token."""
        return 2 * self.bits + 2 * self.L * self.m + 2 * self.m

    @property
    def a(self) -> int:
        """The width of keys and queries, of both heads."""
        return max(self.bits, self.width or self.m)

    def spec(self) -> Network:
        """L + 1 layers of two heads."""
        full, line = "softmax:causal", "lightning:causal"
        flags = (False, *(self.linear or (False,) * self.L))
        heads = [f"{full}+{line}" if flag else f"{full}*2" for flag in flags]
        return Network.parse(
            {
                "kind": "mix",
                "d": [self.d] * (self.L + 2),
                "a": [self.a] * (self.L + 1),
                "heads": heads,
                "t": self.tokens,
            }
        )


def embedding(task: Task, rng: np.random.Generator) -> Array:
    """Symbols as unit vectors, in columns (width, m): random, or orthogonal if there is room."""
    if not 0 < task.width < task.m:
        return np.eye(task.m)
    drawn = rng.standard_normal((task.width, task.m))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=0))


def weights(task: Task, E: Array) -> Array:
    """The weights, by hand, as one vector."""
    vector = np.zeros(task.spec().parameters)
    part = task.parts
    slots = tensors(task.spec())
    for layer in range(1, task.L + 2):
        linear = layer > 1 and bool(task.linear) and task.linear[layer - 2]
        own, other = {}, {}
        for name in ("W_K", "W_Q", "W_V"):
            first = slots[str(layer), name]
            own[name] = vector[first.range].reshape(first.shape)
            second = slots[str(layer), f"2.{name}"] if linear else first
            other[name] = vector[second.range].reshape(second.shape)[-1]
            own[name] = own[name][0]
        _carry(task, own, part["copied"] if layer == 1 else part["symbol"])
        if layer == 1:
            _map(other["W_K"], np.eye(task.bits), part["here"])
            _map(other["W_Q"], SHARP * np.eye(task.bits), part["before"])
            _write(other["W_V"], part["copied"], part["name"])
            continue
        start = part["copied"].start + (layer - 2) * task.m
        _map(other["W_K"], E, slice(start, start + task.m))
        _map(other["W_Q"], E if linear else _sharp(E), part["symbol"])
        _write(other["W_V"], part["symbol"], part["value"])
    return vector


def _sharp(E: Array) -> Array:
    """Queries so large that the right key is ahead by `SHARP`."""
    products = E.T @ E
    ahead = (1 - (products - 2 * np.eye(len(products))).max(axis=0)).min()
    return np.asarray(SHARP / max(ahead, 1e-3) * E)


def _carry(task: Task, head: dict[str, Array], replaced: slice) -> None:
    """A head that attends to its own token and keeps all coordinates but some."""
    here = task.parts["here"]
    _map(head["W_K"], np.eye(task.bits), here)
    _map(head["W_Q"], SHARP * np.eye(task.bits), here)
    head["W_V"] += np.eye(task.d)
    head["W_V"][replaced] = 0


def _map(target: Array, block: Array, columns: slice) -> None:
    target[: len(block), columns] = block


def _write(target: Array, to: slice, source: slice) -> None:
    target[to, source] = np.eye(to.stop - to.start)


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
