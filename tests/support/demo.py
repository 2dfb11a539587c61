"""The command of `make demo`, run once for all tests: its page, and what it printed."""

import shutil
from pathlib import Path

import pytest

from blocks import ROOT
from support.once import once
from support.terminal import printed

DEMO = "segre analyze examples/tiny-llama -o report.html"


def demo(factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The page, and the text beside it, as on a terminal of 80 columns."""

    def make(folder: Path) -> None:
        shutil.copytree(ROOT / "examples" / "tiny-llama", folder / "examples" / "tiny-llama")
        (folder / "said").write_text(printed(DEMO, folder))

    made = once(factory, "demo", make)
    return made / "report.html", (made / "said").read_text()
