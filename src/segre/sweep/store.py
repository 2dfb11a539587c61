"""Where do results live? One SQLite file with a row per architecture, whole at any moment.

Only a driver writes, one at a time, and a row is written in one transaction: whatever is killed,
the rows that were written are there, and no architecture has two. Anyone may read meanwhile.
What is not as it was written is never shown: a reader says so, and a driver computes it again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from segre.errors import SweepError
from segre.sweep.claim import judged
from segre.sweep.database import connected, driving, only_driver, ours, require_file
from segre.sweep.mend import remove, rewrite
from segre.sweep.plan import Plan
from segre.sweep.row import COLUMNS
from segre.sweep.row import Row as Row
from segre.sweep.schema import (
    UNCHECKED,
    VERSION,
    Examined,
    examine,
    is_damage,
    make_tables,
    mark,
    rows,
    write_plan,
    write_total,
)
from segre.values import quote

RETRIED = "timed-out"  # the status of rows that a later run tries again, after all others


class Store:
    """An open store."""

    def __init__(self, connection: sqlite3.Connection, path: Path, found: Examined) -> None:
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
            new = not real.exists() or not real.stat().st_size
            found = Examined() if new else _examined(real, named)
            mended = None
            if found.problem is not None or found.version != VERSION:
                _require_same(named, found, plan)
                mended = _mended(real, named, plan, found)
                found = _examined(real, named)
            begun = not new
            try:
                with connected(real, "rwc") as db:
                    store = cls(db, named, found)
                    store.mended = mended
                    store._begin(plan)
                    begun = True
                    yield store
            except BaseException:
                if not begun:
                    remove(real)
                raise

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
                found = examine(db)
                _require_whole(path, found)
                yield cls(db, path, found)
        except sqlite3.Error as error:
            if is_damage(error):
                _require_whole(path, Examined(str(error)))
            raise SweepError(f"store {quote(str(path))} cannot be read: {error}") from None

    def _begin(self, plan: Plan) -> None:
        if not self._known:
            mark(self._db)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if not self._known:
                for name in ("sweep", "results"):
                    self._db.execute(f"DROP TABLE IF EXISTS {name}")
                make_tables(self._db)
                write_total(self._db, 0, 0)
            else:
                _require_same(self.path, Examined(known=self._known), plan)
            before = self.plan().claim if self._known else plan.claim
            write_plan(self._db, plan)
            self._known = {"digest": plan.digest, "plan": dict(plan.given)}
            if before != plan.claim:
                for row in list(self.rows()):
                    self._put(judged(row, plan.claim))
                write_total(self._db, self._count, self._total)

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
            write_total(self._db, self._count, self._total)

    def digests(self, *, retried: bool = False) -> set[str]:
        """The architectures that are done; or those to be tried again after all others."""
        query = f"SELECT digest FROM results WHERE (status = '{RETRIED}') = ?"
        return {digest for (digest,) in self._db.execute(query, (retried,))}

    def add(self, found: Iterable[Row]) -> None:
        """Write rows, all or none of them; each takes the place of the one before it."""
        with driving(self.path), self._db:
            for row in found:
                self._put(row)
            write_total(self._db, self._count, self._total)

    def _put(self, row: Row) -> None:
        self._take(row.digest)
        values = row.stored(self._known["digest"])
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        self._db.execute(f"INSERT INTO results VALUES ({marks})", values)
        self._count, self._total = self._count + 1, self._total + int(values[-1], 16)

    def _take(self, digest: str) -> None:
        query = "DELETE FROM results WHERE digest = ? RETURNING checksum"
        for (checksum,) in self._db.execute(query, (digest,)).fetchall():
            self._count, self._total = self._count - 1, self._total - int(checksum, 16)

    def rows(self, claim: str | None = None, limit: int = -1) -> Iterator[Row]:
        """The rows in the plan's order; only those with a verdict, if it is given."""
        plan = None if self.version == UNCHECKED else self._known["digest"]
        rest = "WHERE ? IS NULL OR claim = ? ORDER BY place LIMIT ?"
        for row in rows(self._db, self.version, plan, rest, claim, claim, limit):
            if row is None:  # it was whole when the store was opened
                _require_whole(self.path, Examined("a row has been altered"))
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


def _examined(real: Path, named: Path) -> Examined:
    if not ours(real):  # nobody else's database is written to
        raise SweepError(
            f"store {quote(str(named))} is not the store of a sweep; give another file with -o"
        )
    with real.open("rb") as file:
        header = file.read(20)
    if not {*header[18:20]} <= {1, 2}:  # SQLite would read it, and never write it again
        return Examined("its header is not that of a database")
    try:
        with connected(real, "rw") as db:
            return examine(db, to_write=True)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return Examined(str(error))


def _require_same(path: Path, found: Examined, plan: Plan) -> None:
    if found.known and found.known.get("digest") != plan.digest:
        raise SweepError(
            f"store {quote(str(path))} holds another sweep (other kinds, fields, constraints, seed "
            "or computations); give another file with -o"
        )


def _require_whole(path: Path, found: Examined) -> None:
    if found.problem is not None and not ours(path):
        raise SweepError(f"store {quote(str(path))} is not the store of a sweep ({found.problem})")
    if found.problem is not None:
        raise SweepError(
            f"store {quote(str(path))} is damaged ({found.problem}), so it is not shown; segre "
            f"sweep run SWEEP -o {path.name} keeps the intact rows and recomputes the rest"
        )
    if not found.known:
        raise SweepError(f"store {quote(str(path))} is empty; start with segre sweep run")


def _mended(real: Path, named: Path, plan: Plan, found: Examined) -> str | None:
    """Rewrite the store; returns a message about it."""
    damaged = found.problem is not None
    # rows without checksums are taken on trust, but not from a damaged store
    version = VERSION if damaged else found.version
    try:
        count, kept = rewrite(real, plan, version, keep=damaged)
    except OSError as error:
        raise SweepError(f"store {quote(str(named))}: {error.strerror or error}") from None
    if not damaged:
        return None
    return (
        f"{named.name} was damaged ({found.problem}): {count:,} rows were intact, the others are "
        f"recomputed; the damaged file is kept as {kept.name}"
    )
