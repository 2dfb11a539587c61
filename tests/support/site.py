"""The documentation as a site, built once for all tests: with its theme, and a built-in one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import ROOT
from support.once import once
from support.terminal import run

PLAIN = "readthedocs"  # comes with MkDocs
# Both in one process, so that pages that are computed are computed once. The tables of the design
# explorer take longest; they are those of the page that the command has written.
BUILD = """
import json
from pathlib import Path
from mkdocs.__main__ import cli
from segre.explore import page

start = '<script type="application/json" id="data">'
known = json.loads(Path({2!r}).read_text().partition(start)[2].partition("</script>")[0])
page.table, page.stack_table = (lambda *_, key=key: known[key] for key in ("table", "stacks"))
for options in (["--site-dir", "{0}/site"], ["--site-dir", "{0}/plain", "--theme", "{1}"]):
    cli(["build", "--strict", "--quiet", *options], standalone_mode=False)
"""


def explored(factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """The page that `segre explore` writes, once for all tests, and what the command prints."""

    def make(folder: Path) -> None:
        done = run("explore", "-o", folder / "page.html", "--json", cwd=folder)
        said = {"returncode": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        (folder / "said.json").write_text(json.dumps({"args": done.args, **said}))

    made = once(factory, "explorer", make)
    said = json.loads((made / "said.json").read_text())
    return made / "page.html", subprocess.CompletedProcess(**said)


def built(factory: pytest.TempPathFactory) -> Path:
    """A folder with `site` and `plain`; building them says nothing, and so has no warnings."""

    def make(folder: Path) -> None:
        page, _ = explored(factory)
        done = subprocess.run(
            [sys.executable, "-c", BUILD.format(folder, PLAIN, str(page))],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""

    return once(factory, "documentation", make)
