"""The part of plotly.js that pages carry: its version, its licence, and what it can draw."""

import gzip
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from segre.geometry.slices import discriminant, segre_cone
from segre.report.page.embed import BUNDLES, drawing_script
from segre.report.png import draw

ROOT = Path(__file__).parents[2]


def test_the_bundles_are_of_one_version() -> None:
    """Figures in the plane and in space are drawn by the version that the script fetches."""
    texts = [drawing_script([one])[0] for one in ("surface", "scatter")]
    own = {re.findall(r" v([\d.]+)", text[:200])[0] for text in texts}
    script = (ROOT / "scripts" / "vendor_plotly.py").read_text(encoding="utf-8")
    assert own == set(re.findall(r'^VERSION = "(.*)"$', script, re.MULTILINE))


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_draws_what_it_is_said_to(name: str) -> None:
    text, _ = drawing_script(BUNDLES[name].split())
    assert f"plotly.js ({name} - minified)" in text[:200]
    assert set(re.findall(r'moduleType:"trace",name:"(\w+)"', text)) == set(BUNDLES[name].split())
    assert "MIT" in files("segre.report.page").joinpath("plotly", "LICENSE").read_text()


def test_what_is_packed_is_the_script() -> None:
    import base64

    script, packed = drawing_script(BUNDLES["cartesian"].split())
    assert gzip.decompress(base64.b64decode(packed)).decode() == script
    assert len(packed) < 700_000


def test_figures_carry_one_bundle(tmp_path: Path) -> None:
    draw(segre_cone(), tmp_path / "solid.html")
    draw(discriminant([("a", np.ones((1, 2)), np.ones((2, 2)), 1)]), tmp_path / "flat.html")
    solid, flat = ((tmp_path / f"{name}.html").stat().st_size for name in ("solid", "flat"))
    assert flat < 800_000
    assert solid < 2_000_000
