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
from segre.cli.output import Out, with_output, with_parameters
from segre.cli.pages import again, draw, require_writable, write
from segre.cli.resumable import resumable
from segre.cli.tree import Commands, Group, app, epilog
from segre.errors import SegreError
from segre.files import place

if TYPE_CHECKING:
    from segre.reproduce.experiment import Experiment, Option


_METAVARS: dict[type, str] = {int: "N", float: "X"}
FirstSeed = Annotated[
    int,
    typer.Option("--seed", metavar="N", help="First random seed; results name all seeds.", min=0),
]
Seeds = Annotated[
    int,
    typer.Option(
        "--seeds",
        metavar="N",
        help="Number of seeds; the spread over them is shown.",
        min=1,
        max=100,
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of continuing a run.")]


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
    def parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, kind, default=default, annotation=annotation)

    picture = typer.Option(
        "--output", "-o", metavar="FILE", help="File for the plot: .png, .svg or .pdf."
    )
    yield parameter("output", Path(f"{experiment.name}.png"), Annotated[Path, picture])
    for one in experiment.options:
        info = typer.Option(
            f"--{one.name}",
            metavar=_METAVARS.get(one.kind, one.name.upper()),
            help=one.help,
            min=one.least,
            max=one.most,
            autocompletion=completion.one_of(partial(tuple, one.allowed)) if one.allowed else None,
        )
        kind: Any = GenericAlias(list, (one.kind,)) if one.several else one.kind
        given = kind if one.default is not None else kind | None
        yield parameter(one.key, one.default, Annotated[given, info])
    if experiment.longer:
        said = f"The longer run: {experiment.longer}."
        yield parameter("full", False, Annotated[bool, typer.Option("--full", help=said)])
    if experiment.seeded:
        yield parameter("seed", 0, FirstSeed)
        yield parameter("seeds", 3, Seeds)
    yield parameter("fresh", False, Fresh)
    yield parameter("out", Out(), Out)


def run_file(output: Path) -> Path:
    """Where the state of a run is kept."""
    if place(output) is None:
        raise SegreError(f"--output {str(output)!r}: name a file; the state is kept beside it")
    return output.with_suffix(".run")


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

    alone = Commands(rich_markup_mode=None, add_completion=False)
    examples = "\n".join(f"segre reproduce {one}" for one in experiment.examples)
    alone.answers(examples, name=experiment.name)(command_for(experiment))
    return get_command(alone)


def all_experiments(
    all_: bool = False,
    results: Path | None = None,
    chosen: list[str] | None = None,
    full: bool = False,
    fresh: bool = False,
    first_seed: int = 0,
    seeds: int = 3,
    out: Out = Out(),
) -> None:
    """Recompute tables and figures of the papers from scratch."""
    context = out.context
    assert context is not None
    if context.invoked_subcommand is not None:
        if all_:
            raise SegreError(
                "--all and the name of an experiment exclude each other; give one of them"
            )
        return
    if not all_:
        if context.args or results or chosen:
            raise SegreError(
                "give the name of an experiment, or --all; segre reproduce --help lists them"
            )
        print(context.get_help())
        return
    from segre.reproduce.registry import experiment
    from segre.reproduce.scoreboard import run_all

    for name in chosen or ():
        experiment(name)
    folder = results or Path("reproductions")
    page = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    require_writable(plot=folder / "a.png", page=page)
    with resumable(folder, fresh=fresh), out.progress() as progress:
        found = run_all(
            folder,
            chosen or (),
            seed=first_seed,
            seeds=seeds,
            full=full,
            fresh=fresh,
            progress=progress,
        )
        for one in found.outcomes:
            draw(one, folder / f"{one.experiment}.png")
        write(found, page, again(context))
    out.emit(found, files={"page": page})


group = Commands(cls=Experiments, invoke_without_command=True, rich_markup_mode=None)
group.callback(
    epilog=epilog("""segre reproduce gap -o gap.png
    segre reproduce --all -o results
    segre reproduce --all -o some --only gap --only localise"""),
    invoke_without_command=True,
)(with_output(all_experiments))
app.add_typer(group, name="reproduce")


@group.answers("""segre reproduce theorems -o theorems
    segre reproduce theorems -o theorems --limit 5""")
def theorems(
    stores: Path = Path("theorems"),
    limit: int | None = None,
    workers: int | None = None,
    out: Out = Out(),
) -> None:
    """Test every theorem against the exact rank on small architectures.

    The sweeps cover 3,500 stacks and 530 transformers that satisfy the hypotheses, and 60 that do
    not; they take tens of minutes. If interrupted, the same command continues. Exit code 1: an
    architecture that satisfies the hypotheses disagrees with its theorem.
    """
    from segre.reproduce.theorems import experiment

    def compared(**asked: Any) -> Any:
        with resumable(stores):
            return experiment(stores, **asked)

    out.answer(compared, limit=limit, workers=workers, code=lambda found: int(found.mismatches > 0))
