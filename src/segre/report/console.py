"""The console that reports are printed to: plain text, without markup or guessed colours."""

from __future__ import annotations

import os
import re
import sys
from contextvars import ContextVar
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.measure import Measurement

if TYPE_CHECKING:
    from rich.table import Column  # imported by those who print tables

captured: ContextVar[StringIO | None] = ContextVar("captured", default=None)  # instead of stdout
_COLUMNS = 80  # of text that is not printed to a terminal
_UNBOUNDED = 1 << 16  # columns: wider than any table


class _Uncut(Console):
    """A console that never shortens a cell of a table: 1.4e-07 cut to 1.4 is another number.

    On a narrow terminal, columns of prose wrap. A table that is still too wide is printed wider
    than the terminal, which breaks its lines and loses nothing.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; every table is at least as wide as what cannot wrap."""
        own = self.width
        for table in (one for one in objects if hasattr(one, "add_column")):
            for column in table.columns:
                column.min_width = max(column.min_width or 0, self._needed(column))
            self.width = max(self.width, self._measured(table).minimum)
            options["crop"] = False
        try:
            super().print(*objects, **options)
        finally:
            self.width = own

    def _needed(self, column: Column) -> int:
        if column.overflow == "fold":
            return 1
        cells = [self._measured(one) for one in (column.header, *column.cells)]
        return max(cell.maximum if column.no_wrap else cell.minimum for cell in cells)

    def _measured(self, shown: RenderableType) -> Measurement:
        return Measurement.get(self, self.options.update(max_width=_UNBOUNDED), shown)


def plain_console(width: int | None = None) -> Console:
    """A console on standard output, by default as wide as the terminal."""
    text = captured.get()
    if text is not None:  # the same everywhere: no colours, and not a notebook's own output
        return _Uncut(
            file=text,
            highlight=False,
            markup=False,
            width=width or _COLUMNS,
            force_terminal=False,
            force_jupyter=False,
            color_system=None,
        )
    trimmed = None if sys.stdout.isatty() else cast("IO[str]", _Trimmed(sys.stdout))
    return _Uncut(file=trimmed, highlight=False, markup=False, width=width, _environ=_environment())


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


def _environment() -> dict[str, str]:
    """The environment without impossible screen sizes: with 0 columns, rich prints nothing."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES"} or re.fullmatch(r"0*[1-9][0-9]{0,5}", value)
    }
