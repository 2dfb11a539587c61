"""The commands of `segre reproduce`, made from the registry of experiments, and `--all`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any

import typer

from segre.cli import completion
from segre.cli.front import Group
from segre.cli.help_page import Command, verbatim
from segre.cli.output import Out, with_output, with_parameters
from segre.cli.pages import again, draw, require_writable, write
from segre.cli.resumable import resumable
from segre.errors import SegreError
from segre.files import place

if TYPE_CHECKING:
    from segre.reproduce.experiment import Experiment, Option


def command_for(experiment: Experiment) -> Callable[..., None]:
    """The command of an experiment: its own options, and those that all have."""
    own = {option.key: option for option in experiment.options}

    def command(output: Path, fresh: bool, out: Out, **given: Any) -> None:
        from segre.reproduce.experiment import perform

        require_writable(plot=output)
        _require_allowed(own, given)
        run = run_file(output)
        with resumable(run, fresh=fresh), out.progress() as progress:
            found = perform(
                experiment,
                seed=given.pop("seed", 0),
                seeds=given.pop("seeds", 3),
                full=given.pop("full", False),
                options=given,
                file=run,
                fresh=fresh,
                progress=progress,
            )
            draw(found, output)
        out.emit(found, files={"run": run, "plot": output})

    command.__name__ = experiment.name.replace("-", "_")
    command.__doc__ = f"""{experiment.title}

    {experiment.question} {experiment.work}.

    The state is kept in a .run file beside the plot, from which the same command continues.
    """
    return with_parameters(command, _parameters(experiment))


def _require_allowed(own: dict[str, Option], given: dict[str, Any]) -> None:

    for key, option in own.items():
        value = given[key]
        if not option.allowed or value is None:
            continue
        for one in value if option.several else (value,):
            if one not in option.allowed:
                raise SegreError(
                    f"{option.name} {one!r} is not allowed; allowed: {', '.join(option.allowed)}"
                )


def _parameters(experiment: Experiment) -> Iterator[inspect.Parameter]:
    def option(name: str, kind: Any, default: Any, info: Any) -> inspect.Parameter:
        annotation = Annotated[kind, info]
        return inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
        )

    picture = typer.Option(
        "--output", "-o", metavar="FILE", help="File for the plot: .png, .svg or .pdf."
    )
    yield option("output", Path, Path(f"{experiment.name}.png"), picture)
    for one in experiment.options:
        allowed = completion.one_of(partial(tuple, one.allowed)) if one.allowed else None
        spelled = (f"--{one.name}",)
        info = typer.Option(
            *spelled, help=one.help, min=one.least, max=one.most, autocompletion=allowed
        )
        kind: Any = GenericAlias(list, (one.kind,)) if one.several else one.kind
        yield option(one.key, kind if one.default is not None else kind | None, one.default, info)
    if experiment.longer:
        said = f"The longer run: {experiment.longer}."
        yield option("full", bool, False, typer.Option("--full", help=said))
    if experiment.seeded:
        said = "First random seed; results name all seeds."
        yield option("seed", int, 0, typer.Option("--seed", help=said, min=0))
        said = "Number of seeds; the spread over them is shown."
        yield option("seeds", int, 3, typer.Option("--seeds", help=said, min=1, max=100))
    said = "Start over instead of continuing a run."
    yield option("fresh", bool, False, typer.Option("--fresh", help=said))
    yield inspect.Parameter(
        "out", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=Out(), annotation=Out
    )


def run_file(output: Path) -> Path:
    """Where the state of a run is kept."""
    if place(output) is None:
        raise SegreError(f"--output {str(output)!r}: name a file; the state is kept beside it")
    return output.with_suffix(".run")


def examples_of(experiment: Experiment) -> str:
    """The end of the help."""
    lines = "\n".join(f"    segre reproduce {one}" for one in experiment.examples)
    return f"Example{'s' * (len(experiment.examples) > 1)}:\n{lines}"


class Experiments(Group):
    """The group `reproduce`: experiments become commands when the group is looked at."""

    _given: dict[str, Any]
    _made: dict[str, Any] | None

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All commands, those of the registry last."""
        if self._made is None:
            from segre.reproduce.registry import experiments

            self._made = self._given | {one.name: _click(one) for one in experiments()}
        return self._made

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        self._given, self._made = dict(given), None


def _click(experiment: Experiment) -> Any:
    """The command of an experiment as the argument reader has it."""
    from typer.main import get_command

    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    epilog = verbatim(examples_of(experiment))
    made = with_output(command_for(experiment))
    alone.command(experiment.name, cls=Command, epilog=epilog)(made)
    return get_command(alone)


def all_experiments(
    context: typer.Context,
    every: Annotated[
        bool,
        typer.Option("--all", help="Run every experiment, and write one page with all results."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="With --all: directory for runs, results and the page index.html.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="With --all: only this experiment; repeatable.",
            autocompletion=completion.one_of(completion.experiments),
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="With --all: do the longer runs of experiments that have one."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With --all: start over instead of continuing.")
    ] = False,
    seed: Annotated[int, typer.Option(help="With --all: the first seed.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="With --all: how many seeds.", min=1, max=100)] = 3,
    out: Out = Out(),
) -> None:
    """Recompute tables and figures of the papers from scratch."""

    if context.invoked_subcommand is not None:
        if every:
            raise SegreError(
                "--all and the name of an experiment exclude each other; give one of them"
            )
        return
    if not every:
        if context.args or output or only:
            raise SegreError(
                "give the name of an experiment, or --all; segre reproduce --help lists them"
            )
        print(context.get_help())
        return
    from segre.reproduce.registry import experiment
    from segre.reproduce.scoreboard import run_all

    for name in only or ():
        experiment(name)
    folder = output or Path("reproductions")
    page = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    require_writable(plot=folder / "a.png", page=page)
    with resumable(folder, fresh=fresh), out.progress() as progress:
        found = run_all(
            folder, only or (), seed=seed, seeds=seeds, full=full, fresh=fresh, progress=progress
        )
        for one in found.outcomes:
            draw(one, folder / f"{one.experiment}.png")
        write(found, page, again(context))
    out.emit(found, files={"page": page})


def group() -> typer.Typer:
    """The group `reproduce`, to which commands can be added; those of the registry come last."""
    nested = typer.Typer(cls=Experiments, invoke_without_command=True, rich_markup_mode=None)
    epilog = verbatim("""Examples:
    segre reproduce gap -o gap.png
    segre reproduce --all -o results
    segre reproduce --all -o some --only gap --only localise""")
    nested.callback(epilog=epilog, invoke_without_command=True)(with_output(all_experiments))
    return nested
