"""The commands of `segre reproduce`, made from the registry of experiments; `--all`, `--verify`."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.cli import completion
from segre.cli.given import Parameter, file, flag
from segre.cli.options import OUTPUT
from segre.cli.output import (
    Out,
    again,
    draw,
    require_writable,
    resumable,
    with_output,
    write,
)
from segre.cli.tree import Commands, Group, app, epilog
from segre.errors import SegreError
from segre.files import place

if TYPE_CHECKING:
    from segre.reproduce.experiment import Experiment


_METAVARS: dict[type, str] = {int: "N", float: "X"}


def command_for(experiment: Experiment) -> Callable[..., None]:
    """The command of an experiment: its own options, and those that all have."""
    own = {option.key: option for option in experiment.options}

    def command(out: Out, output: Path, fresh: bool, **given: Any) -> None:
        from segre.reproduce.experiment import perform

        require_writable(plot=output)
        for key, option in own.items():
            values = given[key] if option.several else [given[key]]
            for one in values if option.allowed else ():
                if one is not None and one not in option.allowed:
                    allowed = ", ".join(option.allowed)
                    raise SegreError(f"{option.name} {one!r} is not allowed; allowed: {allowed}")
        run = run_file(output)
        with resumable(run, fresh=fresh), out.progress() as progress:
            found = perform(
                experiment,
                seed=given.pop("first_seed", 0),
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
    return command


def _parameters(experiment: Experiment) -> dict[str, Parameter]:
    """Its parameters that no other command has."""
    picture = Path(f"{experiment.name}.png")
    found = {"output": file("FILE", "File for the plot: .png, .svg or .pdf.", OUTPUT, picture)}
    for one in experiment.options:
        found[one.key] = Parameter(
            _METAVARS.get(one.kind, one.name.upper()),
            one.help,
            f"--{one.name}",
            one.kind,
            one.default,
            several=one.several,
            complete=completion.one_of(partial(tuple, one.allowed)) if one.allowed else None,
            min=one.least,
            max=one.most,
        )
    if experiment.longer:
        found["full"] = flag(f"The longer run: {experiment.longer}.")
    return found


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
    own = _parameters(experiment)
    takes = " ".join([*own, *["first_seed", "seeds"] * experiment.seeded, "fresh"])
    alone.answers(takes, examples, name=experiment.name, own=own)(command_for(experiment))
    return get_command(alone)


def all_experiments(
    out: Out,
    all_: bool,
    stored: bool,
    results: Path | None,
    chosen: list[str],
    fresh: bool,
    first_seed: int,
    **asked: Any,
) -> None:
    """Recompute tables and figures of the papers from scratch."""
    context = out.context
    assert context is not None
    if context.invoked_subcommand is not None:
        if all_ or stored:
            given = "--all" if all_ else "--verify"
            raise SegreError(
                f"{given} and the name of an experiment exclude each other; give one of them"
            )
        return
    folder = results or Path("reproductions")
    if stored:
        if all_ or chosen or fresh or asked["full"]:
            raise SegreError("--verify runs no experiment: it takes no option but --output")
        from segre.reproduce.verify import verify

        out.answer(verify, folder, code=lambda found: 0 if found.value else 1)
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

    for name in chosen:
        experiment(name)
    page = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    require_writable(plot=folder / "a.png", page=page)
    with resumable(folder, fresh=fresh), out.progress() as progress:
        found = run_all(folder, chosen, seed=first_seed, fresh=fresh, progress=progress, **asked)
        for one in found.outcomes:
            draw(one, folder / f"{one.experiment}.png")
        write(found, page, again(context))
    out.emit(found, files={"page": page})


group = Commands(cls=Experiments, invoke_without_command=True, rich_markup_mode=None)
group.callback(
    epilog=epilog("""segre reproduce gap -o gap.png
    segre reproduce --all -o results
    segre reproduce --all -o some --only gap --only localise
    segre reproduce --verify -o results"""),
    invoke_without_command=True,
)(with_output(all_experiments, "all_ stored results chosen full fresh first_seed seeds"))
app.add_typer(group, name="reproduce")


@group.answers(
    "stores limit workers",
    """segre reproduce theorems -o theorems
    segre reproduce theorems -o theorems --limit 5""",
)
def theorems(out: Out, stores: Path, **asked: Any) -> None:
    """Test every theorem against the exact rank on small architectures.

    The sweeps cover 3,500 stacks and 530 transformers that satisfy the hypotheses, and 60 that do
    not; they take tens of minutes. If interrupted, the same command continues. Exit code 1: an
    architecture that satisfies the hypotheses disagrees with its theorem.
    """
    from segre.reproduce.theorems import experiment

    def compared(**options: Any) -> Any:
        with resumable(stores):
            return experiment(stores, **options)

    out.answer(compared, code=lambda found: int(found.mismatches > 0), **asked)
