"""Commands for the second paper's experiments: reproduce path-sort, path-hull, and so on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion
from segre.cli.options import Seed
from segre.cli.output import Out
from segre.cli.resumable import resumable

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The plot: .png, .svg or .pdf.")
]
Epochs = Annotated[
    int | None, typer.Option(help="Times that the data are gone through.", min=1, max=100_000)
]
Rate = Annotated[float | None, typer.Option("--lr", help="The learning rate.", min=1e-8, max=1.0)]
Width = Annotated[int | None, typer.Option("--width", help="The width d.", min=2, max=4096)]
Depth = Annotated[int | None, typer.Option("--layers", help="How many layers.", min=1, max=64)]
Examples = Annotated[
    int | None, typer.Option("--train", help="Sequences to learn from.", min=1, max=10**7)
]
Length = Annotated[int | None, typer.Option(help="Tokens of a sequence.", min=2, max=4096)]
WithMlp = Annotated[
    bool,
    typer.Option("--mlp", help="Put MLPs into the layers; the published networks have none here."),
]
Drawn = Annotated[
    int, typer.Option("--paths", help="Isolated paths in a sum; the paper: 5 and 20.", min=1)
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Start training over, rather than go on with a run.")
]


def _paths_of(name: str, what: str) -> Callable[..., None]:
    """The command that trains the network of a task and looks at its paths."""

    def command(
        output: Output = Path(f"{name}.png"),
        epochs: Epochs = None,
        lr: Rate = None,
        width: Width = None,
        layers: Depth = None,
        train: Examples = None,
        length: Length = None,
        mlp: WithMlp = False,
        paths: Drawn = 5,
        fresh: Fresh = False,
        seed: Seed = 0,
        out: Out = Out(),
    ) -> None:
        from segre.report.drawing import require_static_format
        from segre.report.experiment_plots import plot_effectiveness
        from segre.reproduce.path_effectiveness import PLANS, changed, effectiveness

        require_static_format(output)
        plan = changed(
            PLANS[name],
            epochs=epochs,
            lr=lr,
            d=width,
            layers=layers,
            train=train,
            length=length,
            mlp=mlp,
        )
        run = run_file(output)
        with resumable(run, fresh=fresh), out.progress() as progress:
            found = effectiveness(
                plan, drawn=paths, seed=seed, file=run, fresh=fresh, progress=progress
            )
            plot_effectiveness(found, output)
        out.emit(found, files={"run": run, "plot": output})

    command.__doc__ = f"""Train a network to {what}: what do its paths do?

    The state of training is in a .run file beside the plot: the same command goes on from there.
    """
    return command


def circle(
    output: Output = Path("circle.png"),
    steps: Annotated[int, typer.Option(help="Times a layer is applied.", min=1, max=10_000)] = 100,
    epochs: Annotated[int, typer.Option(help="Of training.", min=1, max=100_000)] = 5,
    lr: Annotated[float, typer.Option("--lr", help="The rate.", min=1e-8, max=1.0)] = 1e-3,
    fresh: Fresh = False,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Apply one trained layer again and again to two tokens: do they merge?"""
    from segre.report.drawing import require_static_format
    from segre.report.experiment_plots import plot_walks
    from segre.reproduce.circle import Walks, walks

    require_static_format(output)
    run = run_file(output)
    with resumable(run, fresh=fresh), out.progress() as progress:
        found = walks(
            steps=steps,
            epochs=epochs,
            lr=lr,
            seed=seed,
            file=run,
            fresh=fresh,
            progress=progress,
        )
        plot_walks(found, output)
    out.emit(Walks(tuple(found), seed), files={"plot": output})


def path_lengths(
    output: Output = Path("path-lengths.png"),
    out: Out = Out(),
) -> None:
    """Shares of paths by length in the paper's models; nothing is trained."""
    from segre.report.drawing import require_static_format
    from segre.report.experiment_plots import plot_path_lengths
    from segre.reproduce.path_lengths import PathLengths, rows

    require_static_format(output)
    with out.waiting("counting"):
        found = rows()
        plot_path_lengths(found, output)
    out.emit(PathLengths(tuple(found)), files={"plot": output})


def rank_collapse(
    output: Output = Path("rank-collapse.png"),
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="bert or albert; repeatable. Both if not given.",
            autocompletion=completion.one_of(completion.base_models),
        ),
    ] = None,
    count: Annotated[int, typer.Option(help="Inputs; the paper: 32.", min=1, max=10_000)] = 4,
    length: Annotated[int, typer.Option(help="Tokens of each.", min=2, max=512)] = 128,
    layers: Depth = None,
    width: Annotated[
        int | None, typer.Option(help="The width; not that of base models.", min=4, max=8192)
    ] = None,
    seed: Seed = 0,
    out: Out = Out(),
) -> None:
    """Rank by depth in BERT and ALBERT: what collapses, what does not.

    Base models with random weights on random tokens, four variants each; nothing is downloaded.
    """
    from segre.errors import SegreError
    from segre.report.drawing import require_static_format
    from segre.report.experiment_plots import plot_rank_collapse
    from segre.reproduce.rank_collapse import MODELS, RankCollapse, collapse

    require_static_format(output)
    models = list(dict.fromkeys(model or MODELS))
    for name in models:
        if name not in MODELS:
            raise SegreError(f"model {name!r} is not known; allowed: {', '.join(MODELS)}")
    with out.progress() as progress:
        found = collapse(
            models,
            count=count,
            length=length,
            layers=layers,
            width=width,
            seed=seed,
            progress=progress,
        )
    plot_rank_collapse(found, output)
    out.emit(RankCollapse(tuple(found)), files={"plot": output})


def run_file(output: Path) -> Path:
    """Where the state of training is kept."""
    return output.with_suffix(".run")


COMMANDS = (
    (
        "path-sort",
        _paths_of("path-sort", "sort"),
        """Examples:
    segre reproduce path-sort -o sort.png
    segre reproduce path-sort -o slow.png --lr 1e-5""",
    ),
    (
        "path-hull",
        _paths_of("path-hull", "find a convex hull"),
        """Examples:
    segre reproduce path-hull -o hull.png
    segre reproduce path-hull -o published.png --lr 1e-5 --epochs 70""",
    ),
    (
        "path-memorize",
        _paths_of("path-memorize", "memorise random labels"),
        """Examples:
    segre reproduce path-memorize -o memorize.png
    segre reproduce path-memorize -o published.png --length 128 --epochs 50""",
    ),
    (
        "circle",
        circle,
        """Examples:
    segre reproduce circle -o circle.png
    segre reproduce circle -o longer.png --epochs 40""",
    ),
    (
        "path-lengths",
        path_lengths,
        """Example:
    segre reproduce path-lengths -o lengths.png""",
    ),
    (
        "rank-collapse",
        rank_collapse,
        """Examples:
    segre reproduce rank-collapse -o collapse.png
    segre reproduce rank-collapse -o small.png --model bert --layers 4 --width 128""",
    ),
)
