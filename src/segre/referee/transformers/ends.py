"""How does a transformer begin and end? The embedding and the head of section 3."""

from __future__ import annotations

from segre.referee.meter import charge
from segre.referee.transformers.numbers import Matrix
from segre.referee.transformers.run import Run
from segre.referee.transformers.weights import EMBED, HEAD


def embedding(run: Run, inputs: Matrix) -> int:
    """The stream before the first layer."""
    spec, tape = run.spec, run.tape
    if spec.vocab:
        x = tape.product(run.leaves[EMBED, "tokens", 0], _rows(run, inputs, 0, spec.vocab))
        if spec.embscale:
            x = tape.scaled(x, run.numbers.root_of_width(spec.d))
    elif spec.patch:
        x = _patches(run, tape.constant(inputs))
    else:
        x = tape.constant(inputs)
    if spec.project:
        x = run.linear(x, EMBED, "E")
    if (positions := run.weight(EMBED, "positions")) is not None:
        charge(spec.positions * spec.t * run.numbers.rates.entry)
        used = run.numbers.matrix(
            spec.positions,
            spec.t,
            [int(i == c + spec.offset) for i in range(spec.positions) for c in range(spec.t)],
        )
        x = tape.sum(x, tape.product(positions, tape.constant(used)))
    if (types := run.weight(EMBED, "types")) is not None:
        x = tape.sum(x, tape.product(types, _rows(run, inputs, spec.vocab, spec.types)))
    if spec.embnorm:
        x = run.norm(x, EMBED, "norm")
    return run.linear(x, EMBED, "E") if spec.embed and not spec.project else x


def _patches(run: Run, inputs: int) -> int:
    """Patches, mapped to the stream; the class token is in the place of the first."""
    spec, tape, numbers = run.spec, run.tape, run.numbers
    x = run.linear(inputs, EMBED, "P")
    if (first := run.weight(EMBED, "cls")) is None:
        return x
    charge(spec.t * spec.t * numbers.rates.entry)
    kept = [int(i == c and i > 0) for i in range(spec.t) for c in range(spec.t)]
    x = tape.product(x, tape.constant(numbers.matrix(spec.t, spec.t, kept)))
    return tape.sum(x, tape.product(first, tape.constant(numbers.unit(1, spec.t, 0, 0))))


def _rows(run: Run, inputs: Matrix, first: int, count: int) -> int:
    charge((inputs.nrows() + count) * run.spec.t * run.numbers.rates.entry)
    table = inputs.tolist()[first : first + count]
    entries = [entry for row in table for entry in row]
    return run.tape.constant(run.numbers.matrix(count, run.spec.t, entries))


def head(run: Run, x: int) -> int:
    """The output, from the stream after the last layer."""
    spec, tape = run.spec, run.tape
    if spec.final:
        x = run.norm(x, HEAD, "norm")
    if spec.project:
        x = run.linear(x, HEAD, "D")
    pooled = None
    if spec.pooler:
        pooled = run.tanh(run.linear(_column(run, x, 0), HEAD, "pool"))
    if spec.labels:
        if pooled is None:
            chosen = {"first": 0, "last": spec.t - 1}.get(spec.read)
            pooled = x if chosen is None else _column(run, x, chosen)
        return _distribution(run, run.linear(_transformed(run, pooled), HEAD, "U"))
    if spec.output == "hidden":
        return x if pooled is None else _one_more_column(run, x, pooled)
    x = _transformed(run, x)
    if spec.tied:
        x = tape.pairing(run.leaves[EMBED, "tokens", 0], x)
        bias = run.weight(HEAD, "b_U")
        x = x if bias is None else run.add_column(x, bias)
    else:
        x = run.linear(x, HEAD, "U")
    if spec.logitcap:
        x = tape.scaled_by(run.tanh(tape.scaled_by(x, 1 / spec.logitcap)), spec.logitcap)
    x = _distribution(run, x)
    if pooled is None:
        return x
    related = _distribution(run, run.linear(pooled, HEAD, "rel"))
    charge(spec.vocab * spec.relation * run.numbers.rates.entry)
    top = [int(i == j) for i in range(spec.vocab) for j in range(spec.relation)]
    lifted = tape.constant(run.numbers.matrix(spec.vocab, spec.relation, top))
    return _one_more_column(run, x, tape.product(lifted, related))


def _transformed(run: Run, x: int) -> int:
    """The dense layer of the head, if it is there: activated, and normed or not."""
    if not run.spec.transform:
        return x
    y = run.activation(run.linear(x, HEAD, "T"))
    return run.norm(y, HEAD, "normT") if run.spec.headnorm else y


def _distribution(run: Run, logits: int) -> int:
    """The softmax of every column, if it is asked for."""
    if run.spec.output != "softmax":
        return logits
    return run.columns_over_sum(run.tape.exp(logits, run.here))


def _column(run: Run, x: int, number: int) -> int:
    return run.tape.product(x, run.tape.constant(run.numbers.unit(run.spec.t, 1, number, 0)))


def _one_more_column(run: Run, x: int, column: int) -> int:
    """A matrix of t columns, and one more after them."""
    tape, numbers, t = run.tape, run.numbers, run.spec.t
    charge(t * (t + 1) * numbers.rates.entry)
    room = [int(i == c) for i in range(t) for c in range(t + 1)]
    kept = tape.product(x, tape.constant(numbers.matrix(t, t + 1, room)))
    return tape.sum(kept, tape.product(column, tape.constant(numbers.unit(1, t + 1, 0, t))))
