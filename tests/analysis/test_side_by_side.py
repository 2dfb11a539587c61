"""Two models side by side: what is said of each is what is said of it alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import segre
from segre.analysis.side_by_side import side_by_side
from segre.cli.app import app
from segre.errors import SegreError, SpecError
from segre.report.side_by_side import depth_rows, measure_rows, size_rows
from support.checkpoints import rewritten
from support.zoo import save_tiny


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the same with one head that writes nothing."""

    def change(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "2":
            w["W_O"][0, 0] = 0

    folder = tmp_path_factory.mktemp("pair")
    one = save_tiny("llama", folder / "one")
    return one, rewritten(one, folder / "two", change)


def test_each_is_what_it_is_alone(pair: tuple[Path, Path]) -> None:
    found = side_by_side(*pair, length=12, inputs=2)
    for each, source in zip(found.both, pair, strict=True):
        alone = segre.analyze(source, only=["findings", "depth", "heads"], length=12, inputs=2)
        assert [part.data for part in each.parts] == [part.data for part in alone.parts]
    assert found.designs.found == segre.compare(*pair).found
    assert found.changes is not None
    changed = segre.diff(*pair, length=12, inputs=2)
    assert found.changes.document() == changed.document()
    one, two = found.diagnoses
    assert one is not None
    assert two is not None
    dead = [item for item in two.findings if item.measure == "writes"]
    assert dead[0].heads == ((2, 1),)
    assert not [item for item in one.findings if item.measure == "writes"]
    rows = {name: cells for name, *cells in (*size_rows(found), *measure_rows(found))}
    assert rows["parameters"][0] == rows["parameters"][1]
    assert rows["Loss, nats"][0] != rows["Loss, nats"][1]
    assert {"the whole model", "attention only", "known by"} <= {
        name for name, *_ in depth_rows(found)
    }
    assert len(found.to_pandas()) == len(size_rows(found) + depth_rows(found) + measure_rows(found))
    assert "Side by side" in found._repr_html_()


def test_what_cannot_be_compared_says_why(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = save_tiny("gpt2", tmp_path / "other")
    found = side_by_side(pair[0], other, only=["findings"], length=8)
    assert found.changes is None
    assert "different architectures" in found.no_diff
    assert len(found.no_diff) < 220
    with pytest.raises(SpecError, match="is a stack of attention layers and"):
        side_by_side("softmax/d=4,4/a=2/t=3", pair[0])
    with pytest.raises(SpecError, match="'proof': not compared side by side; allowed: findings"):
        side_by_side(*pair, only=["proof"])
    with pytest.raises(SegreError, match="needs a model directory"):
        side_by_side(pair[0], "gpt2", text=tmp_path / "other" / "config.json")


def test_designs_without_weights() -> None:
    specs = ("llama/d=8/heads=2/ff=8/vocab=2000/t=6", "gpt2/d=8/heads=2/ff=8/vocab=2000/t=6")
    found = side_by_side(*specs, inputs=1)
    assert [part.key for part in found.one.parts] == ["depth"]
    assert found.no_diff == "needs the weights of both"
    assert found.command.endswith(f"--against {specs[1]}")
    assert "--only" not in found.command


def test_the_command(pair: tuple[Path, Path], tmp_path: Path) -> None:
    line = ["analyze", str(pair[0]), "--against", str(pair[1]), "--length", "8", "--inputs", "1"]
    page = tmp_path / "both.html"
    done = CliRunner().invoke(app, [*line, "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "From A to B, by segre diff" in done.stdout
    text = page.read_text()
    assert text.count('data-panel role="group"') == 2
    document = json.loads(CliRunner().invoke(app, [*line, "--json"]).stdout)
    assert document["format"] == "segre-side-by-side"
    assert document["diff"]["whole"]
    assert {part["key"] for part in document["one"]["parts"]} == {"findings", "depth", "heads"}
    assert document["report"] is None
