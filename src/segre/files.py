"""Files named by users: read without blocking, written completely or not at all.

A file is written beside the target first, then renamed into place. `-` is standard input.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from segre.errors import SegreError

STANDARD_INPUT = ("-", "/dev/stdin")
_held: list[tuple[Any, bytearray]] = []  # standard input, and what has been read of it

# The last files and directories that this process has put in place, so that a command which is
# interrupted afterwards can name them.
placed: deque[Path] = deque(maxlen=8)


_full_paths = [False]


def show_full_paths(wanted: bool) -> None:
    """Whether reports and JSON show absolute paths in full; by default they do not."""
    _full_paths[0] = wanted


def shown(path: str | Path) -> str:
    """A file or directory as reports and JSON name it: without its place on this machine.

    A relative path stays as it was given. `show_full_paths` keeps absolute paths as well.

    >>> shown("/home/anna/models/mine"), shown("models/mine")
    ('mine', 'models/mine')
    """
    given = Path(path)
    if not given.is_absolute() or _full_paths[0]:
        return str(path)
    return given.name or str(path)


def is_standard_input(path: str | Path) -> bool:
    """Whether a name on the command line stands for standard input."""
    return str(path) in STANDARD_INPUT


def read_given(path: str | Path, most: int, *, cut: bool = False) -> bytes:
    """The first bytes of a file that a user names; `-` is standard input.

    Every failure is an `OSError` with a reason in words. A file that is too large fails, unless it
    may be cut. Pipes and devices are not opened: they might never end.
    """
    if is_standard_input(path):
        data = _standard_input(most + 1)
    else:
        path = Path(path)
        if not path.exists():  # a name with a zero in it does not exist either
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if path.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        # a pipe that nobody writes to would keep us waiting as it is opened
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(
                    errno.EINVAL,
                    "not a regular file; to read from a pipe, give - and use standard input",
                )
            data = file.read(most + 1)
    if len(data) > most and not cut:
        raise OSError(errno.EFBIG, f"larger than {_size(most)}")
    return data[:most]


def _size(count: int) -> str:
    return f"{count} bytes" if count % (1 << 20) else f"{count >> 20} MiB"


def _standard_input(most: int) -> bytes:
    """The beginning of standard input, which can be read repeatedly."""
    stream = sys.stdin
    if stream is None:
        raise OSError(errno.EBADF, "standard input is closed")
    if not _held or _held[0][0] is not stream:
        _held[:] = [(stream, bytearray())]
    data = _held[0][1]
    if len(data) < most:
        data += stream.buffer.read(most - len(data))
    return bytes(data[:most])


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yields a temporary name to write to; if the block succeeds, that file becomes `path`.

    If the block fails, or the process dies, `path` is unchanged. The temporary name has the same
    extension as `path`, for writers that depend on it.
    """
    target = Path(path)
    try:
        temporary = target.parent / f".{target.stem}.{secrets.token_hex(8)}{target.suffix}"
        try:  # from before there is a file: an interruption may come at any moment
            temporary.touch(mode=0o600, exist_ok=False)
            yield temporary
            ordinary_file(temporary)
            placed.append(target)  # first: an interruption right after the next line finds it
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SegreError(f"cannot write {str(target)!r}: {error.strerror or error}") from None


def ordinary_file(path: Path) -> None:
    """Give a file the permissions of an ordinary new file; temporary files start out stricter."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)
