"""Files are written whole or not at all: beside the target first, then renamed into place."""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segre.errors import SegreError

# The last files and directories that this process has put in place, so that a command which is
# interrupted afterwards can name them.
placed: deque[Path] = deque(maxlen=8)


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Gives a name to write to; when the block ends well, the file there becomes `path`.

    If the block fails, or the process dies, `path` is as it was before. The temporary name has
    the same ending as `path`, for writers that go by it.
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
    """Give a file the permissions of any new one; temporary files start out stricter."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)
