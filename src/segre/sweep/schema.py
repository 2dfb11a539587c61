"""What does a whole store look like? Its tables, its plan, its rows, and what is wrong with one.

Every row has a checksum (`row`), the plan has one, and the sum of the rows' checksums is kept
beside the plan, written with every row: nothing can be changed, lost or added unseen.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from segre.sweep.database import MARK
from segre.sweep.plan import Plan
from segre.sweep.row import COLUMNS, Row, checksum

VERSION = 2
UNCHECKED = 1  # the version before there were checksums
_SWEEP = "CREATE TABLE sweep (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
_KINDS: dict[Any, str] = {  # how SQLite keeps what a row has; tables are as JSON
    **{str: "TEXT NOT NULL", str | None: "TEXT", Mapping[str, Any]: "TEXT NOT NULL"},
    **{int: "INTEGER NOT NULL", int | None: "INTEGER", float: "REAL NOT NULL"},
}
_COLUMNS = {name: _KINDS[kind] for name, kind in get_type_hints(Row).items()}
_COLUMNS["digest"] = "TEXT PRIMARY KEY"


def _results(columns: Mapping[str, str]) -> str:
    each = ",\n    ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"CREATE TABLE results (\n    {each}\n)"


_TABLES = {
    UNCHECKED: (_SWEEP, _results(_COLUMNS)),
    VERSION: (_SWEEP, _results({**_COLUMNS, "checksum": "TEXT NOT NULL"})),
}
_MODULUS = 1 << 128
# errors of the machine, or of somebody else who uses the file: they say nothing about the store
_ELSEWHERE = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM),
    *(sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PROTOCOL),
}


@dataclass(frozen=True)
class Examined:
    """What was found in a file: the plan's entries (none: nothing was begun), or what is wrong."""

    problem: str | None = None
    version: int = VERSION
    known: dict[str, Any] | None = None
    count: int = 0
    total: int = 0  # of the rows' checksums


def begin(db: sqlite3.Connection, plan: Plan) -> None:
    """A new store; whose file this is comes first, so that it is in the header whatever happens."""
    db.execute(f"PRAGMA application_id = {MARK}")
    for statement in _TABLES[VERSION]:
        db.execute(statement)
    write_plan(db, plan)
    write_total(db, 0, 0)


def write_plan(db: sqlite3.Connection, plan: Plan) -> None:
    """Put the plan's entries into a store."""
    given = json.loads(json.dumps(dict(plan.given), default=str))
    entries = [VERSION, plan.digest, given]
    _write(db, version=VERSION, digest=plan.digest, plan=given, checksum=checksum("plan", entries))


def write_total(db: sqlite3.Connection, count: int, total: int) -> None:
    """Put down how many rows there are, and the sum of their checksums."""
    _write(db, rows=[count, f"{total % _MODULUS:032x}"])


def _write(db: sqlite3.Connection, **entries: Any) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO sweep VALUES (?, ?)",
        [(key, json.dumps(value)) for key, value in entries.items()],
    )


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says something about the store, rather than about the machine."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _ELSEWHERE


def examine(db: sqlite3.Connection, *, to_write: bool = False) -> Examined:
    """Look at all of a store; errors that are no damage are raised.

    Who writes needs the index as well, in which reading looks for nothing.
    """
    try:
        return _examine(db, "integrity_check" if to_write else "quick_check")
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return Examined(str(error))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Examined("its plan cannot be read")


def _examine(db: sqlite3.Connection, check: str) -> Examined:
    tables = _tables_of(db)
    if not tables:
        return Examined()
    version = next((v for v in _TABLES if tables == _tables(v)), None)
    if version is None:
        return Examined("it does not have the tables of a store")
    (said,) = db.execute(f"PRAGMA {check}(1)").fetchone()
    if said != "ok":
        return Examined(" ".join(str(said).split()))
    known = {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM sweep")}
    if not known:
        return Examined()
    if known["version"] != version:
        return Examined("its version does not match its tables")
    if version == UNCHECKED:
        bad = sum(row is None for row in rows(db, version, None))
        return Examined(_of_rows(bad), version, known)
    if known["checksum"] != checksum("plan", [version, known["digest"], known["plan"]]):
        return Examined("its plan has been altered")
    return _examine_rows(db, known)


def _examine_rows(db: sqlite3.Connection, known: dict[str, Any]) -> Examined:
    count = total = bad = 0
    for found in _selected(db, VERSION):
        count += 1
        if Row.read(found, known["digest"]) is None:
            bad += 1
        else:
            total = (total + int(found[-1], 16)) % _MODULUS
    problem = _of_rows(bad)
    if problem is None and known["rows"][0] != count:
        problem = f"{known['rows'][0]} rows were written, but it has {count}"
    elif problem is None and known["rows"][1] != f"{total:032x}":
        problem = "its rows have been altered"
    return Examined(problem, VERSION, known, count, total)


def _of_rows(bad: int) -> str | None:
    what = "row has been altered" if bad == 1 else "rows have been altered"
    return f"{bad:,} {what}" if bad else None


def rows(
    db: sqlite3.Connection, version: int, plan: str | None, rest: str = "", *values: Any
) -> Iterator[Row | None]:
    """The rows that a query selects; None for those that are not what was written."""
    for found in _selected(db, version, rest, *values):
        yield Row.read(found, plan)


def _selected(
    db: sqlite3.Connection, version: int, rest: str = "", *values: Any
) -> Iterator[tuple[Any, ...]]:
    columns = ", ".join(COLUMNS if version == UNCHECKED else (*COLUMNS, "checksum"))
    yield from db.execute(f"SELECT {columns} FROM results {rest}", values)


def _tables_of(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return sorted(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"), key=str)


def _tables(version: int) -> list[tuple[Any, ...]]:
    """How SQLite describes the tables of a version, each with the index of its key."""
    found: list[tuple[Any, ...]] = []
    for name, sql in zip(("sweep", "results"), _TABLES[version], strict=True):
        found += [("table", name, name, sql), ("index", f"sqlite_autoindex_{name}_1", name, None)]
    return sorted(found, key=str)
