"""Recovery of weights from functions: errors, seconds, and how often a fit succeeds.

First one layer with one head, given as a black box, of growing width: the relative error of
the recovered (V, A) against the truth, and for lightning also exactly, in fractions. The peer is
what one would do without the structure: a fit from random weights to the same number of
inputs, with segre's own Levenberg-Marquardt. Then fits of architectures for which there is nothing
but fitting: how many starts predict inputs held out, and whether they found the same
matrices. Everything has one BLAS thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean, median
from typing import Any, TypeVar

import numpy as np

from bench.harness import Report, arguments, blas_threads, timed
from segre import Network
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.fields.real import Real
from segre.geometry.recover import NotRecovered, Recovered, Samples, fit, normalise_scale, recover
from segre.geometry.recovery.answer import canonical
from segre.geometry.recovery.samples import relative
from segre.network import forward
from segre.weights import Weights

T = TypeVar("T")

TARGET = ("d=8", 1e-10)  # relative error from exact data, a = 3, t = 4
HEAD_RANK, TOKENS = 3, 4
WIDEST_EXACT, WIDEST_PEER = 12, 12
SAME = 1e-6  # matrices this near to the truth, relatively, are the same
FITS = (
    "softmax/d=8,8/a=3/t=4",
    "softmax/d=3,3/a=1/heads=2/t=3",
    "softmax/d=4,4/a=2/heads=2/t=3",
    "softmax/d=6,6/a=2/heads=2/t=4",
    "softmax/d=4,4/a=1/heads=3/t=3",
    "softmax/d=6,6/a=2/heads=3/t=4",
    "softmax/d=4,4/a=1/heads=4/t=4",
    "softmax/d=3,3,3/a=2/t=3",
    "lightning/d=2,2,2/a=2/t=3",
    "lightning/d=3,3,3/a=2/t=3",
    "lightning/d=4,4,4/a=2/t=3",
    "lightning/d=4,4,4/a=4/t=3",
    "lightning/d=2,2,2,2/a=2/t=3",
)
QUICK = (FITS[1], FITS[8])
LAYER_COLUMNS = {
    "kind": ("kind", ""),
    "d": ("d", ""),
    "inputs": ("inputs", ""),
    "error": ("largest error", ".1e"),
    "estimate": ("its estimate", ".1e"),
    "seconds": ("segre s", ".3f"),
    "exact": ("fractions equal", ""),
    "exact_seconds": ("fractions s", ".3f"),
    "peer_rate": ("fit succeeds", ".0%"),
    "peer_seconds": ("fit s", ".3f"),
    "target": ("target", ""),
}
FIT_COLUMNS = {
    "spec": ("spec", ""),
    "inputs": ("inputs", ""),
    "truths": ("truths", ""),
    "starts": ("starts each", ""),
    "rate": ("starts that succeed", ".1%"),
    "found": ("truths found", ""),
    "same": ("same matrices", ""),
    "seconds": ("s per start", ".3f"),
}


def clocked(action: Callable[[], T]) -> tuple[T, float]:
    """A result, and the seconds it took."""
    kept: list[T] = []
    seconds = timed(lambda: kept.append(action()))
    return kept[0], seconds[0]


def black_box(weights: Weights) -> Any:
    return lambda X: forward(weights.field, weights.spec, weights.vector, X)


def head_error(found: Recovered, weights: Weights) -> float:
    """The larger relative error of V and A."""
    V, A = (matrix[0] for matrix in canonical(weights.spec, weights.vector))
    return max(relative(found.V - V, V), relative(found.A - A, A))


def one_layer(kind: str, d: int, truths: int, seed: int) -> dict[str, Any]:
    net = Network.parse(f"{kind}/d={d},{d}/a={min(HEAD_RANK, d)}/t={TOKENS}")
    errors, estimates, seconds, peer_seconds, peer_successes = [], [], [], [], 0
    for number in range(truths):
        weights = Weights.random(net, seed + number)
        found, took = clocked(partial(recover, black_box(weights), net))
        seconds.append(took)
        errors.append(head_error(found, weights))
        estimates.append(found.error or 0.0)
        if d <= WIDEST_PEER:
            samples = random_samples(weights, found.inputs, seed + number)
            search, took = clocked(partial(fit, net, samples, starts=1))
            peer_seconds.append(took)
            peer_successes += search.successes
    exact, exact_seconds = None, None
    if kind == "lightning" and d <= WIDEST_EXACT:
        exact, exact_seconds = fractions(net, seed)
    met = "met" if max(errors) <= TARGET[1] else "missed"
    return {
        "kind": kind,
        "d": d,
        "inputs": found.inputs,
        "error": max(errors),
        "estimate": estimates[int(np.argmax(errors))],
        "seconds": median(seconds),
        "exact": exact,
        "exact_seconds": exact_seconds,
        "peer_rate": peer_successes / truths if peer_seconds else None,
        "peer_seconds": median(peer_seconds) if peer_seconds else None,
        "target": f"{TARGET[1]:.0e}: {met}" if f"d={d}" == TARGET[0] else None,
    }


def fractions(net: Network, seed: int) -> tuple[str, float]:
    """Whether fractions are recovered exactly, and in how many seconds."""
    weights = Weights.random(net, seed, exact=True)
    layer = weights.layers[0]
    A = Rational().matmul(layer.W_K[0].T, layer.W_Q[0])
    V, A = normalise_scale(layer.W_V[0], A)
    found, seconds = clocked(partial(recover, black_box(weights), net, exact=True))
    equal = bool((found.V == V).all() and (found.A == A).all())
    return ("yes" if equal else "NO"), seconds


def random_samples(weights: Weights, count: int, seed: int) -> Samples:
    rng = np.random.default_rng([seed, count])
    X = rng.standard_normal((count, weights.spec.widths[0], weights.spec.t))
    return Samples(X, forward(Real(), weights.spec, weights.vector, X))


def fits(spec: str, truths: int, starts: int, seed: int) -> dict[str, Any]:
    net = Network.parse(spec)
    rates, seconds, same, inputs = [], [], [], 0
    for number in range(truths):
        weights = Weights.random(net, seed + 1000 + number)
        samples = fit_samples(weights, seed + number)
        inputs = len(samples)
        answer, took = clocked(partial(attempt, samples, net, starts, seed + 50 * number))
        seconds.append(took / starts)
        rates.append(0.0 if answer is None else answer.success_rate or 0.0)
        if answer is not None:
            same.append(same_matrices(answer, weights))
    return {
        "spec": spec,
        "inputs": inputs,
        "truths": truths,
        "starts": starts,
        "rate": mean(rates),
        "rates": rates,
        "found": f"{len(same)}/{truths}",
        "same": f"{sum(same)}/{len(same)}",
        "seconds": mean(seconds),
    }


def attempt(samples: Samples, net: Network, starts: int, seed: int) -> Recovered | None:
    try:
        return recover(samples, net, starts=starts, seed=seed)
    except NotRecovered:
        return None


def fit_samples(weights: Weights, seed: int) -> Samples:
    """Twice as many inputs as parameters need, and a third more to hold out."""
    net = weights.spec
    outputs = net.widths[-1] * net.t
    return random_samples(weights, 8 + 8 * net.parameters // (3 * outputs), seed)


def same_matrices(answer: Recovered, weights: Weights) -> bool:
    """Whether all that is visible of the weights is the truth's, whatever the order of heads."""
    truth = canonical(weights.spec, weights.vector)
    if answer.products:
        pairs = zip(answer.products, truth, strict=True)
        return all(relative(found - right[0], right[0]) <= SAME for found, right in pairs)
    left = list(range(len(truth[0])))
    for head in answer.heads:
        near = [h for h in left if _near(head.V, truth[0][h]) and _near(head.A, truth[1][h])]
        if not near:
            return False
        left.remove(near[0])
    return True


def _near(found: Array, truth: Array) -> bool:
    return relative(found - truth, truth) <= SAME


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    quick = options.quick
    with blas_threads(1):
        report = Report("recovery", options)
        layers = [
            one_layer(kind, d, 2 if quick else 5, options.seed)
            for kind in ("lightning", "softmax")
            for d in ((2, 3) if quick else (2, 4, 8, 12, 16))
        ]
        report.table(
            f"one layer as a black box, d' = d, a = {HEAD_RANK} (or d), t = {TOKENS}; "
            "largest error and median seconds of the truths",
            LAYER_COLUMNS,
            layers,
        )
        worst = max(row["error"] for row in layers)
        report.remark("layers", layers, f"largest relative error of all: {worst:.1e}")
        truths, starts = (3, 4) if quick else (20, 20)
        rows = [fits(spec, truths, starts, options.seed) for spec in (QUICK if quick else FITS)]
    report.table(
        "fits from random weights; success: held-out inputs predicted to 1e-6, same: "
        f"V and A (or L and M_i) within {SAME:.0e} of the truth",
        FIT_COLUMNS,
        rows,
    )
    report.finish()


if __name__ == "__main__":
    main()
