"""What is written of a store for others? A table, CSV or Parquet (with pyarrow); certificates."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from segre.errors import SegreError, SweepError
from segre.files import extension, whole_file
from segre.geometry.progress import Progress, quiet
from segre.libraries import library
from segre.sweep.names import COUNTS
from segre.sweep.row import UNFINISHED
from segre.sweep.store import Row, Store
from segre.values import quote

FORMATS = (".csv", ".parquet")
_FIRST = ("digest", "spec")
_LAST = (
    *("parameters", "lower", "upper", "closed_form", "dimension", "redundancy", "status"),
    *("claim", "lower_evidence", "upper_evidence", "problem", "seed", "seconds"),
)
_THEOREM = ("theorem", "hypotheses")  # where they were asked for


def export(path: str | Path, target: str | Path) -> int:
    """Write the rows of a store in the plan's order, and return their number.

    The suffix of `target` says how: .csv or .parquet.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    >>> with TemporaryDirectory() as folder:
    ...     ran = run({"kind": "softmax", "exhaustive": True, "fields": fields}, f"{folder}/s.db")
    ...     export(f"{folder}/s.db", f"{folder}/s.csv")
    2
    """
    target = Path(target)
    if (suffix := extension(target, FORMATS)) not in FORMATS:
        raise SweepError(
            f"export {quote(str(target))}: unknown file format {target.suffix!r}; allowed: "
            f"{', '.join(FORMATS)}"
        )
    if suffix == ".parquet":  # before anything is read
        library("pyarrow.parquet", "Parquet", extra="tables", error=SweepError)
    columns, rows = table(path)
    with whole_file(target, suffix) as temporary:
        if suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows((columns, *rows))
        else:
            _write_parquet(columns, rows, temporary)
    return len(rows)


def table(path: str | Path) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """The names of the columns, and every row of a store, in the plan's order."""
    rows = _rows(path)
    theorem = _THEOREM if any("theorem" in row.evidence for row in rows) else ()
    # fields, with those of results left out (a transformer has no such keys, nor a stack)
    fields = dict.fromkeys(name for row in rows for name in row.fields)
    own = [name for name in fields if name not in {"layers", *_FIRST, *_LAST, *_THEOREM}]
    columns = (*_FIRST, *own, *_LAST, *theorem)
    return columns, tuple(tuple(map(_flat(row).get, columns)) for row in rows)


def keep_certificates(path: str | Path, folder: str | Path, progress: Progress = quiet) -> int:
    """Write the certificates that are not there yet, as DIGEST.json; how many there are then.

    Rows whose network is too large for a certificate have none.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    >>> with TemporaryDirectory() as place:
    ...     ran = run({"kind": "softmax", "exhaustive": True, "fields": fields}, f"{place}/s.db")
    ...     keep_certificates(f"{place}/s.db", f"{place}/proofs")
    2
    """
    from segre.certificate import certify, write_certificate

    rows = [row for row in _rows(path) if row.status not in UNFINISHED]
    Path(folder).mkdir(parents=True, exist_ok=True)
    kept = 0
    for done, row in enumerate(rows, 1):
        file = Path(folder) / f"{row.digest}.json"
        if not file.exists():
            try:
                write_certificate(certify(row.spec, row.seed), file)
            except SegreError:
                continue
        kept += 1
        progress("certificates", done, len(rows))
    return kept


def _rows(path: str | Path) -> list[Row]:
    with Store.open(path) as store:
        return list(store.rows())


def _flat(row: Row) -> dict[str, Any]:
    """One line of a table, and more; values per layer are JSON lists."""
    fields = {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in row.fields.items()
    }
    bounds = {
        f"{name}_evidence": row.evidence.get(name, {}).get("statement")
        for name in ("lower", "upper")
    }
    return {**fields, **row.document(), **bounds, "problem": row.evidence.get("problem")}


def _write_parquet(columns: tuple[str, ...], rows: Sequence[Sequence[Any]], target: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    texts = ("claim", "lower_evidence", "upper_evidence", "problem", "status")
    kinds = dict.fromkeys(texts, pyarrow.string()) | {"seconds": pyarrow.float64()}
    kinds |= dict.fromkeys(("seed", *COUNTS, *_THEOREM), pyarrow.int64())
    table = {
        name: pyarrow.array([row[place] for row in rows], kinds.get(name))
        for place, name in enumerate(columns)
    }
    parquet.write_table(pyarrow.table(table), target)
