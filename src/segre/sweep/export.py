"""What is written of a store for others? A table, CSV or Parquet (with pyarrow); certificates."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from segre.errors import SegreError, SweepError
from segre.files import extension, whole_file
from segre.geometry.progress import Progress, quiet
from segre.libraries import library
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
    rows = _rows(path)
    columns = _columns(rows)
    with whole_file(target, suffix) as temporary:
        if suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(map(_flat, rows))
        else:
            _write_parquet(rows, columns, temporary)
    return len(rows)


def table(path: str | Path) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """The names of the columns, and every row of a store, in the plan's order."""
    rows = _rows(path)
    columns = tuple(_columns(rows))
    flat = map(_flat, rows)
    return columns, tuple(tuple(line.get(name) for name in columns) for line in flat)


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


def _columns(rows: list[Row]) -> list[str]:
    theorem = _THEOREM if any("theorem" in row.evidence for row in rows) else ()
    return [*_FIRST, *_field_names(rows), *_LAST, *theorem]


def _field_names(rows: Iterable[Row]) -> list[str]:
    """Fields, with those of results left out (a transformer has no such keys, nor a stack)."""
    names = dict.fromkeys(name for row in rows for name in row.fields if name != "layers")
    return [name for name in names if name not in {*_FIRST, *_LAST, *_THEOREM}]


def _flat(row: Row) -> dict[str, Any]:
    """One line of a table; values per layer are JSON lists."""
    fields = {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in row.fields.items()
        if name != "layers"
    }
    evidence = {
        f"{name}_evidence": row.evidence.get(name, {}).get("statement")
        for name in ("lower", "upper")
    }
    return {
        **fields,
        "digest": row.digest,
        "spec": row.spec,
        **row.results(),
        "claim": row.claim,
        **evidence,
        "problem": row.evidence.get("problem"),
        "seed": row.seed,
        "seconds": row.seconds,
    }


def _write_parquet(rows: list[Row], columns: list[str], target: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    flat = [_flat(row) for row in rows]
    kinds = {"seconds": pyarrow.float64(), "seed": pyarrow.int64()}
    numbers = ("parameters", "lower", "upper", "closed_form", "dimension", "redundancy", *_THEOREM)
    kinds |= dict.fromkeys(numbers, pyarrow.int64())
    kinds |= dict.fromkeys(
        ("claim", "lower_evidence", "upper_evidence", "problem", "status"), pyarrow.string()
    )
    table = {
        name: pyarrow.array([line.get(name) for line in flat], kinds.get(name)) for name in columns
    }
    parquet.write_table(pyarrow.table(table), target)
