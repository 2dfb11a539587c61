"""Commands that run models and layers: model diagnose, trace, collapse, paths, run, cost, ..."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.output import Out, TableOut, require_writable
from segre.cli.tree import inside, layers
from segre.files import shown


@inside(
    "model text length=64 control settings ablate page seed",
    """segre model diagnose model --text book.txt
    segre model diagnose model --text book.txt --control -o diagnosis.html
    segre model diagnose model --set 12:0:507=median --ablate 3.7""",
    note="Depth 0 is before the first layer, depth 1 after it. Layers and heads are counted from "
    "1, tokens and\nchannels from 0. Each intervention is compared with controls: the same change "
    "at other places.",
)
def diagnose(out: TableOut, model: str, ablate: list[str], **asked: Any) -> None:
    """Find anomalies in a model: spikes, sinks, dead heads, rank, gradients."""
    from segre.inspect.diagnose import diagnose as look

    out.answer(look, model, ablations=ablate, **asked)


@inside(
    "model text logit length=64 dense page seed memory",
    """segre model trace model --text book.txt
    segre model trace model --text book.txt --target 12:345 --json
    segre model trace model --text line.txt --length 8 --dense operator.npy""",
    note="The terms of the operator and the constants sum to the output; scores of other methods "
    "do not.",
)
def trace(
    out: TableOut, model: str, logit: str, dense: Path | None, page: Path | None, **asked: Any
) -> None:
    """Find the input tokens that an output comes from, by four methods."""
    from segre.inspect.trace import trace as follow
    from segre.sequence.files import require_array_file, write_array

    if dense is not None:
        require_array_file(dense)

    def followed(**options: Any) -> Any:
        found = follow(model, target=logit, whole=dense is not None, **options)
        if dense is not None and found.operator is not None:
            write_array(dense, found.operator)
        return found

    out.answer(followed, page=page, files={"operator": dense} if dense else None, **asked)


@inside(
    "model variants inputs=8 length text ranks certify threshold fuse plot defaults seed memory",
    """segre model collapse bert-base-uncased --plot bert.png
    segre model collapse model-directory --text book.txt --variants paper
    segre model collapse model-directory --variants what-if
    segre model collapse bert-base-uncased --variants attention,full:gate
    segre model collapse softmax/d=16,16,16,16/a=8/heads=2/t=6 --certify""",
    note="A colon precedes a change of attention: gapless (1/t subtracted from every weight), "
    "window=N, gate\n(sigmoid(W_G x), W_G random). Changes that the design of a model does not "
    "allow are refused.",
)
def collapse(out: Out, model: str, **asked: Any) -> None:
    """Do tokens become alike with depth? The model as it is, and with parts removed."""
    from segre.collapse.commands import measure, own_spec

    said = "" if own_spec(model) is None else "measuring"  # a stack does not say how far it is
    out.answer(measure, model, data={"plot": None}, waiting=said, **asked)


@inside(
    "model skip mlp norms length text sample of_length shares plot defaults seed memory",
    """segre model paths gpt2 --plot paths.png
    segre model paths model-directory --sample 5 --of-length 2
    segre model paths llama-3-8b --shares""",
)
def paths(out: Out, model: str, shares: bool, plot: Path | None, **asked: Any) -> None:
    """Write a forward pass as the exact sum over all paths."""
    require_writable(plot=plot)
    from segre.collapse.commands import count_paths, decompose

    if shares:
        out.emit(count_paths(model))
        return
    said = "summing over paths"
    out.answer(decompose, model, plot=plot, data={"plot": None}, waiting=said, **asked)


@layers(
    "stack stack_weights given array run_by block memory",
    """segre model run softmax/d=8,8/a=4/t=3 -w w.npz --input x.npy -o y.npy
    segre model run lightning/d=8,8/a=4/t=3 -w w.npz -i x.npy -o y.npy""",
    note="The number of tokens is that of the input; t in the spec does not limit it.",
)
def run(
    out: Out,
    stack: str,
    stack_weights: Path,
    given: Path,
    array: Path,
    run_by: str,
    **asked: Any,
) -> None:
    """Run a stack of attention layers on a long sequence."""
    from segre.sequence.attend import attend
    from segre.sequence.files import read_array, require_array_file, write_array

    require_array_file(array)
    with out.waiting("running"):
        found = attend(stack, stack_weights, read_array(given), run_by, **asked)
        write_array(array, found)
    shape = " x ".join(map(str, found.shape))
    out.emit(
        data={"file": shown(array), "shape": list(found.shape), "dtype": str(found.dtype)},
        lines=[f"{array}: {shape}, {found.dtype}"],
    )


@layers(
    "spec tokens plot",
    """segre model cost lightning/d=64,64/a=64/t=3 --t 4k,32k
    segre model cost llama-3-8b --t 4k,32k,128k --csv
    segre model cost fast/d=64,64/a=16/t=3 --t 64,1k,16k --plot fast.png""",
)
def cost(out: TableOut, spec: str, tokens: list[int] | None, plot: Path | None) -> None:
    """What a network costs on long sequences: operations, memory, state."""
    from segre.sequence.cost import cost as costs

    out.answer(costs, spec, tokens, plot=plot, waiting="counting")


@layers(
    "data recovered a starts seed",
    "segre model recover samples.npz --spec lightning/d=8,8/a=3/t=4",
    note="Exit code 3: the data do not determine the weights; the message says what is missing.",
)
def recover(out: Out, data: Path, recovered: str, **asked: Any) -> None:
    """Recover the weights of a layer from its inputs and outputs.

    If the data do not determine the weights, segre says what is missing.
    """
    from segre.geometry.recover import recover as find
    from segre.geometry.recovery.samples import Samples

    out.answer(find, Samples.read(data), recovered, waiting="recovering", **asked)


@layers(
    "trained",
    """segre model optimum run.json
    segre model optimum run.safetensors --json""",
)
def optimum(out: Out, trained: Path) -> None:
    """Prove how far, at most, a layer of linear attention is from its global optimum.

    The file holds a layer sum_h (X W_QK X^T) X W_OV, trained on 1/2 |f(X) - Y|^2 with weight decay
    beta/2 (|W_QK|^2 + |W_OV|^2). The bound holds for any number of heads.
    """
    from segre.optimum import certify_optimum
    from segre.optimum.files import read_run

    out.answer(certify_optimum, *read_run(trained))
