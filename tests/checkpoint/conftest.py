"""What the tests of checkpoints share: being somebody to whom permissions apply."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def own_directory() -> Iterator[Path]:
    """A directory of the user that we are; root, who may do anything, is somebody else here."""
    root = os.geteuid() == 0
    path = Path(tempfile.mkdtemp())
    if root:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield path
        path.chmod(0o700)
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(path, ignore_errors=True)
