"""What are n-gram Markov chains, and what is the transformer that learns them?

Each token depends on the tokens at some lags before it, its parents: one row of probabilities,
drawn from a Dirichlet distribution, for every combination of parents. Lags lie within a window.
For a set S of lags, with the stationary distribution mu of a chain, the chi-square information is

    E_mu[ sum_e mu(e | Z_S)^2 / mu(e) - 1 ],

and the modified one, which the paper shows the feed-forward layer to maximise, has one more factor
mu(Z_S) inside the expectation. Both are means over random chains. (The weight mu(Z_S) was recalled,
not read: what is tested is that it picks the parents.)

The transformer is two layers of attention on one-hot tokens x, with H heads and a window of M lags:

    copier:      v_h(l) = sum_i softmax(w_h)_i x_(l-i)                      (a weight for each lag)
    selector:    u(l) = all products of v_h(l) over sets S of heads, with weights c_S, normalised
    classifier:  y = sum_l softmax_l( a u(l).u(L+1) ) x_l

so that u(l).u(L+1) = sum_S p_S prod_{h in S} v_h(l).v_h(L+1) with p_S = c_S^2 / sum c^2. y are
probabilities of the next token, and the loss is their cross-entropy.

The classifier also sees an empty token, with a score s of its own, that says all symbols alike.
This is derived here: an oracle adds alpha to every count, and the empty token can do just that. A
model without it (`bare`) has probabilities of at least `TINY`, so that no loss is infinite. There
are H M + 2^H + 1 numbers to train, and the gradient is written out by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import softmax

from segre.attention.mechanism import SOFTMAX
from segre.fields.interface import Array
from segre.sequence.mix import mix

RESTART = 1e-6  # with this probability a chain starts anew: its stationary distribution is unique


@dataclass(frozen=True)
class Chains:
    """Which chains are drawn: symbols, parents (lags from 1 on) and the Dirichlet parameter."""

    symbols: int
    parents: tuple[int, ...]
    alpha: float

    def rows(self, rng: np.random.Generator, count: int) -> Array:
        """Probabilities (count, combinations of parents, symbols) of random chains."""
        several = self.symbols ** len(self.parents)
        return rng.dirichlet([self.alpha] * self.symbols, (count, several))

    def context(self, past: Array) -> Array:
        """The combination of parents, as a number; `past` has lag 1 in its last place."""
        found = np.zeros(past.shape[:-1], dtype=np.int64)
        for lag in self.parents:
            found = found * self.symbols + past[..., -lag]
        return found

    def sequences(
        self, rng: np.random.Generator, count: int, length: int, *, uniform: bool = False
    ) -> Array:
        """Sequences (count, length + 1), each of a chain of its own; the last token is the label.

        With `uniform`, the tokens that the label depends on are drawn uniformly, as in a version of
        the authors' code: contexts that never occurred are asked for as often as frequent ones.
        """
        rows = self.rows(rng, count)
        first = max(self.parents)
        tokens = np.empty((count, length + 1), dtype=np.int8)
        tokens[:, :first] = rng.integers(self.symbols, size=(count, first))
        draws, every = rng.random((count, length + 1)), np.arange(count)
        for place in range(first, length + 1):
            if uniform and place == length:
                tokens[:, place - first : place] = rng.integers(self.symbols, size=(count, first))
            own = rows[every, self.context(tokens[:, :place])]
            below = draws[:, place, None] > own.cumsum(axis=1)[:, :-1]
            tokens[:, place] = below.sum(axis=1)
        return tokens


def oracle_loss(chains: Chains, tokens: Array) -> float:
    """The mean cross-entropy of the label if the parents are known: Bayes, from counts."""
    first, symbols = max(chains.parents), chains.symbols
    windows = np.lib.stride_tricks.sliding_window_view(tokens, first, axis=1)[:, :-1]
    contexts, values = chains.context(windows), tokens[:, first:]
    same = contexts[:, :-1] == contexts[:, -1:]
    return _loss(same, values, chains.alpha, symbols)


def unigram_loss(chains: Chains, tokens: Array) -> float:
    """The same from counts of single tokens."""
    same = np.ones((len(tokens), tokens.shape[1] - 1), dtype=bool)
    return _loss(same, tokens, chains.alpha, chains.symbols)


def _loss(counted: Array, values: Array, alpha: float, symbols: int) -> float:
    right = counted & (values[:, :-1] == values[:, -1:])
    share = (right.sum(axis=1) + alpha) / (counted.sum(axis=1) + symbols * alpha)
    return float(-np.log(share).mean())


# --- information -------------------------------------------------------------------------------


def lag_sets(window: int) -> list[tuple[int, ...]]:
    """All sets of lags but the empty one, smaller ones first."""
    return [tuple(h + 1 for h in one) for one in sets(window)]


def information(
    chains: Chains, window: int, rng: np.random.Generator, count: int
) -> dict[tuple[int, ...], tuple[float, float]]:
    """For every set of lags the plain and the modified information, means over random chains."""
    sets = lag_sets(window)
    totals = np.zeros((len(sets), 2))
    for rows in chains.rows(rng, count):
        joint = window_distribution(chains, rows, window)
        totals += [_informations(joint, lags) for lags in sets]
    return {lags: (float(a), float(b)) for lags, (a, b) in zip(sets, totals / count, strict=True)}


def window_distribution(chains: Chains, rows: Array, window: int) -> Array:
    """The stationary distribution of `window` tokens and the next: an axis each, oldest first."""
    symbols = chains.symbols
    states = np.array(list(np.ndindex(*(symbols,) * window)))
    next_token = rows[chains.context(states)]  # (states, symbols)
    count = len(states)
    shifted = (np.arange(count) * symbols % count)[:, None] + np.arange(symbols)
    P = np.zeros((count, count))
    P[np.arange(count)[:, None], shifted] = next_token
    P = (1 - RESTART) * P + RESTART / count
    A = np.concatenate([P.T - np.eye(count), np.ones((1, count))])
    mu = np.linalg.lstsq(A, np.eye(count + 1)[-1], rcond=None)[0].clip(0)
    joint = (mu / mu.sum())[:, None] * next_token
    return np.asarray(joint.reshape((symbols,) * (window + 1)))


def _informations(joint: Array, lags: tuple[int, ...]) -> tuple[float, float]:
    window = joint.ndim - 1
    others = tuple(axis for axis in range(window) if window - axis not in lags)
    some = joint.sum(axis=others).reshape(-1, joint.shape[-1])  # mu(Z_S, e)
    base, weight = some.sum(axis=0), some.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        given = np.where(weight[:, None] > 0, some / weight[:, None], 0)
        inside = np.where(base > 0, given**2 / base, 0).sum(axis=1) - 1
    inside = np.where(weight > 0, inside, 0)
    return float((weight * inside).sum()), float((weight**2 * inside).sum())


TINY = 1e-3  # every token has at least this probability, if there is no empty token


@dataclass(frozen=True)
class Model:
    """Weights: w (heads, lags), c (sets of heads), a and s (numbers; s is -inf in a bare model)."""

    w: Array
    c: Array
    a: float
    s: float

    @classmethod
    def start(cls, window: int, rng: np.random.Generator, *, bare: bool = False) -> Model:
        """Head h prefers lag h a little; all sets of heads are alike."""
        w = np.eye(window) + 0.01 * rng.standard_normal((window, window))
        return cls(w, np.ones(2**window - 1), 1.0, -np.inf if bare else 0.0)

    @classmethod
    def of(cls, vector: Array, window: int) -> Model:
        """From one vector of weights."""
        w, c, rest = np.split(vector, [window**2, window**2 + 2**window - 1])
        return cls(w.reshape(window, window), c, float(rest[0]), float(rest[1]))

    @property
    def vector(self) -> Array:
        """All weights as one vector."""
        return np.concatenate([self.w.reshape(-1), self.c, [self.a, self.s]])

    @property
    def bare(self) -> bool:
        """Whether there is no empty token."""
        return self.s == -np.inf

    @property
    def pseudo_count(self) -> float:
        """What the empty token adds to the counts of whole matches, all symbols together."""
        return float(np.exp(self.s - self.a))

    @property
    def window(self) -> int:
        """How many lags, and heads, there are."""
        return len(self.w)

    @property
    def copied(self) -> Array:
        """How much each head copies from each lag: (heads, lags)."""
        return np.asarray(softmax(self.w, axis=-1))

    @property
    def selected(self) -> Array:
        """The share p_S of every set of heads."""
        return np.asarray(self.c**2 / (self.c**2).sum())


def sets(heads: int) -> list[tuple[int, ...]]:
    """Sets of heads, in the order of the weights c."""
    return [one for count in range(1, heads + 1) for one in combinations(range(heads), count)]


def matches(tokens: Array, window: int) -> Array:
    """Where a past token is that of the query: (sequences, positions, lag, lag of the query).

    Positions are those that have a whole window before them; the query is that of the last token.
    """
    past = np.lib.stride_tricks.sliding_window_view(tokens[:, :-1], window, axis=1)[:, :, ::-1]
    return np.asarray(past[:, :-1, :, None] == past[:, -1:, None, :])


def labels(tokens: Array, window: int) -> Array:
    """Where the token at a position is the one to be predicted: (sequences, positions)."""
    return np.asarray(tokens[:, window:-1] == tokens[:, -1:])


def loss_and_gradient(
    model: Model, match: Array, right: Array, symbols: int
) -> tuple[float, Array]:
    """The mean cross-entropy, and its derivatives by all weights, as one vector."""
    A, p, every = model.copied, model.selected, sets(model.window)
    E = match.astype(np.float64)
    EA = np.moveaxis(E @ A.T, -1, 0)  # (heads, sequences, positions, lags)
    G = np.einsum("hbli,hi->hbl", EA, A)
    products = np.stack([np.prod(G[list(one)], axis=0) for one in every])
    K = np.tensordot(p, products, 1)
    empty = np.ones((len(K), 1))
    weights = softmax(np.concatenate([model.a * K, model.s * empty], axis=1), axis=1)
    shares = np.concatenate([right, empty / symbols], axis=1)
    least = TINY if model.bare else 0.0
    rest_of = 1 - least * symbols
    said = (weights * shares).sum(axis=1) * rest_of + least
    by_said = -rest_of / said / len(said)
    by_weight = by_said[:, None] * shares
    by_score = weights * (by_weight - (weights * by_weight).sum(axis=1, keepdims=True))
    by_s, by_score = by_score[:, -1].sum(), by_score[:, :-1]
    by_K = model.a * by_score
    by_p = np.tensordot(products, by_K, 2)
    by_c = 2 * model.c / (model.c**2).sum() * (by_p - p @ by_p)
    by_A = np.zeros_like(A)
    AE = np.moveaxis(np.swapaxes(E, -1, -2) @ A.T, -1, 0)
    for h in range(model.window):
        rest = [
            p[place] * np.prod(G[[g for g in one if g != h]], axis=0)
            for place, one in enumerate(every)
            if h in one
        ]
        by_G = by_K * np.sum(rest, axis=0)
        by_A[h] = np.tensordot(by_G, EA[h] + AE[h], 2)
    by_w = A * (by_A - (A * by_A).sum(axis=1, keepdims=True))
    gradient = np.concatenate([by_w.reshape(-1), by_c, [(by_score * K).sum(), by_s]])
    return float(-np.log(said).mean()), gradient


def probabilities(model: Model, tokens: Array, symbols: int) -> Array:
    """y for every sequence, with features written out and both layers as attention: (n, symbols).

    The classifier is segre's softmax; that it agrees with the loss above is tested.
    """
    x = np.eye(symbols)[tokens[:, :-1].astype(np.int64)]
    past = np.lib.stride_tricks.sliding_window_view(x, model.window, axis=1)[..., ::-1]
    v = np.einsum("blsi,hi->blhs", past, model.copied)
    parts = []
    for one, share in zip(sets(model.window), model.selected, strict=True):
        part = np.ones((*v.shape[:2], 1))
        for h in one:
            part = (part[..., :, None] * v[:, :, h, None, :]).reshape(*v.shape[:2], -1)
        parts.append(np.sqrt(share) * part)
    u = np.concatenate(parts, axis=-1)
    queries, keys, values = model.a * u[:, -1:], u[:, :-1], x[:, model.window :]
    if model.bare:
        return mix(SOFTMAX, queries, keys, values)[:, 0] * (1 - TINY * symbols) + TINY
    count, _, wide = queries.shape
    queries = np.concatenate([queries, np.full((count, 1, 1), model.s)], axis=-1)
    empty = np.broadcast_to(np.eye(wide + 1)[-1], (count, 1, wide + 1))
    keys = np.concatenate([np.pad(keys, ((0, 0), (0, 0), (0, 1))), empty], axis=1)
    alike = np.full((count, 1, symbols), 1 / symbols)
    return mix(SOFTMAX, queries, keys, np.concatenate([values, alike], axis=1))[:, 0]
