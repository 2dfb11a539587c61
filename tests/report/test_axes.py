"""Numbers at the axes of pictures are readable."""

from pathlib import Path

import pytest

import segre
from segre.collapse.commands import measure
from segre.report.png import plot

DRAWN = {
    "costs": lambda path: plot(segre.cost("fast/d=8,8/a=4/t=3", [64, 4096]), path),
    "designs": lambda path: plot(segre.compare("double/d=3,3/a=2/t=3"), path),
    "depth": lambda path: plot(measure("double/d=4,4,4,4,4,4,4/a=2/t=3", inputs=1, seed=1), path),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_no_formula_is_printed_as_text(kind: str, tmp_path: Path) -> None:
    """matplotlib writes powers of ten as formulas; names with a dollar are no formulas here."""
    path = tmp_path / "picture.svg"
    DRAWN[kind](path)
    assert "mathdefault" not in path.read_text()


@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_stacks_without_a_residual_are_drawn(layers: int, tokens: int, tmp_path: Path) -> None:
    """One token has none, and so nothing is known of any layer; warnings are errors here."""
    spec = f"softmax/d={','.join(['3'] * (layers + 1))}/a=2/t={tokens}"
    plot(measure(spec, inputs=2), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
