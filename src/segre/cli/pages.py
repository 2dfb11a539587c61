"""Plots and HTML pages that a command writes in addition to its answer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import typer

from segre.files import shown


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
