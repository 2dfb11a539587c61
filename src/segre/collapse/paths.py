"""A network as the sum over all its paths, without listing them.

Given its patterns a pass is affine, and its output is

    sum over paths P_path X W_path + bias,    P_path = P_hL ... P_h1,  W_path = W_h1 ... W_hL,

where a path has a head or (0) the skip in every layer. The sum of all paths of length k through the
first l layers follows from those through one layer less:

    T_k  <-  [T_k +] sum_h P_h T_(k-1) W_h.

Norms and MLPs, where recorded, are linear maps that every path goes through; an MLP beside the
heads of a layer is on the way past them, with the skip. Biases are collected apart; as rows of P
sum to one, masked or not (but for sinks), they are the same for all tokens, until an MLP or a norm
acts on them.

With H heads in L layers and skips there are C(L, k) H^k paths of length k: their shares are those
of the binomial distribution with L draws of chance H / (H + 1).

Terms may be large and cancel each other, so their norms do not say what they contribute. Their
shares <term, output> / |output|^2 do: with that of the biases they add up to one.

>>> done = FloatNetwork.random(12, 12, 24, skip=True, bias=0.1).forward(np.eye(5, 24))
>>> found = path_sums(done)
>>> f"{sum(found.counts):,}"
'23,298,085,122,481'
>>> bool(np.allclose(found.total, done.output))
True
>>> path_counts([2, 2, 2])
[1, 6, 12, 8]
>>> f"{found.shares[:7].sum():.2f} {found.shares[7:].sum():.2f} {found.bias_share:.2f}"
'0.41 0.25 0.34'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np

from segre.collapse.passes import Pass, RecordedLayer
from segre.collapse.residual import norm, residual
from segre.collapse.stack import FloatNetwork
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.models import Source, with_attention

Path = tuple[int, ...]  # in every layer the number of a head, from 1, or 0 for the skip


@dataclass(frozen=True)
class PathSums:
    """Sums of all paths of each length; with the bias they add up to the output."""

    by_length: Array  # (layers + 1, ..., n, d)
    bias: Array  # (..., n, d)
    counts: tuple[int, ...]

    @property
    def total(self) -> Array:
        """All paths and the bias: the output of the network."""
        return np.asarray(self.by_length.sum(axis=0) + self.bias)

    @property
    def shares(self) -> Array:
        """Shares of the output by length: (layers + 1, ...)."""
        return share(self.by_length, self.total)

    @property
    def bias_share(self) -> Array:
        """The share of the biases; with those of all lengths it makes one."""
        return share(self.bias, self.total)

    def document(self) -> dict[str, Any]:
        """Counts, norms, residuals and shares by length, as plain data for JSON."""
        return {
            "counts": list(self.counts),
            **_sizes(self.by_length),
            "share": self.shares.tolist(),
            "bias": norm(self.bias).tolist(),
            "bias_share": self.bias_share.tolist(),
        }


def share(terms: Array, whole: Array) -> Array:
    """<term, whole> / |whole|^2 of terms (..., n, d); not a number if the whole is 0.

    >>> X = np.array([[3.0, 0.0]])
    >>> float(share(np.array([[4.0, 9.0]]), X)), float(share(np.array([[-1.0, -9.0]]), X))
    (1.333..., -0.333...)
    """
    square = (whole * whole).sum(axis=(-2, -1))
    along = (terms * whole).sum(axis=(-2, -1))
    return np.asarray(along / np.where(square > 0, square, np.nan))


def path_sums(done: Pass) -> PathSums:
    """The sums of all paths by length."""
    layers = done.layers
    terms, shortest = done.X[None], 0
    for layer in layers:
        longer = layer.attention(terms, constants=False)
        if layer.past is not None:
            none = np.zeros_like(longer[:1])
            past = layer.past.apply(terms, constants=False)
            longer = np.concatenate([past, none]) + np.concatenate([none, longer])
        else:
            shortest += 1
        terms = layer.finish(longer, constants=False)
    every = np.zeros((len(layers) + 1, *terms.shape[1:]))
    every[shortest : shortest + len(terms)] = terms
    return PathSums(every, done.constant, tuple(_suffixes(layers)[0]))


def head_shares(done: Pass) -> tuple[Array, ...]:
    """Shares of the output of all paths through each head of each layer: (H, ...) by layer.

    In one layer they add up, with that of the paths that go past it and that of the biases, to one.
    Over layers they do not: a path goes through several heads.
    """
    whole = done.replay()[-1]
    square = (whole * whole).sum(axis=(-2, -1))
    size = np.where(square > 0, square, np.nan)
    return tuple(along / size for along in head_products(done, whole))


def head_products(done: Pass, against: Array) -> list[Array]:
    """Inner products with `against` of the sum of all paths through each head: (H, ...) by layer.

    Such a path goes up to the head's layer, through it, and through the rest in any way. The rest
    is pulled back onto `against` layer by layer, so that no head is pushed through later layers.
    Every path of length k is in the sums of k heads, one in each layer that it does not go past.
    """
    states = done.replay(constants=False)[:-1]
    out: list[Array] = []
    for layer, tokens in zip(reversed(done.layers), reversed(states), strict=True):
        out.append(np.moveaxis(layer.along(tokens, layer.pull_finish(against)), -1, 0))
        against = layer.pull(against)
    return out[::-1]


def path_term(done: Pass, path: Path) -> Array:
    """P_path X W_path: what one path contributes, exactly."""
    layers = done.layers
    if len(path) != len(layers):
        raise SegreError(
            f"path {path} has {len(path)} steps for {len(layers)} layers; give one "
            "step for each layer"
        )
    tokens = done.X
    for number, (layer, h) in enumerate(zip(layers, path, strict=True), 1):
        skip = layer.past is not None
        if not 1 - skip <= h <= layer.heads:
            raise SegreError(
                f"path {path}: no step {h} in layer {number}; allowed: {1 - skip} to "
                f"{layer.heads}{' (0 is the skip)' * skip}"
            )
        if h:
            read = layer.before.apply(tokens, constants=False)
            values = read @ layer.W_V[..., h - 1, :, :] @ layer.W_O[..., h - 1, :, :]
            tokens = layer.out.apply(layer.P[..., h - 1, :, :] @ values, constants=False)
        elif layer.past is not None:
            tokens = layer.past.apply(tokens, constants=False)
        tokens = layer.finish(tokens, constants=False)
    return np.asarray(tokens)


def sample_paths(done: Pass, length: int, count: int, seed: int = 0) -> list[Path]:
    """Paths of a length, each drawn uniformly from all of them."""
    suffixes = _suffixes(done.layers)
    numbers = suffixes[0]
    if not 0 <= length < len(numbers) or not numbers[length]:
        there = ", ".join(str(k) for k, number in enumerate(numbers) if number)
        raise SegreError(f"length {length} is not allowed; allowed: {there}")
    rng = Random(seed)
    indices = [rng.randrange(numbers[length]) for _ in range(count)]
    return [_nth_path(done.layers, suffixes, length, index) for index in indices]


def isolated(stack: FloatNetwork, path: Path) -> FloatNetwork:
    """The network of one head in each layer of a path, and of no others.

    This is not a term of the sum: its patterns are those of what the path itself sees. Layers that
    the path goes past are left out, with their MLPs.
    """
    pairs = zip(stack.layers, path, strict=True)
    layers = tuple((heads.only(h), mlp) for (heads, mlp), h in pairs if h)
    return replace(stack, layers=layers, skip=False, mlp_skip=stack.skips_mlp)


def _nth_path(
    layers: tuple[RecordedLayer, ...], suffixes: list[list[int]], length: int, index: int
) -> Path:
    """The path of this length and index, in the order of their steps."""
    path = []
    for layer, counts in zip(layers, suffixes[1:], strict=True):
        rest = [*counts, 0]
        past = 0 if layer.past is None else rest[length]
        if index < past:
            path.append(0)
            continue
        h, index = divmod(index - past, rest[length - 1])
        path.append(h + 1)
        length -= 1
    return tuple(path)


def _suffixes(layers: tuple[RecordedLayer, ...]) -> list[list[int]]:
    """Numbers of paths by length from every layer on, and from after the last."""
    pairs = ((layer.heads, layer.past is not None) for layer in reversed(layers))
    return [*accumulate(pairs, one_layer_more, initial=[1])][::-1]


def _sizes(terms: Array) -> dict[str, Any]:
    return {"norm": norm(terms).tolist(), "residual": norm(residual(terms)).tolist()}


def path_counts(heads: Sequence[int], skips: Sequence[bool] | bool = True) -> list[int]:
    """Numbers of paths of length 0, 1, ... through layers with these heads; exact."""
    every = [skips] * len(heads) if isinstance(skips, bool) else skips
    return reduce(one_layer_more, zip(heads, every, strict=True), [1])


def one_layer_more(counts: list[int], layer: tuple[int, bool]) -> list[int]:
    """Numbers of paths by length if there is one layer more, of heads and a skip, at either end."""
    heads, skip = layer
    through = [0, *(heads * count for count in counts)]
    past = [*counts, 0] if skip else [0] * len(through)
    return [one + other for one, other in zip(through, past, strict=True)]


def path_shares(layers: int, heads: int) -> list[float]:
    """Shares of the paths of length 0, ..., layers, where every layer has a skip."""
    return _shares(path_counts([heads] * layers))


def shares_of(source: Source) -> list[float]:
    """The same of an architecture: a spec, a preset, a model directory.

    >>> [round(share, 4) for share in shares_of("bert-large-uncased")[-2:]]
    [0.3501, 0.2334]
    """
    return _shares(counts_of(source))


def counts_of(source: Source) -> list[int]:
    """The numbers of paths of an architecture."""
    spec = with_attention(source, "segre model paths")
    return path_counts(spec.heads_by_layer, spec.residual)


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts]
