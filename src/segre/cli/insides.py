"""Commands that look inside a model as it runs: model diagnose, trace, collapse, paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.cli.given import meant, memory_bytes
from segre.cli.output import Out, TableOut
from segre.cli.pages import draw, require_writable
from segre.cli.tree import INSIDE
from segre.cli.tree import model as group


@group.answers(
    """segre model diagnose model --text book.txt
    segre model diagnose model --text book.txt --control -o diagnosis.html
    segre model diagnose model --set 12:0:507=median --ablate 3.7""",
    note="Depth 0 is before the first layer, depth 1 after it. Layers and heads are counted from "
    "1, tokens and\nchannels from 0. Each intervention is compared with controls: the same change "
    "at other places.",
    section=INSIDE,
)
def diagnose(
    model: str,
    text: Path | None = None,
    length: int = 64,
    control: bool = False,
    settings: list[str] | None = None,
    ablate: list[str] | None = None,
    page: Path | None = None,
    seed: int = 0,
    out: TableOut = TableOut(),
) -> None:
    """Find anomalies in a model: spikes, sinks, dead heads, rank, gradients."""
    from segre.inspect.diagnose import diagnose as look

    out.answer(
        look,
        model,
        text=text,
        length=length,
        control=control,
        settings=settings or (),
        ablations=ablate or (),
        seed=seed,
        page=page,
    )


@group.answers(
    """segre model trace model --text book.txt
    segre model trace model --text book.txt --target 12:345 --json
    segre model trace model --text line.txt --length 8 --dense operator.npy""",
    note="The terms of the operator and the constants sum to the output; scores of other methods "
    "do not.",
    section=INSIDE,
)
def trace(
    model: str,
    text: Path | None = None,
    logit: str = "-1",
    length: int = 64,
    dense: Path | None = None,
    page: Path | None = None,
    seed: int = 0,
    memory: str = "8G",
    out: TableOut = TableOut(),
) -> None:
    """Find the input tokens that an output comes from, by four methods."""
    from segre.inspect.trace import trace as follow
    from segre.sequence.files import require_array_file, write_array

    if dense is not None:
        require_array_file(dense)

    def followed(**asked: Any) -> Any:
        found = follow(model, text=text, target=logit, whole=dense is not None, **asked)
        if dense is not None and found.operator is not None:
            write_array(dense, found.operator)
        return found

    files = {"operator": dense} if dense else None
    out.answer(followed, length=length, seed=seed, memory=memory, page=page, files=files)


@group.answers(
    """segre model collapse bert-base-uncased --plot bert.png
    segre model collapse model-directory --text book.txt --variants paper
    segre model collapse model-directory --variants what-if
    segre model collapse bert-base-uncased --variants attention,full:gate
    segre model collapse softmax/d=16,16,16,16/a=8/heads=2/t=6 --certify""",
    note="A colon precedes a change of attention: gapless (1/t subtracted from every weight), "
    "window=N, gate\n(sigmoid(W_G x), W_G random). Changes that the design of a model does not "
    "allow are refused.",
    section=INSIDE,
)
def collapse(
    model: str,
    variants: str = "all",
    inputs: int = 8,
    length: int | None = None,
    text: Path | None = None,
    ranks: bool = False,
    certify: bool = False,
    threshold: float = 1e-3,
    fuse: str | None = None,
    plot: Path | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Do tokens become alike with depth? The model as it is, and with parts removed."""
    require_writable(plot=plot)
    from contextlib import nullcontext

    from segre.collapse.commands import measure, own_spec

    given = meant(model, defaults)
    stack = own_spec(given) is not None  # which does not say how far it is
    with out.waiting("measuring") if stack else nullcontext(), out.progress() as progress:
        found = measure(
            given,
            variants=variants,
            inputs=inputs,
            length=length,
            text=text,
            ranks=ranks,
            certify=certify,
            threshold=threshold,
            fuse=fuse,
            seed=seed,
            memory=memory_bytes(memory),
            progress=progress,
        )
    draw(found, plot)
    out.emit(found, files={"plot": plot})


@group.answers(
    """segre model paths gpt2 --plot paths.png
    segre model paths model-directory --sample 5 --of-length 2
    segre model paths llama-3-8b --shares""",
    section=INSIDE,
)
def paths(
    model: str,
    skip: bool | None = None,
    mlp: bool = True,
    norms: bool = True,
    length: int | None = None,
    text: Path | None = None,
    sample: int = 0,
    of_length: int | None = None,
    shares: bool = False,
    plot: Path | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Write a forward pass as the exact sum over all paths."""
    require_writable(plot=plot)
    from segre.collapse.commands import count_paths, decompose

    given = meant(model, defaults)
    if shares:
        out.emit(count_paths(given))
        return
    out.answer(
        decompose,
        given,
        skip=skip,
        mlp=mlp,
        norms=norms,
        length=length,
        text=text,
        sample=sample,
        of_length=of_length,
        seed=seed,
        memory=memory,
        plot=plot,
        data={"plot": None},
        waiting="summing over paths",
    )
