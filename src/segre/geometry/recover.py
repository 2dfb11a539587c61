"""Recovering the weights of a function from a black box, or from inputs and outputs.

One lightning layer is found by linear algebra, exactly if the data are exact; one softmax layer
from a black box by evaluating it at chosen inputs; everything else by fitting from several starts,
verified on held-out inputs. If the data do not determine an answer, segre says what is missing.
docs/recovery.md has the mathematics and measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from segre.attention import PLAIN as NAMES
from segre.attention.mechanism import SOFTMAX
from segre.errors import SegreError
from segre.fields.rational import Rational
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.recovery.answer import Recovered, measured, normalise_scale, scale_pivot
from segre.geometry.recovery.fit import HELD_OUT, Search, descend, fit, inputs_needed
from segre.geometry.recovery.layer import lightning_layer, softmax_layer
from segre.geometry.recovery.lightning import Head, least_inputs, require_room
from segre.geometry.recovery.samples import (
    BlackBox,
    NotDetermined,
    NotRecovered,
    NotThisLayer,
    Samples,
    TooFewInputs,
    relative,
)
from segre.spec import Network

__all__ = [
    "Head",
    "NotDetermined",
    "NotRecovered",
    "NotThisLayer",
    "Recovered",
    "Samples",
    "Search",
    "TooFewInputs",
    "fit",
    "normalise_scale",
    "recover",
    "scale_pivot",
]

_EXACT = 1e-6  # relative residual below which floats count as exact data
_NOISY = 0.1  # relative residual that may be noise, where no local minimum can be mistaken for it
_HALF = 0.5  # with a larger residual, most of the outputs is not explained at all
_DOUBLINGS = 3
_TWICE = 4  # inputs asked about twice
_VERIFY = 4  # inputs more than needed, at least


def recover(
    source: Samples | BlackBox,
    spec: str | Path | Mapping[str, Any] | Network,
    *,
    a: int | None = None,
    exact: bool = False,
    tolerance: float | None = None,
    starts: int = 20,
    oversample: float = 2.0,
    size: float = 1.0,
    seed: int = 0,
    memory: int = DEFAULT_LIMIT,
) -> Recovered:
    """The canonical weights of a function given by samples or as a black box.

    `source` is a `Samples`, or a function of inputs. `spec` is an architecture, or for samples just
    "lightning" or "softmax" (with `a`, otherwise without a bound on the rank). `exact` evaluates a
    black box at fractions. `tolerance` is the relative residual that counts as noise; by default
    0.1 for samples of one lightning layer, 1e-6 for fits, and for black boxes ten times the
    difference of two evaluations at the same input. `starts` is for fits; `oversample` and `size`
    set the number and the size of inputs for a black box.

    >>> truth = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[1.0, 0.5], [0.0, 0.25]])
    >>> found = recover(lambda X: truth[0] @ X @ (X.T @ truth[1] @ X), "lightning/d=2,2/a=2/t=3")
    >>> np.allclose(found.V, truth[0], rtol=1e-12), np.allclose(found.A, truth[1], atol=1e-12)
    (True, True)
    """
    if not isinstance(source, Samples) and not callable(source):
        raise SegreError(
            f"{type(source).__name__} is not a source; allowed: Samples (Samples.read for a file) "
            "or a function of X"
        )
    _require_sensible(starts, oversample, size, seed)
    net = _network(source, spec, a)
    _require_visible(net)
    single = net.depth == 1 and net.layers[0].heads == 1
    if isinstance(source, Samples):
        source.require(net)
        if single and net.mechanism.bilinear:
            return lightning_layer(net, source, _NOISY if tolerance is None else tolerance, memory)
        return _fitted(
            net, source.floats(), starts, seed, _EXACT if tolerance is None else tolerance
        )
    if exact and not (single and net.mechanism.bilinear):
        raise SegreError("exact answers are supported only for one lightning layer with one head")
    if tolerance is None:
        tolerance = 0.0 if exact else _noise(source, net, size, seed)
    if single and net.mechanism == SOFTMAX:
        return softmax_layer(net, source, tolerance, oversample, seed)
    rng = np.random.default_rng(seed)

    def ask(count: int) -> Samples:
        shape = (ceil(oversample * count), net.widths[0], net.t)
        if single:  # know before asking
            require_room(shape, memory)
        X = rng.integers(-4, 5, shape) if exact else size * rng.standard_normal(shape)
        samples = Samples.ask(source, Rational().constant(X) if exact else X, net.widths[-1])
        if exact and not samples.exact:
            raise SegreError("the black box returns floats for fractions; leave out `exact`")
        return samples

    if single:
        return _with_enough(
            lambda samples: lightning_layer(net, samples, tolerance, memory),
            ask,
            least_inputs(net.widths[0], net.t),
        )
    return _with_enough(
        lambda samples: _fitted(net, samples, starts, seed, tolerance),
        ask,
        ceil((inputs_needed(net) + _VERIFY) / (1 - HELD_OUT)),
    )


def _with_enough(
    solve: Callable[[Samples], Recovered], ask: Callable[[int], Samples], count: int
) -> Recovered:
    """Evaluate more inputs if the random ones are not enough."""
    for doublings in range(_DOUBLINGS):
        try:
            return solve(ask(count << doublings))
        except TooFewInputs:
            continue
    return solve(ask(count << _DOUBLINGS))


def _fitted(net: Network, samples: Samples, starts: int, seed: int, tolerance: float) -> Recovered:
    """Fit from several starts, verify on held-out inputs, then refine on all inputs."""
    if not samples.Y.any():
        raise NotDetermined("zero function: it does not determine the weights")
    search = fit(net, samples, starts=starts, seed=seed, tolerance=tolerance)
    if not search.successes:
        raise NotRecovered(
            f"none of {starts} starts predicts the held-out inputs to {tolerance:.1e} (best: "
            f"{search.residual:.1e}); try more starts, another spec or, for noisy data, a "
            "larger tolerance"
        )
    vector = descend(net, samples, search.vector)
    return measured(net, vector, samples, "fitted", search.residual, search=search)


def _noise(box: BlackBox, net: Network, size: float, seed: int) -> float:
    """Ten times the relative difference of two evaluations at the same input; at most a half."""
    X = size * np.random.default_rng(seed).standard_normal((_TWICE, net.widths[0], net.t))
    first, second = (Samples.ask(box, X, net.widths[-1]).Y for _ in range(2))
    return min(max(_EXACT, 10 * relative(first - second, first)), _HALF)


def _network(
    source: Samples | BlackBox, spec: str | Path | Mapping[str, Any] | Network, a: int | None
) -> Network:
    if not isinstance(spec, str) or spec not in NAMES:
        if a is not None:
            raise SegreError("the spec already gives a; leave out --a")
        return Network.parse(spec).require_plain()
    if not isinstance(source, Samples):
        raise SegreError(
            f"the shape of a black box is not known; give a full spec such as {spec}/d=4,4/a=2/t=3"
        )
    _, d, t = source.X.shape
    given = {"kind": spec, "d": [d, source.Y.shape[1]], "a": d if a is None else a, "t": t}
    return Network.parse(given)


def _require_sensible(starts: int, oversample: float, size: float, seed: int) -> None:
    if starts < 1 or seed < 0 or not oversample >= 1 or not 0 < size < np.inf:
        raise SegreError(
            f"starts {starts}, oversample {oversample}, size {size} or seed {seed} is not allowed; "
            "allowed: starts from 1, oversample from 1, size above 0, seed from 0"
        )


def _require_visible(net: Network) -> None:
    """Refuse what no data can determine."""
    if net.t == 1:
        reason = (
            "a lightning layer depends only on the symmetrised cubic form"
            if net.mechanism.bilinear
            else "the softmax of one score is 1, so A has no effect"
        )
        raise NotDetermined(f"t = 1: with one token {reason}; give inputs with two tokens or more")
    reached = np.minimum.accumulate(net.widths)
    ranks = [min(layer.a, r) for layer, r in zip(net.layers, reached, strict=False)]
    if net.mechanism.bilinear and net.one_headed and 1 in ranks[:-1]:
        raise NotDetermined(
            "after a lightning layer with a = 1 all tokens are parallel, and the next layer "
            "depends only on the symmetric part of the scores; every layer but the last needs "
            "a >= 2"
        )
