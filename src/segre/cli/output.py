"""One way to answer: a command names a call, and `Out` makes it and prints what it returns.

A format is one entry of `FORMATS`: every command then has its flag, `--json` for "json". A format
of tables is one of `TABLES`: commands whose answer is a table (`TableOut`) have its flag. Without a
flag the answer is text, by the renderer of its type (`report/text.py`).
"""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from segre.cli.given import REQUIRED, Parameter, meant
from segre.cli.options import DECLARED
from segre.errors import InterruptedRunError
from segre.files import before_writing, shown, streamed

if TYPE_CHECKING:
    from segre.finding import Documented
    from segre.geometry.progress import Progress

TEXT = "text"


def _json(document: Mapping[str, Any]) -> str:
    """One JSON object, keys sorted."""
    from segre.json_data import strict_json

    return strict_json(document, indent=2, sort_keys=True)


def _csv(answer: Documented) -> str:
    """The answer's table."""
    from segre.report.frame import csv_of

    return csv_of(answer)


FORMATS = {"json": ("Print one JSON object instead of text.", _json)}
TABLES = {"csv": ("Print the table as comma-separated values.", _csv)}


@dataclass(frozen=True)
class Out:
    """What the user wants to see: the format of the answer, and whether to show progress."""

    format: str = TEXT
    quiet: bool = False
    context: typer.Context | None = None

    @property
    def is_text(self) -> bool:
        """Whether the answer is for a human reader."""
        return self.format == TEXT

    def progress(self, *, rate: bool = False) -> AbstractContextManager[Progress]:
        """A progress bar, unless the output is quiet or not text."""
        from segre.report.progress import progress_bar

        return progress_bar(self.quiet or not self.is_text, rate)

    def waiting(self, what: str) -> AbstractContextManager[None]:
        """A spinner, unless the output is quiet or not text."""
        from segre.report.progress import waiting

        return waiting(what, self.quiet or not self.is_text)

    def answer(
        self,
        call: Callable[..., Any],
        *given: Any,
        waiting: str = "",
        rate: bool = False,
        plot: Path | None = None,
        page: Path | None = None,
        files: Mapping[str, Path | None] | None = None,
        instead: Callable[[Any], Mapping[str, Sequence[str]]] | None = None,
        data: Mapping[str, Any] | None = None,
        code: Callable[[Any], int] | None = None,
        **options: Any,
    ) -> None:
        """Make a call, draw its `plot`, write its `page`, print the answer and exit with its code.

        The call reports its progress, unless `waiting` says what is waited for. `instead` gives
        arguments for the command that the page names, where they are not those that were given.
        """
        require_writable(plot=plot, page=page)
        if waiting:
            with self.waiting(waiting):
                found = call(*given, **options)
        else:
            with self.progress(rate=rate) as progress:
                found = call(*given, **options, progress=progress)
        draw(found, plot)
        if page is not None and self.context is not None:
            write(found, page, again(self.context, **(instead(found) if instead else {})))
        written = {what: file for what, file in {"plot": plot, "page": page}.items() if file}
        exits = code(found) if code else 0
        self.emit(found, files={**(files or {}), **written}, data=data, code=exits)

    def emit(
        self,
        answer: Documented | None = None,
        *,
        files: Mapping[str, Path | None] | None = None,
        data: Mapping[str, Any] | None = None,
        lines: Sequence[str] = (),
        code: int = 0,
    ) -> None:
        """Print an answer, name the `files` that were written with it, and exit with a code.

        `data` is added to its document, and `lines` come after its text. If the command has written
        a file to standard output, the answer goes to standard error.
        """
        for check in before_writing:
            check()
        if streamed:
            sys.stdout = sys.stderr
        written = files or {}
        if self.format in TABLES and answer is not None:
            typer.echo(TABLES[self.format][1](answer))
        elif not self.is_text:
            own = {} if answer is None else answer.document()
            named = {what: file and shown(file) for what, file in written.items()}
            typer.echo(FORMATS[self.format][1]({**own, **(data or {}), **named}))
        else:
            said = [f"{what}: {file}" for what, file in written.items() if file is not None]
            _print_text(answer, [*lines, *said])
        if code:
            raise typer.Exit(code)


class TableOut(Out):
    """The same, for a command whose answer is a table."""


def _print_text(answer: Documented | None, lines: Sequence[str]) -> None:
    if answer is not None:
        from segre.report.text import print_text

        print_text(answer)
    for line in lines:
        typer.echo(line)


def with_output(
    command: Callable[..., None], takes: str, own: Mapping[str, Parameter] | None = None
) -> Callable[..., None]:
    """A command as the argument parser sees it, with a parameter for each name in `takes`.

    A name may have a default of its own: "length=64". Names are declared in `options`, or in `own`.
    The formats of its answer become options; the command has them as `out`. A design is filled in
    with its `defaults` here, unless the command asks for them.
    """
    declared = {**DECLARED, **(own or {})}
    outs = get_type_hints(command)["out"]
    fills = "defaults" in inspect.signature(command).parameters
    formats = {name: said for name, (said, _) in FORMATS.items()}
    if outs is TableOut:
        formats |= {name: said for name, (said, _) in TABLES.items()}

    @functools.wraps(command)
    def read(context: typer.Context, quiet: bool, **given: Any) -> None:
        asked = [name for name in formats if given.pop(_flag(name))]
        out = outs(asked[0] if asked else TEXT, quiet, context)
        known = {name: declared[name].value(value) for name, value in given.items()}
        if "defaults" in known and not fills:
            filled = known.pop("defaults")
            known |= {one: meant(known[one], filled) for one in ("spec", "model") if one in known}
        command(out, **known)

    parameters = [_parameter("context", typer.Context)]
    for word in takes.split():
        name, equals, usual = word.partition("=")
        one = declared[name]
        default = one.kind(usual) if equals else one.usual
        kind, info = one.annotation(default), one.declared(name)
        parameters.append(_parameter(name, Annotated[kind, info], default))
    for name, said in formats.items():
        parameters.append(
            _parameter(_flag(name), Annotated[bool, typer.Option(f"--{name}", help=said)], False)
        )
    said = DECLARED["quiet"].declared("quiet")
    parameters.append(_parameter("quiet", Annotated[bool, said], False))
    read.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    read.__annotations__ = {one.name: one.annotation for one in parameters}
    return read


def _parameter(name: str, annotation: Any, default: Any = REQUIRED) -> inspect.Parameter:
    usual = inspect.Parameter.empty if default is REQUIRED else default
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=usual, annotation=annotation)


def _flag(name: str) -> str:
    return f"as_{name}"


def require_writable(*, plot: Path | None = None, page: Path | None = None) -> None:
    """Refuse a plot or page that cannot be written before anything is computed."""
    if plot is not None:
        from segre.report.png import STATIC, require_format

        require_format(plot, STATIC)
    if page is not None:
        from segre.report.page.render import require_page

        require_page(page)


def draw(answer: object, plot: Path | None) -> None:
    """Draw the plots of an answer, if a file was named for them."""
    if plot is not None:
        from segre.report.png import plot as drawing

        drawing(answer, plot)


def write(answer: object, page: Path | None, command: str = "") -> None:
    """Write the page of an answer, if a file was named for it."""
    if page is not None:
        from segre.report.page.render import write_answer

        write_answer(answer, page, today(), command)


def again(context: typer.Context, **instead: Sequence[str]) -> str:
    """The running command as it was given, to be run again: files as reports name them.

    `instead` has values for arguments that cannot be given again, as what was read from a pipe.
    """
    arguments: list[str] = []
    options: list[str] = []
    for one in context.command.params:
        name = str(one.name)
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = instead.get(name, context.params[name])
        several = value if isinstance(value, list | tuple) else [value]
        values = [shown(str(each)) for each in several]
        if one.param_type_name == "argument":
            arguments += values
        elif name != "quiet" and not name.startswith("as_"):  # how to print, not what
            flag = min(one.opts, key=len)
            options += [flag] if value is True else [w for each in values for w in (flag, each)]
    words = context.command_path.split()[1:]
    return shlex.join(["segre", *words, *arguments, *options])


def today() -> str:
    """Today's date, for pages.

    >>> len(today())
    10
    """
    return f"{date.today():%Y-%m-%d}"


@contextmanager
def resumable(file: Path, *, fresh: bool = False) -> Iterator[None]:
    """Finished work is kept in `file`, from which the same command continues after an interruption.

    `fresh` says that this command was told to start over: continuing then takes another command.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not file.exists():  # there was nothing to keep yet
            raise
        command = "the same command without --fresh" if fresh else "the same command"
        raise InterruptedRunError(
            f"interrupted; finished work is kept in {str(file)!r}; to continue, run {command}"
        ) from None
