"""Where do results live? One SQLite file with a row per architecture, whole at any moment.

Only a driver writes, one at a time, and a row is written in one transaction: whatever is killed,
the rows that were written are there, and no architecture has two. Anyone may read meanwhile.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.errors import SweepError
from segre.sweep.claim import judge
from segre.sweep.plan import Plan
from segre.values import quote

VERSION = 1
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sweep (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS results (
    digest TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    spec TEXT NOT NULL,
    fields TEXT NOT NULL,
    parameters INTEGER NOT NULL,
    lower INTEGER,
    upper INTEGER,
    closed_form INTEGER,
    status TEXT NOT NULL,
    claim TEXT,
    evidence TEXT NOT NULL,
    seed INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    seconds REAL NOT NULL
)""",
)
_COLUMNS = (
    "digest, place, spec, fields, parameters, lower, upper, closed_form, status, claim, evidence, "
    "seed, bytes, seconds"
)


@dataclass(frozen=True)
class Row:
    """One architecture and what was found."""

    digest: str
    place: int  # in the plan's order
    spec: str
    fields: Mapping[str, Any]
    parameters: int
    lower: int | None
    upper: int | None
    closed_form: int | None
    status: str
    claim: str | None
    evidence: Mapping[str, Any]
    seed: int
    bytes: int
    seconds: float

    @property
    def dimension(self) -> int | None:
        """The dimension, where it is proved."""
        return self.lower if self.status == "proved" else None

    def results(self) -> dict[str, Any]:
        """What expressions may say about results."""
        dimension = self.dimension
        return {
            "parameters": self.parameters,
            "lower": self.lower,
            "upper": self.upper,
            "closed_form": self.closed_form,
            "status": self.status,
            "dimension": dimension,
            "redundancy": None if dimension is None else self.parameters - dimension,
        }

    def document(self) -> dict[str, Any]:
        """The row as plain data, for JSON."""
        return {
            "digest": self.digest,
            "spec": self.spec,
            "fields": dict(self.fields),
            **self.results(),
            "claim": self.claim,
            "evidence": dict(self.evidence),
            "seed": self.seed,
            "seconds": self.seconds,
        }


class Store:
    """An open store."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.path = path

    @classmethod
    @contextmanager
    def create(cls, path: str | Path, plan: Plan) -> Iterator[Store]:
        """The store of a plan, new or continued, for the one driver that writes it."""
        path = Path(path)
        if path.exists() and path.stat().st_size:  # nobody else's database is written to
            with _opened(path, new=False) as db:
                tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if tables and not tables >= {"sweep", "results"}:
                raise SweepError(f"store {quote(str(path))}: not the store of a sweep")
        with _only_driver(path):
            begun = path.exists()
            try:
                with _opened(path, new=True) as db:
                    store = cls(db, path)
                    store._begin(plan)
                    begun = True
                    yield store
            except BaseException:
                if not begun:  # a file without a plan would be refused the next time
                    path.unlink(missing_ok=True)
                raise

    @classmethod
    @contextmanager
    def open(cls, path: str | Path) -> Iterator[Store]:
        """A store to read."""
        path = Path(path)
        if not path.is_file():
            raise SweepError(
                f"store {quote(str(path))}: no such file; make it with segre sweep run"
            )
        with _opened(path, new=False) as db:
            store = cls(db, path)
            db.execute("BEGIN")  # what is read is of one moment
            store.plan()
            yield store

    def _begin(self, plan: Plan) -> None:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                self._db.execute(statement)
            known = self._known()
            if known and known.get("digest") != plan.digest:
                raise SweepError(
                    f"store {quote(str(self.path))}: holds another sweep (other kinds, fields, "
                    "constraints, seed or computations); give another file with -o"
                )
            before = self.plan().claim if known else plan.claim
            values = {"version": VERSION, "digest": plan.digest, "plan": dict(plan.given)}
            self._db.executemany(
                "INSERT OR REPLACE INTO sweep VALUES (?, ?)",
                [(key, json.dumps(value, default=str)) for key, value in values.items()],
            )
            if before != plan.claim:
                self._db.executemany(
                    "UPDATE results SET claim = ? WHERE digest = ?",
                    [(judge(plan.claim, r.fields, r.results()), r.digest) for r in self.rows()],
                )

    def _known(self) -> dict[str, Any]:
        try:
            found = self._db.execute("SELECT key, value FROM sweep").fetchall()
            known = {key: json.loads(value) for key, value in found}
        except (sqlite3.Error, ValueError):
            raise SweepError(f"store {quote(str(self.path))}: not the store of a sweep") from None
        if known and known.get("version") != VERSION:
            raise SweepError(
                f"store {quote(str(self.path))}: version {known.get('version')}; allowed: {VERSION}"
            )
        return known

    def plan(self) -> Plan:
        """The plan whose results these are."""
        given = self._known().get("plan")
        if not isinstance(given, dict):
            raise SweepError(f"store {quote(str(self.path))}: not the store of a sweep")
        return Plan.from_mapping(given, str(self.path))

    def forget(self, memory: int) -> None:
        """Remove rows to be tried again: workers died of them, or they fit into memory now."""
        with self._db:
            self._db.execute(
                "DELETE FROM results WHERE status = 'died' "
                "OR (status = 'too-large' AND bytes <= ?)",
                (memory,),
            )

    def digests(self) -> set[str]:
        """The architectures that are done."""
        return {digest for (digest,) in self._db.execute("SELECT digest FROM results")}

    def add(self, rows: Iterable[Row]) -> None:
        """Write rows, all or none of them; an architecture that has a row keeps it."""
        with self._db:
            self._db.executemany(
                f"INSERT OR IGNORE INTO results ({_COLUMNS}) VALUES ({'?, ' * 13}?)",
                [
                    (
                        *(r.digest, r.place, r.spec, json.dumps(r.fields), r.parameters),
                        *(r.lower, r.upper, r.closed_form, r.status, r.claim),
                        *(json.dumps(r.evidence, sort_keys=True), r.seed, r.bytes, r.seconds),
                    )
                    for r in rows
                ],
            )

    def rows(self, claim: str | None = None, limit: int = -1) -> Iterator[Row]:
        """The rows in the plan's order; only those with a verdict, if it is given."""
        query = (
            f"SELECT {_COLUMNS} FROM results WHERE ? IS NULL OR claim = ? ORDER BY place LIMIT ?"
        )
        try:
            for found in self._db.execute(query, (claim, claim, limit)):
                row = dict(zip(_COLUMNS.split(", "), found, strict=True))
                for key in ("fields", "evidence"):
                    row[key] = json.loads(row[key])
                yield Row(**row)
        except (sqlite3.Error, ValueError) as error:
            raise SweepError(f"store {quote(str(self.path))}: cannot be read ({error})") from None

    def count(self, column: str) -> dict[str, int]:
        """How many rows have each value of `status` or `claim`."""
        assert column in {"status", "claim"}
        query = f"SELECT {column}, COUNT(*) FROM results GROUP BY {column} ORDER BY {column}"
        return {str(value): count for value, count in self._db.execute(query)}

    def seconds(self) -> float:
        """Time that all tasks took together."""
        (total,) = self._db.execute("SELECT COALESCE(SUM(seconds), 0) FROM results").fetchone()
        return float(total)


@contextmanager
def _opened(path: Path, new: bool) -> Iterator[sqlite3.Connection]:
    try:
        mode = "rwc" if new else "rw" if os.access(path, os.W_OK) else "ro"
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=60)
    except sqlite3.Error as error:
        raise SweepError(f"store {quote(str(path))}: {error}") from None
    try:
        try:
            if new:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
            db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise SweepError(f"store {quote(str(path))}: {error}") from None
        yield db
    finally:
        db.close()


@contextmanager
def _only_driver(path: Path) -> Iterator[None]:
    """Holds a lock file beside the store; the system lets go of it when the process dies."""
    import fcntl

    lock = path.with_name(path.name + "-lock")
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SweepError(f"store {quote(str(path))}: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise SweepError(
                f"store {quote(str(path))}: another run is writing it; wait for it, or stop it"
            ) from None
        if lock.exists() and lock.stat().st_ino == os.fstat(handle).st_ino:
            break
        os.close(handle)  # removed by the run that just ended
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
