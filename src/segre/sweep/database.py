"""How is the file of a store opened? One driver at a time, and errors in a line."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segre.errors import SweepError
from segre.files import place
from segre.values import quote

MARK = int.from_bytes(b"sgre")  # in the header of the file: it is a store of ours, if damaged too
_MARK_AT = slice(68, 72)
_SCHEMA_TEXT = b"CREATE TABLE results ("
_GO_ON = "finished work is kept, and the same command continues"
ADVICE = {
    sqlite3.SQLITE_FULL: f"make room; {_GO_ON}",
    sqlite3.SQLITE_IOERR: f"the disk may be full or failing; {_GO_ON}",
    sqlite3.SQLITE_READONLY: f"make it writable; {_GO_ON}",
    sqlite3.SQLITE_CANTOPEN: f"its directory must be writable and not full; {_GO_ON}",
    sqlite3.SQLITE_BUSY: f"another program is using it; {_GO_ON} when it has finished",
}


@contextmanager
def driving(path: Path) -> Iterator[None]:
    """Errors of SQLite while a run writes, in a line that says how to go on."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        advice = ADVICE.get(code, f"it may be damaged: {_GO_ON}")
        raise SweepError(f"store {quote(str(path))}: {error}; {advice}") from None


@contextmanager
def connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection to an existing file (ro, rw) or one to be made (rwc)."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{_options(path, mode)}", uri=True, timeout=60)
    try:
        db.text_factory = _text
        yield db
    except UnicodeDecodeError:  # of a damaged schema that SQLite wanted to complain about
        raise sqlite3.DatabaseError("its tables have no names") from None
    finally:
        db.close()


def _options(path: Path, mode: str) -> str:
    """In a read-only directory SQLite must not try to write files beside the store."""
    if mode != "ro":
        return f"mode={mode}"
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "mode=rw"  # what a killed run has left beside the file is put into it
    return "mode=ro" if path.with_name(path.name + "-wal").exists() else "mode=ro&immutable=1"


def _text(data: bytes) -> str:
    """Text, also if it is damaged: the checksum will show it."""
    return data.decode("utf-8", "surrogateescape")


def ours(path: Path) -> bool:
    """Whether a file is a store, perhaps one that SQLite cannot open any more."""
    try:
        with path.open("rb") as file:
            start = file.read(1 << 16)
    except OSError as error:
        raise SweepError(f"store {quote(str(path))}: {error.strerror}") from None
    return start[_MARK_AT] == MARK.to_bytes(4) or _SCHEMA_TEXT in start


def require_file(path: Path, *, written: bool = False) -> None:
    """Refuse existing paths that are no ordinary files, or that cannot be `written`."""
    try:
        if written and place(path) is None:
            raise SweepError(f"store {quote(str(path))} is not an ordinary file; give one with -o")
        found = path.stat().st_mode
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return
        raise SweepError(f"store {quote(str(path))}: {error.strerror}") from None
    if not stat.S_ISREG(found):
        kind = "a directory" if stat.S_ISDIR(found) else "not an ordinary file"
        raise SweepError(f"store {quote(str(path))} is {kind}; give the name of a file")


@contextmanager
def only_driver(path: Path) -> Iterator[None]:
    """Holds a lock file beside the store; the system lets go of it when the process dies.

    `path` has no links in it, so that a store has one lock, by whatever name it is called.
    """
    import fcntl

    if path.exists() and path.stat().st_nlink > 1:  # a run would not see what the other name gets
        raise SweepError(
            f"store {quote(str(path))} is a hard link, so the same file has another name; give "
            "a separate file, such as a copy"
        )
    lock = path.with_name(path.name + "-lock")
    while True:
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SweepError(
                f"store {quote(str(path))}: {error.strerror}; give a file in a writable directory "
                "with -o"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise SweepError(
                f"store {quote(str(path))}: another run is writing to it; wait until it ends, or "
                "stop it"
            ) from None
        if lock.exists() and lock.stat().st_ino == os.fstat(handle).st_ino:
            break
        os.close(handle)  # removed by the run that just ended
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)
