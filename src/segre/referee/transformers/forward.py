"""What does a transformer compute, and how does that depend on every weight? Sections 3 and 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from segre.referee.transformers.attention import attention
from segre.referee.transformers.ends import embedding, head
from segre.referee.transformers.mlp import mlp
from segre.referee.transformers.numbers import Matrix, Numbers, Salts
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.run import Run
from segre.referee.transformers.stages import Stage, stages
from segre.referee.transformers.tape import Tape
from segre.referee.transformers.tensors import Key
from segre.transformer.spec import Transformer


def record(
    spec: Transformer,
    numbers: Numbers,
    weights: Mapping[Key, Matrix],
    inputs: Matrix,
    salts: Sequence[Salts],
) -> Recording:
    """Evaluate a transformer; `salts` are by source and token."""
    tape = Tape(numbers)
    leaves = {key: tape.leaf(matrix) for key, matrix in weights.items()}
    run = Run(spec, numbers, tape, leaves, salts)
    output = _evaluate(run, inputs)
    return Recording(tape, tuple(leaves.values()), output, tuple(run.arguments))


def _evaluate(run: Run, inputs: Matrix) -> int:
    spec, tape = run.spec, run.tape
    sublayers = {"attention": (attention, 1), "mlp": (mlp, 2)}
    x = tape.constant(inputs)
    for number, stage in enumerate(stages(spec)):
        run.enter(number)
        if stage.kind == "embedding":
            x = embedding(run, inputs)
        elif stage.kind == "head":
            x = head(run, x)
        elif stage.kind == "layer":
            x = _parallel(run, x, stage)
        else:
            function, index = sublayers[stage.kind]
            normed = spec.norm != "none"
            y = x
            bare = not spec.firstnorm and stage.kind == "attention" and stage.layer == 1
            if normed and spec.place in ("pre", "sandwich") and not bare:
                y = run.norm(x, stage.part, f"norm{index}")
            y = function(run, y, stage)
            if (scale := run.weight(stage.part, f"scale{index}")) is not None:
                y = tape.times(y, tape.product(scale, tape.constant(run.numbers.ones(1, spec.t))))
            if normed and spec.place in ("sandwich", "after"):
                y = run.norm(y, stage.part, f"post{index}")
            if spec.skip != 1:
                x = tape.scaled_by(x, spec.skip)
            x = tape.sum(x, y) if spec.residual else y
            if normed and spec.place == "post":
                x = run.norm(x, stage.part, f"post{index}")
    return x


def _parallel(run: Run, x: int, stage: Stage) -> int:
    """A parallel layer: both sublayers read x, through norms that differ in gain and bias only."""
    tape, normed = run.tape, run.spec.norm != "none"
    same = run.standard(x, run.spec.norm == "layer", run.open_root()) if normed else x
    for function, name in ((attention, "norm1"), (mlp, "norm2")):
        y = run.with_gain(same, stage.part, name) if normed else same
        x = tape.sum(x, function(run, y, stage))
    return x
