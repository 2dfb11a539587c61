"""Commands about layers with given weights or data: model run, cost, recover, optimum."""

from __future__ import annotations

from pathlib import Path

from segre.cli.given import memory_bytes, token_counts
from segre.cli.output import Out, TableOut
from segre.cli.tree import LAYERS, model
from segre.files import shown

METHODS = ("auto", "dense", "linear", "band")


@model.answers(
    """segre model run softmax/d=8,8/a=4/t=3 -w w.npz --input x.npy -o y.npy
    segre model run lightning/d=8,8/a=4/t=3 -w w.npz -i x.npy -o y.npy""",
    note="The number of tokens is that of the input; t in the spec does not limit it.",
    section=LAYERS,
)
def run(
    stack: str,
    stack_weights: Path,
    given: Path,
    array: Path,
    run_by: str = "auto",
    block: int | None = None,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Run a stack of attention layers on a long sequence."""
    from segre.sequence.attend import attend
    from segre.sequence.files import read_array, require_array_file, write_array

    require_array_file(array)
    limit = memory_bytes(memory)
    with out.waiting("running"):
        found = attend(stack, stack_weights, read_array(given), run_by, block=block, memory=limit)
        write_array(array, found)
    shape = " x ".join(map(str, found.shape))
    out.emit(
        data={"file": shown(array), "shape": list(found.shape), "dtype": str(found.dtype)},
        lines=[f"{array}: {shape}, {found.dtype}"],
    )


@model.answers(
    """segre model cost lightning/d=64,64/a=64/t=3 --t 4k,32k
    segre model cost llama-3-8b --t 4k,32k,128k --csv
    segre model cost fast/d=64,64/a=16/t=3 --t 64,1k,16k --plot fast.png""",
    section=LAYERS,
)
def cost(spec: str, tokens: str = "", plot: Path | None = None, out: TableOut = TableOut()) -> None:
    """What a network costs on long sequences: operations, memory, state."""
    from segre.sequence.cost import cost as costs

    at = token_counts(tokens) if tokens else None
    out.answer(costs, spec, at, plot=plot, waiting="counting")


@model.answers(
    "segre model recover samples.npz --spec lightning/d=8,8/a=3/t=4",
    note="Exit code 3: the data do not determine the weights; the message says what is missing.",
    section=LAYERS,
)
def recover(
    data: Path,
    recovered: str,
    a: int | None = None,
    starts: int = 20,
    seed: int = 0,
    out: Out = Out(),
) -> None:
    """Recover the weights of a layer from its inputs and outputs.

    If the data do not determine the weights, segre says what is missing.
    """
    from segre.geometry.recover import recover as find
    from segre.geometry.recovery.samples import Samples

    given = Samples.read(data)
    out.answer(find, given, recovered, a=a, starts=starts, seed=seed, waiting="recovering")


@model.answers(
    """segre model optimum run.json
    segre model optimum run.safetensors --json""",
    section=LAYERS,
)
def optimum(trained: Path, out: Out = Out()) -> None:
    """Prove how far, at most, a layer of linear attention is from its global optimum.

    The file holds a layer sum_h (X W_QK X^T) X W_OV, trained on 1/2 |f(X) - Y|^2 with weight decay
    beta/2 (|W_QK|^2 + |W_OV|^2). The bound holds for any number of heads.
    """
    from segre.optimum import certify_optimum
    from segre.optimum.files import read_run

    out.answer(certify_optimum, *read_run(trained))
