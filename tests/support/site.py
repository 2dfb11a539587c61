"""The documentation as a site, built once for all tests: with its theme, and a built-in one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import ROOT
from support.once import once

PLAIN = "readthedocs"  # comes with MkDocs
# Both in one process, so that pages that are computed are computed once.
BUILD = """
import sys
from mkdocs.__main__ import cli
for options in (["--site-dir", "{0}/site"], ["--site-dir", "{0}/plain", "--theme", "{1}"]):
    cli(["build", "--strict", "--quiet", *options], standalone_mode=False)
"""


def built(factory: pytest.TempPathFactory) -> Path:
    """A folder with `site` and `plain`; building them says nothing, and so has no warnings."""

    def make(folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", BUILD.format(folder, PLAIN)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""

    return once(factory, "documentation", make)
