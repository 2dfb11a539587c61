"""The console that reports are printed to: plain text, without markup or guessed colours."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.text import Text

from segre.report.text import captured

Lines = list[tuple[str, str, str | Text]]  # a name, a number and a sentence


_COLUMNS = 80  # of text that is not printed to a terminal


def plain_console(width: int | None = None) -> Console:
    """A console on standard output, by default as wide as the terminal."""
    text = captured.get()
    if text is not None:  # the same everywhere: no colours, and not a notebook's own output
        return Console(
            file=text,
            highlight=False,
            markup=False,
            width=width or _COLUMNS,
            force_terminal=False,
            force_jupyter=False,
            color_system=None,
        )
    trimmed = None if sys.stdout.isatty() else cast("IO[str]", _Trimmed(sys.stdout))
    return Console(
        file=trimmed, highlight=False, markup=False, width=width, _environ=_environment()
    )


class _Trimmed:
    """A stream without the blanks with which tables fill their last column."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, without blanks at the end of its lines."""
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def progress_console() -> Console:
    """A console on standard error, for progress."""
    return Console(stderr=True, _environ=_environment())


def print_lines(console: Console, lines: Lines) -> None:
    """Name, number and sentence in columns; long sentences wrap under themselves."""
    named = max(len(name) for name, _, _ in lines)
    numbered = max(len(number) for _, number, _ in lines)
    margin = named + numbered + 4
    for name, number, sentence in lines:
        head = Text(f"{name:<{named}}  {number:>{numbered}}  ")
        head.stylize("bold", 0, named)
        if isinstance(sentence, Text):
            console.print(head.append_text(sentence), soft_wrap=True)
            continue
        first, *rest = textwrap.wrap(
            sentence,
            max(30, console.width - margin),
            break_long_words=False,  # specs are to be copied
            break_on_hyphens=False,
        ) or [""]
        head.append(first)
        head.rstrip()
        console.print(head, soft_wrap=True)
        for line in rest:
            console.print(" " * margin + line, soft_wrap=True)


def _environment() -> dict[str, str]:
    """The environment without impossible screen sizes: with 0 columns, rich prints nothing."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"} or re.fullmatch(r"0*[1-9][0-9]{0,5}", value)
    }
