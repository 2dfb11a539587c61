"""Make docs/images/front.png and front-dark.png: the picture with which README.md begins.

python scripts/picture_front.py

The base model of `segre model demo` against the moved fine-tune, as stored and in one gauge, in
type that can be read on a telephone.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import segre
from segre.analysis.diff import Diff
from segre.checkpoint.demo import demo
from segre.report.diff import grid_of, part_in_words

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCHEMES = {  # paper, ink, colours from equal to far apart
    "front.png": ("#ffffff", "#1f2328", ("#eef1f4", "#f2a65a", "#b3202c")),
    "front-dark.png": ("#0d1117", "#e6edf3", ("#21262d", "#b9722f", "#e5484d")),
}
SAME = 1e-6  # smaller distances are rounding


def draw(found: Diff, path: Path, paper: str, ink: str, colours: tuple[str, ...]) -> None:
    """Two maps of distances side by side."""
    scale = mpl.colors.LinearSegmentedColormap.from_list("distance", colours)
    style = {"font.size": 15, "text.color": ink, "xtick.color": ink, "ytick.color": ink}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 3.5), dpi=200, facecolor=paper, layout="constrained")
        axes = figure.subplots(1, 2)
        for ax, stored in zip(axes, (True, False), strict=True):
            parts, pieces, cells = grid_of(found, stored=stored)
            numbers = np.array([[np.nan if x is None else x for x in row] for row in cells])
            ax.imshow(numbers, aspect="auto", cmap=scale, vmin=0, vmax=1.8)
            ax.set_facecolor(paper)
            ax.set_xticks(range(len(pieces)), pieces, fontsize=13)
            ax.set_yticks([])
            ax.set_title("As stored" if stored else "In one gauge", color=ink, weight="bold")
            if stored:
                ax.set_yticks(range(len(parts)), [part_in_words(part) for part in parts])
            ax.tick_params(length=0)
            ax.spines[:].set_visible(False)
            for (row, column), value in np.ndenumerate(numbers):
                if not np.isnan(value):
                    words = "0" if value < SAME else f"{value:.2g}"
                    colour = "white" if value > 1 else ink
                    ax.text(column, row, words, ha="center", va="center", color=colour)
        figure.savefig(path)


def main() -> None:
    """Both pictures."""
    with TemporaryDirectory() as folder:
        made = demo(Path(folder) / "demo").directory
        found = segre.diff(made / "base", made / "moved")
    for name, scheme in SCHEMES.items():
        draw(found, IMAGES / name, *scheme)


if __name__ == "__main__":
    main()
