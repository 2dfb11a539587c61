"""What does attention compute? The plain and the latent kind of section 3."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import reduce

from segre.referee.meter import charge
from segre.referee.transformers.numbers import Matrix, Radicand, Scalar
from segre.referee.transformers.run import Run
from segre.referee.transformers.stages import Stage, seen
from segre.referee.transformers.weights import turning
from segre.transformer.spec import Transformer


def attention(run: Run, x: int, stage: Stage) -> int:
    """What attention writes to the stream."""
    spec, tape, part = run.spec.at(stage.layer), run.tape, stage.part
    scores, values = (_latent if spec.kvrank else _plain)(run, spec, x, part)
    for factor in _factors(run, spec, stage.layer):
        scores = [tape.scaled(Z, factor) for Z in scores]
    patterns = _patterns(run, spec, scores, stage)
    group = spec.heads // spec.kv
    mixed = [tape.product(values[h // group], pattern) for h, pattern in enumerate(patterns)]
    if spec.mixnorm:
        mixed = _normed_together(run, mixed, part, "normo", spec.mixeps or spec.eps)
    if spec.gate != "none":
        mixed = [_gated(run, spec, y, x, part, h) for h, y in enumerate(mixed)]
    written = [tape.product(run.leaves[part, "W_O", h], y) for h, y in enumerate(mixed)]
    y = reduce(tape.sum, written)
    bias = run.weight(part, "b_O")
    return y if bias is None else run.add_column(y, bias)


def _silu(run: Run, y: int) -> int:
    argument = run.tape.scaled_by(y, -1)
    run.note(run.tape.values[argument])
    return run.tape.times(y, run.sigmoid_of_minus(argument))


def _gated(run: Run, spec: Transformer, y: int, x: int, part: int, head: int) -> int:
    """What a head mixes, times its gate: one number for each token, or one for each entry."""
    tape = run.tape
    argument = tape.scaled_by(run.linear(x, part, "G", head), -1)
    run.note(tape.values[argument])
    gate = run.sigmoid_of_minus(argument)
    return tape.times(y, gate) if spec.gate == "element" else tape.columns_times(y, gate)


def _plain(run: Run, spec: Transformer, x: int, part: int) -> tuple[list[int], list[int]]:
    """Z of every head, and the values of every group; `spec` is that of the layer."""
    tape = run.tape
    group = spec.heads // spec.kv
    keys = [run.linear(x, part, "K", g) for g in range(spec.kv)]
    queries = [run.linear(x, part, "Q", h) for h in range(spec.heads)]
    values = [run.linear(x, part, "V", g) for g in range(spec.kv)]
    if spec.feature == "silu":
        keys, queries, values = ([_silu(run, y) for y in own] for own in (keys, queries, values))
    if spec.qknorm:
        eps = spec.eps
        if spec.qknorm == "all":
            keys = _normed_together(run, keys, part, "normk", eps)
            queries = _normed_together(run, queries, part, "normq", eps)
        else:
            keys = _normed(run, keys, part, "normk")
            queries = _normed(run, queries, part, "normq")
    if turning(spec):
        keys = [_rotated(run, spec, key) for key in keys]
        queries = [_rotated(run, spec, query) for query in queries]
    return [tape.pairing(keys[h // group], query) for h, query in enumerate(queries)], values


def _normed(run: Run, matrices: list[int], part: int, name: str) -> list[int]:
    root = run.open_root()
    return [run.normalised(x, part, name, False, root, i) for i, x in enumerate(matrices)]


def _normed_together(
    run: Run, matrices: list[int], part: int, name: str, eps: Fraction
) -> list[int]:
    """One norm of all matrices, each with a gain of its own."""
    tape, numbers = run.tape, run.numbers
    width = tape.values[matrices[0]].nrows()
    share = numbers.number(Fraction(1, width * len(matrices)))
    mean = tape.constant(numbers.ones(1, width) * share)
    squares = [tape.product(mean, tape.times(x, x)) for x in matrices]
    q = tape.shifted(reduce(tape.sum, squares), eps)
    inverse = tape.inverse_roots(q, Radicand(run.stage, run.open_root(), 0), run.here)
    result = []
    for i, x in enumerate(matrices):
        y = tape.columns_times(x, inverse)
        gain = run.leaves.get((part, f"{name}.gain", i))
        result.append(y if gain is None else tape.rows_times(y, gain))
    return result


def _latent(run: Run, spec: Transformer, x: int, part: int) -> tuple[list[int], list[int]]:
    """Z and the values of every head; `spec` is that of the layer."""
    tape = run.tape
    turned, heads = turning(spec), range(spec.heads)

    def weight(name: str, head: int = 0) -> int:
        return run.leaves[part, name, head]

    a = x
    if spec.qrank:
        (a,) = _normed(run, [tape.product(weight("A_Q"), x)], part, "normq")
    (c,) = _normed(run, [tape.product(weight("A_K"), x)], part, "normk")
    scores = [
        tape.pairing(tape.product(weight("W_K", h), c), tape.product(weight("W_Q", h), a))
        for h in heads
    ]
    if turned:
        common = _rotated(run, spec, tape.product(weight("R_K"), x))
        for h in heads:
            query = _rotated(run, spec, tape.product(weight("R_Q", h), a))
            scores[h] = tape.sum(scores[h], tape.pairing(common, query))
    return scores, [tape.product(weight("W_V", h), c) for h in heads]


def _factors(run: Run, spec: Transformer, layer: int) -> Iterator[Scalar]:
    """By what scores are multiplied: their scale, and a factor of rescaled latent attention."""
    none = Fraction(0)
    square = Fraction(1)
    if spec.scale:
        square *= (spec.head + (turning(spec) if spec.kvrank else 0)) / spec.scale
    if spec.bylayer:
        square /= layer * layer
    if square != 1:
        yield run.numbers.grown(square, none, none, Fraction(1))
    if (how := spec.rescaling) is not None and spec.kvrank and how.all:
        for _ in range(2):
            yield run.numbers.grown(Fraction(1), how.all / 10, none, how.factor)


def _patterns(run: Run, spec: Transformer, scores: list[int], stage: Stage) -> list[int]:
    """How much each query (a column) takes from each key (a row), for every head."""
    tape, t = run.tape, spec.t
    layer, part = stage.layer, stage.part
    # The mask, and the scores that are noted for every head.
    charge((3 + 3 * len(scores)) * t * t * run.numbers.rates.entry)
    past = [[int(seen(spec, layer, key, query)) for query in range(t)] for key in range(t)]
    mask = tape.constant(run.numbers.matrix(t, t, [entry for row in past for entry in row]))
    masked = spec.causal or bool(spec.window)
    if spec.decay == "slopes":
        charge(len(scores) * t * t * run.numbers.rates.entry)
        faded = [_faded(run, spec, layer, h, past) for h in range(spec.heads)]
        return [tape.times(Z, own) for Z, own in zip(scores, faded, strict=True)]
    if spec.attn == "lightning":
        return [tape.times(Z, mask) if masked else Z for Z in scores]
    if spec.cap:
        arguments = [tape.scaled_by(Z, -2 / spec.cap) for Z in scores]
        for argument in arguments:
            run.note(tape.values[argument])
        tanhs = [
            tape.shifted(tape.scaled_by(run.sigmoid_of_minus(argument), 2), -1)
            for argument in arguments
        ]
        scores = [tape.scaled_by(tanh, spec.cap) for tanh in tanhs]
    patterns = []
    for head, Z in enumerate(scores):
        if spec.sinks:
            Z = _beyond_sink(run, Z, part, head)
        entries = tape.values[Z].entries()
        kept = [entry for row in past for entry in row]
        run.arguments += [z for z, keep in zip(entries, kept, strict=True) if keep]
        E = tape.exp(Z, run.here)
        patterns.append(run.columns_over_sum(tape.times(E, mask) if masked else E, spec.sinks))
    return patterns


def _faded(run: Run, spec: Transformer, layer: int, head: int, past: list[list[int]]) -> int:
    """The mask, times the decay of a head to the power of how long ago a key was."""
    fine = 10**5 * (spec.layers - 1) + 1
    factor = 1 - Fraction(10**5 * (layer - 1), fine) + Fraction(1, 10**5)
    rate = run.numbers.slope(Fraction(8 * (head + 1), spec.heads), factor, fine)
    powers = [run.numbers.number(Fraction(1))]
    for _ in past[1:]:
        powers.append(powers[-1] * rate)
    entries = [
        powers[query - key] * keep if keep else 0
        for key, row in enumerate(past)
        for query, keep in enumerate(row)
    ]
    return run.tape.constant(run.numbers.matrix(spec.t, spec.t, entries))


def _beyond_sink(run: Run, Z: int, part: int, head: int) -> int:
    """Scores less the sink of their head."""
    tape, t = run.tape, run.spec.t
    column, row = (tape.constant(run.numbers.ones(*size)) for size in ((t, 1), (1, t)))
    sink = tape.product(column, tape.product(run.leaves[part, "sinks", head], row))
    return tape.sum(Z, tape.scaled_by(sink, -1))


def planes(turned: int, layout: str) -> list[tuple[int, int]]:
    """The pairs of dimensions that turn together."""
    half = turned // 2
    if layout == "half":
        return [(i, i + half) for i in range(half)]
    return [(2 * i, 2 * i + 1) for i in range(half)]


def _rotated(run: Run, spec: Transformer, x: int) -> int:
    """Every column turned by its position: C * x + D * (P x), with * entry by entry."""
    tape = run.tape
    C, D, P = (tape.constant(matrix) for matrix in _rotation(run, spec, tape.values[x].nrows()))
    return tape.sum(tape.times(C, x), tape.times(D, tape.product(P, x)))


def _amplitude(run: Run, spec: Transformer) -> Scalar:
    """By what yarn and longrope multiply turned queries and keys."""
    how, none = spec.rescaling, Fraction(0)
    if how is None or how.kind not in ("yarn", "longrope"):
        return 1
    if how.attention:
        return run.numbers.grown(how.attention**2, none, none, Fraction(1))
    if how.kind == "longrope":
        return run.numbers.lengthened(how.factor, how.length)
    if how.mscale and how.all:
        return run.numbers.grown(Fraction(1), how.mscale / 10, how.all / 10, how.factor)
    return run.numbers.grown(Fraction(1), Fraction(1, 10), none, how.factor)


def _rotation(run: Run, spec: Transformer, width: int) -> tuple[Matrix, Matrix, Matrix]:
    numbers = run.numbers
    turned = turning(spec)
    key = (width, spec)
    if key in numbers.rotations:
        return numbers.rotations[key]
    charge(
        width * (spec.t + width) * numbers.rates.entry + turned * spec.t * numbers.rates.function
    )
    amplitude = _amplitude(run, spec)
    C = numbers.ones(width, spec.t) * 1
    D = numbers.ones(width, spec.t) * 0
    P = numbers.ones(width, width) * 0
    for i, (a, b) in enumerate(planes(turned, spec.layout)):
        P[a, b], P[b, a] = -1, 1
        for position in range(spec.t):
            cos, sin = (x * amplitude for x in numbers.turn(spec, i, position))
            C[a, position] = C[b, position] = cos
            D[a, position] = D[b, position] = sin
    numbers.rotations[key] = C, D, P
    return C, D, P
