"""The part of plotly.js that pages carry: its version, its licence, and what it can draw."""

import gzip
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from segre.geometry.slices import discriminant, segre_cone
from segre.report.page.library import TRACES, drawing_script
from segre.report.slices import draw

ROOT = Path(__file__).parents[2]


def test_the_bundle_is_of_the_version_that_plotly_has_inside() -> None:
    """The figures of `segre plot` and of reports are drawn by one version of plotly.js."""
    (pinned,) = re.findall(r"^plotly==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if version("plotly") != pinned:
        pytest.skip(f"plotly {version('plotly')} is installed, not {pinned}")
    whole, part = drawing_script(["surface"]).text, drawing_script(["scatter"]).text
    own = [re.search(r" v([\d.]+)", text[:200]) for text in (whole, part)]
    assert all(own)
    assert own[0][1] == own[1][1], "run scripts/vendor_plotly.py"  # type: ignore[index]


def test_the_bundle_draws_what_it_is_said_to() -> None:
    text = drawing_script(["bar"]).text
    assert set(re.findall(r'moduleType:"trace",name:"(\w+)"', text)) == TRACES
    assert "MIT" in files("segre.report.page").joinpath("plotly", "LICENSE").read_text()


def test_what_is_packed_is_the_script() -> None:
    import base64

    script = drawing_script(TRACES)
    assert gzip.decompress(base64.b64decode(script.packed)).decode() == script.text
    assert len(script.packed) < 700_000


def test_only_figures_in_three_dimensions_carry_the_whole(tmp_path: Path) -> None:
    draw(segre_cone(), tmp_path / "solid.html")
    draw(discriminant([("a", np.ones((1, 2)), np.ones((2, 2)), 1)]), tmp_path / "flat.html")
    solid, flat = ((tmp_path / f"{name}.html").stat().st_size for name in ("solid", "flat"))
    assert flat < 800_000 < solid
