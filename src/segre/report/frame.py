"""The table of an answer as a DataFrame of pandas, and as comma-separated values."""

from __future__ import annotations

import csv
import io
from typing import Any

from segre.libraries import library
from segre.report.views import tabled


def frame_of(answer: object) -> Any:
    """The table of an answer as a DataFrame."""
    pandas = library("pandas", "to_pandas", extra="tables")
    table = tabled(answer)
    frame = pandas.DataFrame(list(table.rows), columns=list(table.columns))
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        if None in cells and {int} == {type(cell) for cell in cells if cell is not None}:
            frame[name] = pandas.array(cells, dtype="Int64")  # else they would become floats
    return frame


def csv_of(answer: object) -> str:
    """One line for each row of the answer's table, after the names of its columns."""
    table, text = tabled(answer), io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue().removesuffix("\n")
