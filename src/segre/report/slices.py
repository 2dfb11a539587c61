"""Pictures of slices and fibers as static files (PNG, SVG, PDF); `interactive` draws pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from segre.files import whole_file
from segre.geometry.slices import Cone, Discriminant, FiberCurve
from segre.report.captions import (
    BLUE,
    CONE,
    DISCRIMINANT,
    GREY,
    ORANGE,
    RED,
    fiber_outputs,
    point_colour,
    point_words,
    reach_of,
)
from segre.report.drawing import is_interactive, picture, require_format
from segre.report.page.figure import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(shape: Cone | Discriminant | FiberCurve, path: Path) -> None:
    """Draw a picture in the format given by the file's extension."""
    require_format(path)
    if is_interactive(path):
        with whole_file(path) as temporary:
            write_figure(_page(shape), path.stem, temporary)
    elif isinstance(shape, Cone):
        with picture(path, 11, 5.4) as figure:
            _cone(shape, figure)
    elif isinstance(shape, Discriminant):
        with picture(path, 7.4, 7.6) as figure:
            _discriminant(shape, figure)
    else:
        with picture(path, 11, 5) as figure:
            _fiber(shape, figure)


def _page(shape: Cone | Discriminant | FiberCurve) -> Any:
    from segre.report.interactive import cone_page, discriminant_page, fiber_page

    if isinstance(shape, Cone):
        return cone_page(shape)
    return discriminant_page(shape) if isinstance(shape, Discriminant) else fiber_page(shape)


def _cone(cone: Cone, figure: Figure) -> None:
    left, right = (_solid(figure, n) for n in (1, 2))
    left.plot_surface(*cone.cone, color=BLUE, alpha=0.45, linewidth=0, rstride=2, cstride=2)
    left.scatter([0], [0], [0], color=RED, s=40, depthshade=False)
    left.text(0.15, 0, -0.05, "zero function", color=RED)
    right.plot_surface(*cone.quadric, color="#cccccc", alpha=0.25, linewidth=0)
    for lines, colour in ((cone.rulings_V, BLUE), (cone.rulings_A, ORANGE)):
        for line in lines:
            right.plot(*line, color=colour, linewidth=0.9)
    for ax, cut in ((left, "linear"), (right, "affine")):
        x, y, z = CONE[f"{cut} axes"]
        ax.set(xlabel=x, ylabel=y, zlabel=z)
        ax.set_title(CONE[cut].replace(": ", ":\n"), fontsize=10)
    figure.suptitle(CONE["title"])


def _discriminant(cut: Discriminant, figure: Figure) -> None:
    reach = reach_of(cut)
    ax = figure.subplots()
    ax.set_facecolor("#dce8f5")
    ax.fill(*cut.wall, color="white", zorder=1)
    ax.plot(*cut.wall, color=RED, linewidth=2.2, zorder=2, label=DISCRIMINANT["wall"])
    inside = DISCRIMINANT["inside"].replace(": ", ":\n").replace(", ", ",\n")
    ax.text(0, 0, inside, ha="center", va="center", color=GREY, fontsize=9)
    ax.text(0, 0.95 * reach, DISCRIMINANT["outside"], ha="center", va="top", color=BLUE)
    for point in cut.placed:
        label = f"{point.label}: {point_words(point)}"
        colour = point_colour(point)
        ax.scatter(point.x, point.y, s=60, color=colour, edgecolor="k", zorder=3, label=label)
        ax.annotate(point.label, (point.x, point.y), textcoords="offset points", xytext=(7, 5))
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel=DISCRIMINANT["x"], ylabel=DISCRIMINANT["y"])
    ax.set_title(DISCRIMINANT["title"], fontsize=10)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), frameon=False, fontsize=9)


def _fiber(curve: FiberCurve, figure: Figure) -> None:
    from matplotlib import colormaps

    solid, flat = _solid(figure, 1), figure.add_subplot(1, 2, 2)
    colours = colormaps["hsv"](curve.parameter / curve.parameter[-1])
    solid.scatter(*curve.curve.T, c=colours, s=9)
    solid.set(xlabel=curve.names[0], ylabel=curve.names[1], zlabel=curve.names[2])
    solid.set_title("three of the weights along a closed curve on the fiber", fontsize=10)
    for output in curve.outputs.T:
        flat.plot(curve.parameter, output, linewidth=1.6)
    floor = [flat.get_ylim()[0]] * len(curve.parameter)
    flat.scatter(curve.parameter, floor, c=colours, s=14, marker="|")
    flat.set(xlabel="position on the curve s", ylabel="outputs at two inputs")
    flat.set_title(fiber_outputs(curve), fontsize=10)
    flat.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"One function, many weights: {curve.spec}")


def _solid(figure: Figure, place: int) -> Any:
    """One half of the figure, in three dimensions."""
    return figure.add_subplot(1, 2, place, projection="3d")
