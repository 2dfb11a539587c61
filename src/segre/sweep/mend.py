"""What becomes of a damaged store? A new one with the rows that are whole; the others are lost.

The damaged file is kept beside it. A store of an older segre is written anew with checksums.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from segre.sweep.claim import judged
from segre.sweep.database import connected
from segre.sweep.plan import Plan
from segre.sweep.row import COLUMNS
from segre.sweep.schema import (
    UNCHECKED,
    is_damage,
    make_tables,
    mark,
    rows,
    write_plan,
    write_total,
)

_BESIDE = ("-wal", "-shm", "-journal")


def rewrite(path: Path, plan: Plan, version: int, *, keep: bool) -> tuple[int, Path]:
    """Rewrite a store with the intact rows of a plan.

    Returns how many there are, and where the old file is kept, if it is to be kept.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(new)) as db, db:
            mark(db)
            make_tables(db)
            write_plan(db, plan)
            marks = ", ".join("?" * (len(COLUMNS) + 1))
            total = 0
            for values in _whole(path, plan, version):
                db.execute(f"INSERT OR REPLACE INTO results VALUES ({marks})", values)
            for (checksum,) in db.execute("SELECT checksum FROM results"):
                total += int(checksum, 16)
            (count,) = db.execute("SELECT COUNT(*) FROM results").fetchone()
            write_total(db, count, total)
        kept = _free_name(path)
        if keep:
            path.replace(kept)
        for ending in _BESIDE:
            beside = path.with_name(path.name + ending)
            if keep and beside.exists():
                beside.replace(kept.with_name(kept.name + ending))
            beside.unlink(missing_ok=True)
        new.replace(path)
    except BaseException:
        remove(new)
        raise
    return int(count), kept


def _whole(path: Path, plan: Plan, version: int) -> Iterator[tuple[Any, ...]]:
    """The rows that can be read, from the first on and from the last back, as they are stored."""
    checked = None if version == UNCHECKED else plan.digest
    for order in ("rowid", "rowid DESC"):
        try:
            with connected(path, "ro") as db:
                for row in rows(db, version, checked, f"ORDER BY {order}"):
                    if row is not None:
                        yield judged(row, plan.claim).stored(plan.digest)
            return
        except sqlite3.Error as error:
            if not is_damage(error):
                raise


def remove(path: Path) -> None:
    """Remove a store, with what SQLite keeps beside it."""
    for ending in ("", *_BESIDE):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()


def _free_name(path: Path) -> Path:
    """The first name for a damaged file that is not taken."""
    names = (f"{path.name}.damaged{'' if n == 1 else f'-{n}'}" for n in range(1, 10**6))
    return next(kept for name in names if not (kept := path.with_name(name)).exists())
