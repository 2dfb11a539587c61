"""What does an MLP compute? The dense and the routed kind of section 3."""

from __future__ import annotations

from functools import reduce

from segre.referee.transformers.run import Run
from segre.referee.transformers.stages import Stage
from segre.referee.transformers.weights import routed


def mlp(run: Run, x: int, stage: Stage) -> int:
    """What the MLP writes to the stream."""
    part = stage.part
    if routed(run.spec, part):
        return _routed(run, x, part)
    up = run.linear(x, part, "up")
    gated = run.spec.gated
    hidden = _gated(run, run.linear(x, part, "gate"), up) if gated else run.activation(up)
    return run.linear(hidden, part, "down")


def _routed(run: Run, x: int, part: int) -> int:
    spec, tape, numbers = run.spec, run.tape, run.numbers
    E, t = spec.experts, spec.t
    affinities = [_mapped(run, x, part, "W", "R", i) for i in range(E)]
    if not spec.router.startswith("softmax"):
        affinities = [run.sigmoid_of_minus(tape.scaled_by(z, -1)) for z in affinities]
    entries = [entry for row in affinities for entry in tape.values[row].entries()]
    choice = numbers.choice(numbers.matrix(E, t, entries), spec, run.here)
    if spec.router.startswith("softmax"):
        affinities = [tape.exp(z, run.here) for z in affinities]
    chosen = []
    for i, affinity in enumerate(affinities):
        mask = tape.constant(numbers.matrix(1, t, [choice[i, c] for c in range(t)]))
        chosen.append(tape.times(affinity, mask))
    divisor = {"softmax-raw": affinities, "sigmoid-raw": []}.get(spec.router, chosen)
    if divisor:
        scale = tape.inverses(reduce(tape.sum, divisor))
        chosen = [tape.times(affinity, scale) for affinity in chosen]
    y = None
    for i, share in enumerate(chosen):
        expert = tape.columns_times(_expert(run, x, part, "W", i), share)
        y = expert if y is None else tape.sum(y, expert)
    assert y is not None
    if not spec.shared:
        return y
    common = _expert(run, x, part, "S", 0)
    if spec.sharedgate:
        share = run.sigmoid_of_minus(tape.scaled_by(_mapped(run, x, part, "S", "R", 0), -1))
        common = tape.columns_times(common, share)
    return tape.sum(y, common)


def _expert(run: Run, x: int, part: int, letter: str, number: int) -> int:
    gate, up = (_mapped(run, x, part, letter, name, number) for name in ("gate", "up"))
    return _mapped(run, _gated(run, gate, up), part, letter, "down", number)


def _mapped(run: Run, x: int, part: int, letter: str, name: str, number: int) -> int:
    """A linear map of a routed MLP, with its bias if it has one."""
    y = run.tape.product(run.leaves[part, f"{letter}_{name}", number], x)
    bias = run.weight(part, f"c_{name}", number) if letter == "W" else None
    return y if bias is None else run.add_column(y, bias)


def _gated(run: Run, gate: int, up: int) -> int:
    """What units hold: the gate, activated, times the other factor."""
    tape, limit = run.tape, run.spec.limit
    if run.spec.mlp == "clamped":

        def over(y: int) -> int:
            z = tape.shifted(y, -limit)
            return tape.times(z, tape.step(z, run.here))

        below = over(tape.scaled_by(up, -1))
        gate = tape.sum(gate, tape.scaled_by(over(gate), -1))
        up = tape.sum(tape.sum(up, below), tape.scaled_by(over(up), -1))
        up = tape.shifted(up, 1)
    return tape.times(run.activation(gate), up)
