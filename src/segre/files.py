"""Files named by users: read without blocking, written completely or not at all.

A file is written beside the target first, then renamed into place. Links are followed to the file
that they name. Pipes and devices are written to, never replaced. `-` is standard input, or output.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from segre.errors import SegreError

STANDARD_INPUT = ("-", "/dev/stdin")
STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_held: list[tuple[Any, bytearray]] = []  # standard input, and what has been read of it

# The last files and directories that this process has put in place, so that a command which is
# interrupted afterwards can name them.
placed: deque[Path] = deque(maxlen=8)
under_way: set[Path] = set()  # temporary files and directories that are not in place yet
streamed: list[str] = []  # standard output, once a file was written to it
before_writing: list[Callable[[], None]] = []  # called before a file gets its name

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
            before = identity(handle)
            data = file.read(most + 1)
            if identity(handle) != before:
                raise OSError(errno.EBUSY, CHANGED)
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


Identity = tuple[int, int, int, int]


def identity(path: str | Path | int) -> Identity:
    """Which file it is, how long, and when it was last written: if two agree, nobody wrote to it.

    A path or an open file.
    """
    found = os.fstat(path) if isinstance(path, int) else Path(path).stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


CHANGED = "the file changed while it was read; run the command again once nothing writes to it"


def place(path: str | Path) -> Path | None:
    """The file that a name to write to stands for, behind all links; None if it is a stream.

    Streams are standard output, pipes and character devices. What must not be replaced is an
    `OSError` with a reason in words: directories, read-only files, links to nothing.
    """
    given = Path(path)
    if str(path) in STANDARD_OUTPUT:
        return None
    try:
        mode = given.stat().st_mode
    except FileNotFoundError:
        if given.is_symlink():
            said = "a link to a file that does not exist; remove the link, or create that file"
            raise OSError(errno.ENOENT, said) from None
        given.parent.stat()
        return Path(os.path.realpath(given))
    except ValueError:
        raise OSError(errno.EINVAL, "not the name of a file") from None
    folder = os.path.realpath(given.parent)
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or folder == "/dev" or folder[:6] == "/proc/":
        return None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "neither a file, nor a pipe, nor a character device")
    if not mode & 0o222 or not os.access(given, os.W_OK):  # the first also holds for root
        raise OSError(errno.EACCES, "the file is read-only; make it writable, or choose another")
    return Path(os.path.realpath(given))


def extension(path: str | Path, allowed: Sequence[str]) -> str:
    """Look at a file to write before anything is computed; its extension says how to write it.

    A stream whose name does not end like this is written in the first way of those `allowed`.
    """
    with _one_line(path):
        found = Path(path).suffix.lower()
        return allowed[0] if found not in allowed and place(path) is None else found


@contextmanager
def _one_line(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) and str(path) in STANDARD_OUTPUT:
            raise  # its reader has seen enough
        raise SegreError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


@contextmanager
def whole_file(path: str | Path, suffix: str | None = None) -> Iterator[Path]:
    """Yields a temporary name to write to; if the block succeeds, that file becomes `path`.

    If the block fails, or the process dies, `path` is unchanged. The temporary name has the same
    extension as `path`, or `suffix`, for writers that depend on it.
    """
    target = Path(path)
    suffix = target.suffix[:16] if suffix is None else suffix
    with _one_line(path):
        real = place(path)
        if real is None:
            with TemporaryDirectory() as folder:
                temporary = Path(folder, f"output{suffix}")
                yield temporary
                _check()
                _stream(temporary, target)
            return
        with temporary_beside(real, suffix) as temporary:
            temporary.touch(mode=0o600, exist_ok=False)
            with locked(temporary):
                yield temporary
                ordinary_file(temporary, like=real)
                sync(temporary)
                _check()
                placed.append(target)  # first: an interruption right after the next line finds it
                temporary.replace(real)
        with suppress(OSError):  # the file is complete, and some file systems cannot do this
            sync(real.parent)


def _check() -> None:
    for check in before_writing:
        check()


def _stream(source: Path, target: Path) -> None:
    """Write what a file holds to a pipe, a device or standard output."""
    if str(target) in STANDARD_OUTPUT:
        if streamed:
            raise OSError(errno.EBUSY, "only one file can be written to standard output")
        sys.stdout.flush()
        streamed.append(str(target))
        out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    else:
        out = target.open("wb")
    with out, source.open("rb") as data:
        shutil.copyfileobj(data, out)


def save_tensors(
    tensors: dict[str, Any], path: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file with ordinary permissions; if the library fails, an `OSError`."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        reason = re.search(r"\(os error (\d+)\)", str(error))
        code = int(reason[1]) if reason else errno.EIO
        raise OSError(code, os.strerror(code) if reason else str(error)) from None
    ordinary_file(path)


@contextmanager
def temporary_beside(target: Path, suffix: str, kind: int = stat.S_IFREG) -> Iterator[Path]:
    """A free name for a file (or another kind) beside the target; if the block fails, it is gone.

    What killed processes have left under such names for the same target is removed first.
    """
    start, own = f".{target.name[:40]}.", f"-{secrets.token_hex(4)}{suffix}"
    name = re.compile(rf"{re.escape(start)}(\d+)-[0-9a-f]{{8}}{re.escape(suffix)}")
    with suppress(OSError):  # directories may be writable and not readable
        for other in target.parent.iterdir():
            match = name.fullmatch(other.name)
            if match and _is_abandoned(other, kind, int(match[1])):
                discard(other)
    temporary = target.parent / f"{start}{os.getpid()}{own}"
    under_way.add(temporary)  # from before there is a file: an interruption may come at any moment
    try:
        yield temporary
    except BaseException:
        discard(temporary)
        raise
    finally:
        under_way.discard(temporary)


def discard(path: Path) -> None:
    """Remove a temporary file or directory, if it is there."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_abandoned(path: Path, kind: int, process: int) -> bool:
    """Whether it belongs to us and no process writes to it any more.

    The lock is asked too, since a process may be out of sight in another container.
    """
    try:
        status = path.lstat()
        ours = stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid()
        if not ours or _runs(process):
            return False
        with locked(path) as held:
            return held
    except OSError:
        return False


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a path if it is free; the system releases it when the process ends."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except (OSError, ImportError):  # somebody else has it, or there are no locks here
            held = False
        yield held
    finally:
        os.close(handle)


def sync(path: Path) -> None:
    """Wait until a file or directory is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def ordinary_file(path: Path, like: Path | None = None) -> None:
    """Give a file the permissions of an ordinary new file, or those of a file that it replaces.

    Temporary files start out stricter.
    """
    umask = os.umask(0)
    os.umask(umask)
    mode = stat.S_IMODE(like.stat().st_mode) if like and like.exists() else 0o666 & ~umask
    path.chmod(mode & 0o777)
