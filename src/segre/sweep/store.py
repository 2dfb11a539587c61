"""Where do results live? One SQLite file with a row per architecture, whole at any moment.

Only a driver writes, one at a time, and a row is written in one transaction: whatever is killed,
the rows that were written are there, and no architecture has two. Anyone may read meanwhile.
What is not as it was written is never shown: a reader says so, and a driver computes it again.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from segre.errors import SweepError
from segre.sweep import schema
from segre.sweep.database import connected, driving, only_driver, ours, require_file
from segre.sweep.plan import Plan
from segre.sweep.row import COLUMNS, judged
from segre.sweep.row import Row as Row
from segre.values import quote

_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a file
RETRIED = "timed-out"  # the status of rows that a later run tries again, after all others


class Store:
    """An open store."""

    def __init__(self, connection: sqlite3.Connection, path: Path, found: schema.Examined) -> None:
        self._db = connection
        self.path = path
        self.version = found.version
        self.mended: str | None = None  # what was wrong with it, and what became of it
        self._known = found.known or {}
        self._count, self._total = found.count, found.total

    @classmethod
    @contextmanager
    def create(cls, path: str | Path, plan: Plan) -> Iterator[Store]:
        """The store of a plan, new or continued, for the one driver that writes it.

        A damaged one is mended: what is whole is kept, and so is the damaged file.
        """
        require_file(Path(path), written=True)
        named, real = Path(path), Path(path).resolve()
        with only_driver(real), driving(named):
            there = real.exists() and real.stat().st_size > 0
            found = _examined(real, named) if there else schema.Examined()
            mended = None
            if found.known and found.known.get("digest") != plan.digest:
                raise SweepError(
                    f"store {quote(str(path))} holds another sweep (other kinds, fields, "
                    "constraints, seed or computations); give another file with -o"
                )
            if found.problem is not None or found.version != schema.VERSION or not found.known:
                mended = _anew(real, named, plan, found if there else None)
                found = _examined(real, named)
            with connected(real, "rw") as db:
                store = cls(db, named, found)
                store.mended = mended
                store._begin(plan)
                yield store

    @classmethod
    @contextmanager
    def open(cls, path: str | Path) -> Iterator[Store]:
        """A store to read."""
        path = Path(path)
        require_file(path)
        if not path.exists():
            raise SweepError(f"store {quote(str(path))}: no such file; segre sweep run creates it")
        try:
            with connected(path.resolve(), "ro") as db:
                db.execute("BEGIN")  # what is read is of one moment
                found = schema.examine(db)
                _require_whole(path, found)
                yield cls(db, path, found)
        except sqlite3.Error as error:
            if schema.is_damage(error):
                _require_whole(path, schema.Examined(str(error)))
            raise SweepError(f"store {quote(str(path))} cannot be read: {error}") from None

    def _begin(self, plan: Plan) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            before = self.plan().claim
            schema.write_plan(self._db, plan)
            self._known = {"digest": plan.digest, "plan": dict(plan.given)}
            if before != plan.claim:
                self._put(judged(row, plan.claim) for row in list(self.rows()))

    def plan(self) -> Plan:
        """The plan whose results these are."""
        return Plan.from_mapping(self._known["plan"], str(self.path))

    def forget(self, memory: int) -> None:
        """Remove rows to be tried again: workers died of them, or they fit into memory now."""
        with driving(self.path), self._db:
            found = self._db.execute(
                "SELECT digest FROM results WHERE status = 'died' "
                "OR (status = 'too-large' AND bytes <= ?)",
                (memory,),
            )
            for (digest,) in found.fetchall():
                self._take(digest)
            self._put(())

    def digests(self, *, retried: bool = False) -> set[str]:
        """The architectures that are done; or those to be tried again after all others."""
        query = f"SELECT digest FROM results WHERE (status = '{RETRIED}') = ?"
        return {digest for (digest,) in self._db.execute(query, (retried,))}

    def add(self, found: Iterable[Row]) -> None:
        """Write rows, all or none of them; each takes the place of the one before it."""
        with driving(self.path), self._db:
            self._put(found)

    def _put(self, found: Iterable[Row]) -> None:
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        for row in found:
            self._take(row.digest)
            values = row.stored(self._known["digest"])
            self._db.execute(f"INSERT INTO results VALUES ({marks})", values)
            self._count, self._total = self._count + 1, self._total + int(values[-1], 16)
        schema.write_total(self._db, self._count, self._total)

    def _take(self, digest: str) -> None:
        query = "DELETE FROM results WHERE digest = ? RETURNING checksum"
        for (checksum,) in self._db.execute(query, (digest,)).fetchall():
            self._count, self._total = self._count - 1, self._total - int(checksum, 16)

    def rows(self, claim: str | None = None, limit: int = -1) -> Iterator[Row]:
        """The rows in the plan's order; only those with a verdict, if it is given."""
        plan = None if self.version == schema.UNCHECKED else self._known["digest"]
        rest = "WHERE ? IS NULL OR claim = ? ORDER BY place LIMIT ?"
        for row in schema.rows(self._db, self.version, plan, rest, claim, claim, limit):
            if row is None:  # it was whole when the store was opened
                _require_whole(self.path, schema.Examined("a row has been altered"))
                raise AssertionError
            yield row

    def count(self, column: str) -> dict[str, int]:
        """How many rows have each value of `status` or `claim`."""
        assert column in {"status", "claim"}
        query = f"SELECT {column}, COUNT(*) FROM results GROUP BY {column} ORDER BY {column}"
        return {str(value): count for value, count in self._db.execute(query)}

    def seconds(self) -> float:
        """Time that all tasks took together."""
        (total,) = self._db.execute("SELECT COALESCE(SUM(seconds), 0) FROM results").fetchone()
        return float(total)


def _examined(real: Path, named: Path) -> schema.Examined:
    if not ours(real):  # nobody else's database is written to
        raise SweepError(
            f"store {quote(str(named))} is not the store of a sweep; give another file with -o"
        )
    with real.open("rb") as file:
        header = file.read(20)
    if not {*header[18:20]} <= {1, 2}:  # SQLite would read it, and never write it again
        return schema.Examined("its header is not that of a database")
    try:
        with connected(real, "rw") as db:
            return schema.examine(db, to_write=True)
    except sqlite3.Error as error:
        if not schema.is_damage(error):
            raise
        return schema.Examined(str(error))


def _require_whole(path: Path, found: schema.Examined) -> None:
    if found.problem is not None and not ours(path):
        raise SweepError(f"store {quote(str(path))} is not the store of a sweep ({found.problem})")
    if found.problem is not None:
        raise SweepError(
            f"store {quote(str(path))} is damaged ({found.problem}), so it is not shown; segre "
            f"sweep run SWEEP -o {path.name} keeps the intact rows and recomputes the rest"
        )
    if not found.known:
        raise SweepError(f"store {quote(str(path))} is empty; start with segre sweep run")


def _anew(real: Path, named: Path, plan: Plan, found: schema.Examined | None) -> str | None:
    """Write a store with the rows of the one that was found, if any; returns a message about it.

    A damaged one is kept beside it. One of an older segre gets checksums.
    """
    damaged = found is not None and found.problem is not None
    new = real.with_name(f".{real.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(new)) as db, db:
            schema.begin(db, plan)
            store = Store(db, named, schema.Examined(known={"digest": plan.digest}))
            if found is not None:
                # rows without checksums are taken on trust, but not from a damaged store
                whole = _intact(real, plan, schema.VERSION if damaged else found.version)
                store._put(judged(row, plan.claim) for row in whole)
        kept = _set_aside(real) if damaged else real
        for ending in _BESIDE:
            real.with_name(real.name + ending).unlink(missing_ok=True)
        new.replace(real)
    except BaseException as error:
        for ending in ("", *_BESIDE):
            new.with_name(new.name + ending).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SweepError(f"store {quote(str(named))}: {error.strerror or error}") from None
        raise
    if found is None or found.problem is None:
        return None
    return (
        f"{named.name} was damaged ({found.problem}): {store._count:,} rows were intact, the "
        f"others are recomputed; the damaged file is kept as {kept.name}"
    )


def _intact(path: Path, plan: Plan, version: int) -> Iterator[Row]:
    """The rows that can be read, from the first on and from the last back."""
    checked = None if version == schema.UNCHECKED else plan.digest
    for order in ("rowid", "rowid DESC"):
        try:
            with connected(path, "ro") as db:
                for row in schema.rows(db, version, checked, f"ORDER BY {order}"):
                    if row is not None:
                        yield row
            return
        except sqlite3.Error as error:
            if not schema.is_damage(error):
                raise


def _set_aside(path: Path) -> Path:
    """Give a damaged file, with what is beside it, the first name that is not taken."""
    names = (f"{path.name}.damaged{'' if n == 1 else f'-{n}'}" for n in range(1, 10**6))
    kept = next(kept for name in names if not (kept := path.with_name(name)).exists())
    for ending in ("", *_BESIDE):
        if (old := path.with_name(path.name + ending)).exists():
            old.replace(kept.with_name(kept.name + ending))
    return kept
