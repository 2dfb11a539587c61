"""One way to answer: a command names a call, and `Out` makes it and prints what it returns.

A format is one entry of `FORMATS`: every command then has its flag, `--json` for "json". A format
of tables is one of `TABLES`: commands whose answer is a table (`TableOut`) have its flag. Without a
flag the answer is text, by the renderer of its type (`report/text.py`).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from segre.cli.given import memory_bytes
from segre.cli.options import DECLARED
from segre.cli.pages import again, draw, require_writable, write
from segre.files import before_writing, shown, streamed

if TYPE_CHECKING:
    from segre.finding import Documented
    from segre.geometry.progress import Progress

TEXT = "text"


def _json(document: Mapping[str, Any]) -> str:
    """One JSON object, keys sorted."""
    from segre.json_data import strict_json

    return strict_json(document, indent=2, sort_keys=True)


@dataclass(frozen=True)
class Format:
    """The help text of a format, and the function that writes a document in it."""

    help: str
    write: Callable[[Mapping[str, Any]], str]


def _csv(answer: Documented) -> str:
    """The answer's table."""
    from segre.report.frame import csv_of

    return csv_of(answer)


FORMATS = {"json": Format("Print one JSON object instead of text.", _json)}
TABLES = {"csv": ("Print the table as comma-separated values.", _csv)}


def emit(
    answer: Documented | None,
    format: str = TEXT,
    *,
    data: Mapping[str, Any] | None = None,
    lines: Sequence[str] = (),
) -> None:
    """Print an answer; `data` is added to its document, and `lines` come after its text.

    If the command has written a file to standard output, the answer goes to standard error.
    """
    for check in before_writing:
        check()
    if streamed:
        sys.stdout = sys.stderr
    if format in TABLES and answer is not None:
        typer.echo(TABLES[format][1](answer))
        return
    if format != TEXT:
        own = {} if answer is None else answer.document()
        typer.echo(FORMATS[format].write({**own, **(data or {})}))
        return
    if answer is not None:
        from segre.report.text import print_text

        print_text(answer)
    for line in lines:
        typer.echo(line)


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
        if "memory" in options:
            options["memory"] = memory_bytes(options["memory"])
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
        """Print an answer, name the `files` that were written with it, and exit with a code."""
        written = files or {}
        named = {what: file and shown(file) for what, file in written.items()}
        said = [f"{what}: {file}" for what, file in written.items() if file is not None]
        emit(answer, self.format, data={**(data or {}), **named}, lines=[*lines, *said])
        if code:
            raise typer.Exit(code)


class TableOut(Out):
    """The same, for a command whose answer is a table."""


def with_output(command: Callable[..., None]) -> Callable[..., None]:
    """A command as the argument parser sees it: the options for `out` in place of `out`."""

    @functools.wraps(command)
    def read(context: typer.Context, quiet: bool, **given: Any) -> None:
        asked = [name for name in _formats(command) if given.pop(_flag(name))]
        command(**given, out=Out(asked[0] if asked else TEXT, quiet, context))

    return with_parameters(read, _parameters(command))


def with_parameters(
    command: Callable[..., None], parameters: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """A command whose parameters are these for the argument parser."""
    own = list(parameters)
    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in own}
    return command


def _parameters(command: Callable[..., None]) -> Iterator[inspect.Parameter]:
    """Those of the function, each declared, then the formats of its answer."""

    def declared(name: str, kind: Any, info: Any, default: Any = False) -> inspect.Parameter:
        place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Parameter(name, place, default=default, annotation=Annotated[kind, info])

    hints = get_type_hints(command, include_extras=True)
    yield inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    for name, parameter in inspect.signature(command).parameters.items():
        if get_origin(hints[name]) is Annotated:
            yield parameter.replace(annotation=hints[name])
        elif name != "out":
            yield declared(name, hints[name], DECLARED[name].declared(name), parameter.default)
    for name, said in _formats(command).items():
        yield declared(_flag(name), bool, typer.Option(f"--{name}", help=said))
    yield declared("quiet", bool, DECLARED["quiet"].declared("quiet"))


def _formats(command: Callable[..., None]) -> dict[str, str]:
    """The formats of a command, with their help texts."""
    found = {name: one.help for name, one in FORMATS.items()}
    if get_type_hints(command)["out"] is TableOut:
        found |= {name: said for name, (said, _) in TABLES.items()}
    return found


def _flag(name: str) -> str:
    return f"as_{name}"
