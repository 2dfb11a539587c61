"""One layer with one head: from samples (lightning) or a black box (softmax) to an answer."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from segre.fields.interface import Array
from segre.fields.linear import Rationals
from segre.fields.rational import Rational
from segre.geometry.recovery.answer import Recovered, measured
from segre.geometry.recovery.descent import descend, misfit, squared_error
from segre.geometry.recovery.fit import inputs_needed, weights_of
from segre.geometry.recovery.lightning import Forms, Head, factor, miss, quadratic_forms
from segre.geometry.recovery.samples import (
    BlackBox,
    NotDetermined,
    NotThisLayer,
    Samples,
    relative,
)
from segre.geometry.recovery.softmax import probe
from segre.geometry.recovery.visible import canonical, normalise_scale
from segre.network import forward
from segre.spec import Network

_ROUNDING = 1e-9  # relative residuals below this are not held against a model
_ENOUGH = 20  # degrees of freedom from which residuals measure the noise
_REFUSED = 100.0  # times the variance that noise explains
_VERIFY = 8  # inputs to verify with, at least


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
