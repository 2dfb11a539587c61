"""What is an n-gram Markov chain, what does an oracle say of it, and which past tokens matter?

Each token depends on the tokens at some lags before it, its parents: one row of probabilities,
drawn from a Dirichlet distribution, for every combination of parents. Lags lie within a window.
For a set S of lags, with the stationary distribution mu of a chain, the chi-square information is

    E_mu[ sum_e mu(e | Z_S)^2 / mu(e) - 1 ],

and the modified one, which the paper shows the feed-forward layer to maximise, has one more factor
mu(Z_S) inside the expectation. Both are means over random chains. (The weight mu(Z_S) was recalled,
not read: what is tested is that it picks the parents.)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from segre.fields.interface import Array

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
    lags = range(1, window + 1)
    return [one for count in lags for one in combinations(lags, count)]


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
