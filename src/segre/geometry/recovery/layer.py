"""One layer with one head: from samples (lightning) or a black box (softmax) to an answer."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import Rationals
from segre.fields.rational import Rational
from segre.geometry.recovery.answer import Recovered, canonical, measured, normalise_scale
from segre.geometry.recovery.fit import descend, inputs_needed, misfit, squared_error, weights_of
from segre.geometry.recovery.lightning import Forms, Head, factor, miss, quadratic_forms
from segre.geometry.recovery.samples import (
    BlackBox,
    NotDetermined,
    NotThisLayer,
    Samples,
    relative,
)
from segre.network import forward
from segre.spec import Network

_ROUNDING = 1e-9  # relative residuals below this are not held against a model
_ENOUGH = 20  # degrees of freedom from which residuals measure the noise
_REFUSED = 100.0  # times the variance that noise explains
_VERIFY = 8  # inputs to verify with, at least
_ROUNDS = 40  # sizes of inputs that are tried
_CERTAIN = 1e-6  # shares nearer to 0 or 1 than this are cut off: their scores are not readable
_NOISY = 0.6  # shares farther than this from 1/2 are neither 0, 1 nor between
_LARGEST, _SMALLEST = 4.0, 0.25  # largest score among the queries
_NEAREST, _FARTHEST = 1e-6, 1e6  # inputs smaller or larger than this are not tried


def lightning_layer(spec: Network, samples: Samples, tolerance: float, memory: int) -> Recovered:
    """The canonical (V, A) of a lightning head, exactly or in least squares."""
    forms = quadratic_forms(samples, memory)
    if not samples.Y.any():
        raise NotDetermined(
            "zero function: it does not determine the weights, since V = 0 or A = 0 is enough"
        )
    if samples.exact:
        return _exactly(spec, samples, forms)
    candidates = factor(forms.T)
    misses = [relative(miss(head, forms.T), forms.T) for head in candidates]
    close = max(3 * min(misses), _ROUNDING)
    fitted: list[tuple[float, Array]] = []
    for head, missed in zip(candidates, misses, strict=True):
        if missed <= close:
            vector = descend(spec, samples, weights_of(spec, head))
            fitted.append((squared_error(spec, vector, samples), vector))
    fitted.sort(key=lambda pair: pair[0])
    squares, vector = fitted[0]
    notes = _judged(spec, samples, forms, squares, tolerance)
    residual = misfit(spec, vector, samples)
    answer = measured(spec, vector, samples, "least-squares", residual, notes=notes)
    others = []
    for more, other in fitted[1:]:
        V, A = canonical(spec, other)
        if _as_good(squares, more, samples, spec) and _differs(Head(V[0], A[0]), answer):
            others.append(Head(V[0], A[0]))
    return replace(answer, alternatives=tuple(others))


def softmax_layer(
    spec: Network, box: BlackBox, tolerance: float, oversample: float, seed: int
) -> Recovered:
    """(V, A) of a softmax head from chosen inputs, refined on them and verified on others."""
    d, outputs = spec.widths
    head, samples, size, asked = probe(box, d, outputs, spec.t)
    rng = np.random.default_rng(seed)
    count = max(_VERIFY, ceil(oversample * inputs_needed(spec)))
    more, unseen = (
        Samples.ask(box, size * rng.standard_normal((count, d, spec.t)), outputs) for _ in range(2)
    )
    known = samples.joined(more)
    vector = descend(spec, known, weights_of(spec, head))
    residual = misfit(spec, vector, unseen)
    if residual > tolerance:
        raise _wrong(spec, residual, tolerance)
    answer = measured(spec, vector, known, "least-squares", residual)
    return replace(answer, inputs=asked + 2 * count)


def _exactly(spec: Network, samples: Samples, forms: Forms) -> Recovered:
    """The heads whose tensor is exactly the one found, and that give exactly the outputs."""
    heads = [
        Head(*normalise_scale(*head))
        for head in (factor(forms.T) if forms.T.any() else [])
        if not miss(head, forms.T).any() and _reproduces(spec, head, samples)
    ]
    if not heads:
        raise NotThisLayer(
            f"the outputs at {len(samples)} inputs are not exactly those of any lightning head; "
            "if they are rounded, give them as floats"
        )
    limits = spec.layers[0]
    algebra = Rationals()
    for name, matrix, most in (("A", heads[0].A, limits.a), ("V", heads[0].V, limits.dv)):
        rank = algebra.rank(matrix)
        if most is not None and rank > most:
            raise NotThisLayer(
                f"the data determine {name} exactly, with rank {rank}; {str(spec)!r} allows at "
                f"most {most}"
            )
    return Recovered(
        spec=spec,
        status="exact",
        residual=0.0,
        inputs=len(samples),
        heads=(heads[0],),
        alternatives=tuple(heads[1:]),
    )


def _reproduces(spec: Network, head: Head, samples: Samples) -> bool:
    """Whether the head gives exactly the outputs, by the network's own forward map."""
    d, outputs = spec.widths
    full = Network.parse({"kind": "lightning", "d": [d, outputs], "a": d, "t": spec.t})
    field = Rational()
    parts = (field.constant(np.eye(d, dtype=int)), head.A, head.V)
    vector = np.concatenate([part.reshape(-1) for part in parts])
    return bool((forward(field, full, vector, samples.X) == samples.Y).all())


def _judged(
    spec: Network, samples: Samples, forms: Forms, squares: float, tolerance: float
) -> tuple[str, ...]:
    """Refuse residuals that are too large, or much larger than noise explains; or note it.

    The tensor before it is factored has room for sums of heads. If that room explains more than
    its share of what one head leaves over (an F-test), there is more than one head, or the noise
    grows with the outputs; if it explains a hundred times its share, the former.
    """
    total = float((samples.Y**2).sum())
    residual = float(np.sqrt(squares / total))
    if residual > tolerance:
        raise _wrong(spec, residual, tolerance)
    room = samples.Y.size - forms.freedom - _dimension(spec)
    if residual < _ROUNDING or forms.freedom < _ENOUGH or room <= 0:
        return ()
    ratio = (squares - forms.squares) / room / (forms.squares / forms.freedom)
    if ratio > _REFUSED:
        raise NotThisLayer(
            f"one head of {str(spec)!r} leaves a relative residual of {residual:.1e}, of which "
            f"noise explains {np.sqrt(forms.squares / total):.1e}; try several heads or a "
            "larger a"
        )
    if ratio < 1 + 8 * np.sqrt(2 / room + 2 / forms.freedom) + 20 / room:
        return ()
    return (
        f"one head leaves {np.sqrt(ratio):.1f} times the residuals of uniform noise: there is a "
        "small second head, or the noise grows with the outputs",
    )


def _dimension(spec: Network) -> int:
    """The dimension of one lightning head: matrices of bounded rank, up to one scale."""
    d, outputs = spec.widths
    limits = spec.layers[0]
    p, r = min(limits.a, d), min(d, outputs, limits.dv or d)
    return p * (2 * d - p) + r * (d + outputs - r) - 1


def _as_good(squares: float, more: float, samples: Samples, spec: Network) -> bool:
    """Whether the noise cannot tell a fit with `more` squared residuals from the best."""
    freedom = max(samples.Y.size - spec.parameters, 1)
    slack = squares / freedom * (spec.parameters + 5 * np.sqrt(2 * spec.parameters))
    floor = _ROUNDING**2 * float((samples.Y**2).sum())
    return bool(more <= max(squares + slack, floor))


def _differs(other: Head, answer: Recovered) -> bool:
    """Whether a head is another one, rather than the same with other rounding or noise."""
    far = max(1e-6, 10 * (answer.error or 0.0))
    return (
        relative(other.V - answer.V, answer.V) > far or relative(other.A - answer.A, answer.A) > far
    )


def _wrong(spec: Network, residual: float, tolerance: float) -> NotThisLayer:
    return NotThisLayer(
        f"not a function of {str(spec)!r}: the best weights leave a relative residual of "
        f"{residual:.1e}, and only up to {tolerance:.1e} is taken as noise (tolerance)"
    )


# --- softmax --------------------------------------------------------------------------------------


def probe(box: BlackBox, d: int, outputs: int, t: int) -> tuple[Head, Samples, float, int]:
    """V and A, the samples they were read from, the size of inputs, and how often we asked.

    Tokens that are all equal to x give V x. Two kinds of tokens, x and y, are mixed with weights s
    and 1 - s, so that V shows s, and log(s / (1 - s)) shows (x - y)^T A z for the query z: linear
    in A. Scores should be of the order of one, where neither s nor 1 - s is lost to rounding; the
    size of the inputs is adjusted until they are.
    """
    equal = np.repeat(np.eye(d)[:, :, None], t, axis=2)
    first = Samples.ask(box, equal, outputs)
    V = first.Y.mean(axis=2).T
    if not V.any():
        raise NotDetermined("zero function: V = 0, so A has no effect and is not determined")
    differences, means = _directions(V)
    size, asked = 1.0, d
    for _ in range(_ROUNDS):
        X = size * _two_kinds(differences, means, t)
        samples = Samples.ask(box, X, outputs)
        asked += len(X)
        shares = _shares(V, size * differences, samples, t)
        scores = _scores(shares, t)
        largest = float(np.abs(scores).max())
        if np.abs(shares - 0.5).max() > _NOISY:
            break  # no mixture at all: noise, which smaller inputs would make worse
        if largest > _LARGEST and size > _NEAREST:
            size *= np.sqrt(1 / largest)
        elif largest < _SMALLEST and size < _FARTHEST:
            size *= min(16.0, np.sqrt(1 / max(largest, 1e-30)))
        else:
            break
    A = _bilinear(scores / size**2, differences, means)
    return Head(V, A), first.joined(samples), size, asked


def _directions(V: Array) -> tuple[Array, Array]:
    """A basis of differences x - y (rows) that V sees well, and for each d - 1 means (x + y) / 2.

    The first singular vector is seen best; adding it to the others makes all of them seen.
    """
    d = V.shape[1]
    rows = np.linalg.svd(V)[2]
    differences = rows + rows[0] * (np.arange(d) > 0)[:, None]
    differences /= np.linalg.norm(differences, axis=1, keepdims=True)
    if d == 1:
        return differences, np.zeros((1, 1, 1))
    means = np.stack([np.linalg.svd(row[None])[2][1:] for row in differences])
    return differences, means


def _two_kinds(differences: Array, means: Array, t: int) -> Array:
    """Inputs whose first tokens are mean + difference / 2, and the others mean - difference / 2."""
    sign = np.where(np.arange(t) < (t + 1) // 2, 0.5, -0.5)
    X = np.asarray(means[..., None] + differences[:, None, :, None] * sign)
    return X.reshape(-1, differences.shape[1], t)


def _shares(V: Array, differences: Array, samples: Samples, t: int) -> Array:
    """The share of x in the mixture, for queries x and y: shape (differences, means, 2)."""
    first = (t + 1) // 2
    seen = differences @ V.T
    # the output minus V x is V (x - y) times the share minus 1; minus V y it is times the share
    moved = (samples.Y - V @ samples.X).reshape(len(seen), -1, len(V), t)
    share = np.einsum("io,ijoq->ijq", seen, moved) / (seen**2).sum(axis=1)[:, None, None]
    share += np.arange(t) < first
    return np.stack([share[..., :first].mean(axis=-1), share[..., first:].mean(axis=-1)], axis=-1)


def _scores(shares: Array, t: int) -> Array:
    """(x - y)^T A z from the shares of x: x has (t + 1) // 2 of the tokens."""
    shares = shares.clip(_CERTAIN, 1 - _CERTAIN)
    first = (t + 1) // 2
    return np.asarray(np.log(shares / (1 - shares)) - np.log(first / (t - first)))


def _bilinear(scores: Array, differences: Array, means: Array) -> Array:
    """A from (x - y)^T A z at z = mean + difference / 2 and z = mean - difference / 2."""
    d = len(differences)
    known = np.empty((d, d))
    for i in range(d):
        at_means = scores[i].mean(axis=1)
        itself = (scores[i, :, 0] - scores[i, :, 1]).mean()
        basis = np.concatenate([means[i], differences[i : i + 1]])[-d:]
        known[i] = np.linalg.solve(basis, np.append(at_means, itself)[-d:])
    return np.linalg.solve(differences, known)
