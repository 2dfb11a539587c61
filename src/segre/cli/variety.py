"""Commands about the variety of functions: degree, critical, samples, point, ci, slice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from segre.cli.arguments import SLICES
from segre.cli.output import Out, TableOut, draw, require_writable
from segre.cli.tree import variety
from segre.errors import SegreError
from segre.values import quote

_NOTHING = "Exit code 3: no formula is known, and nothing was counted."


@variety.answers(
    "polynomial counting seed memory",
    """segre variety degree cnn/k=3,2/degree=2
    segre variety degree poly/4-2-1/degree=2
    segre variety degree poly/3-2-1/degree=3 --seconds 60""",
    note=_NOTHING,
)
def degree(out: Out, polynomial: str, counting: float, **asked: Any) -> None:
    """The degree of the function variety of a polynomial network.

    The degree is computed by a formula where one is proved, and by counting the intersection points
    of the variety with a random linear space mod p, which gives a proved lower bound.
    """
    from segre.variety.degree import degree as counted

    out.answer(counted, polynomial, seconds=counting, code=_counted, **asked)


def _counted(found: Any) -> int:
    return 3 if found.status == "not run" else 0


@variety.answers(
    "polynomial metric goal descent plot counting seed memory",
    """segre variety critical cnn/k=2,2/degree=2
    segre variety critical poly/3-1-1/degree=2 --metric gaussian
    segre variety critical poly/4-2-1/degree=2 --target 3,2,1,-1 --descent 9""",
    note=_NOTHING,
)
def critical(
    out: Out,
    polynomial: str,
    metric: str | None,
    goal: str | None,
    descent: int,
    plot: Path | None,
    counting: float,
    seed: int,
    memory: int,
) -> None:
    """Count the critical points of the squared loss, or list them for a given target.

    The count is that of complex critical points for generic data. It comes from a formula where one
    is proved, and from counting mod p, which gives a proved lower bound.
    """
    if goal is None:
        from segre.variety.critical import critical as counted

        if descent or plot is not None:
            raise SegreError(
                "--descent and --plot need a target; add --target, for example --target 3,2,1,-1.5"
            )
        limits: dict[str, Any] = {"seconds": counting, "memory": memory}
        out.answer(counted, polynomial, metric or "generic", seed, **limits, code=_counted)
        return
    from segre.variety.landscape import landscape

    if plot is not None and not descent:
        raise SegreError("--plot draws gradient descent; add --descent, for example --descent 50")
    chosen = metric or "gaussian"
    out.answer(landscape, polynomial, goal, chosen, descent=descent, seed=seed, plot=plot)


@variety.answers(
    "spec plot defaults seed memory",
    """segre variety samples lightning/d=3,3/a=1/t=3
    segre variety samples poly/4-2-5/degree=2 --csv
    segre variety samples softmax/d=8,8/a=4/t=2 --plot ranks.png""",
    note="Status: proved; computed (ranks at random points mod p); or, for large architectures, "
    "bounds.",
)
def samples(out: TableOut, spec: str, plot: Path | None, **asked: Any) -> None:
    """How many generic inputs determine the function, up to finitely many others."""
    from segre.geometry.samples import samples as count

    require_writable(plot=plot)
    with out.progress() as progress:
        found = count(spec, progress=progress, **asked)
    if plot is not None and not found.ranks:
        raise SegreError(
            f"--plot needs computed ranks, and {str(found.spec)!r} is too large for that; "
            f"leave out --plot to see the bounds"
        )
    draw(found, plot)
    out.emit(found, files={} if plot is None else {"plot": plot})


@variety.answers(
    "layer a",
    """segre variety point layer.json
    segre variety point filters.json""",
    note="""What the two files may contain:
    {"V": [["1/2", 1], [0, 1]], "A": [[1, 0], [0, 0]], "a": 1}
    {"spec": "cnn/k=2,2/degree=2", "layers": [{"w": [0, 1]}, {"w": [1, 0]}]}""",
)
def point(out: Out, layer: Path, a: int | None) -> None:
    """Is the function of these weights a smooth or a singular point?

    Supported: one lightning layer, convolutional and shallow quadratic networks.
    """
    from segre.geometry.polynomial_point import classify_polynomial
    from segre.geometry.strata import classify
    from segre.weights import PolynomialWeights, read_point

    given, waiting = read_point(layer), "classifying"
    if isinstance(given, PolynomialWeights):
        if a is not None:
            raise SegreError(
                f"point {str(layer)!r}: --a is the head rank of a lightning layer, "
                f"and this file holds a polynomial network; leave it out"
            )
        out.answer(classify_polynomial, given, waiting=waiting)
        return
    rank = a or given.a
    if rank is None:
        raise SegreError(f"point {str(layer)!r}: the file does not give the head rank; add --a")
    weights = given.weights if rank == given.a else None
    out.answer(classify, given.V, given.A, rank, weights, waiting=waiting)


@variety.answers(
    "grid s t d matrix check seed",
    """segre variety ci --grid 2x3 --s 2 --t 3 --d 3
    segre variety ci --grid 3x3 --s 2 --t 2 --d 3 --check
    segre variety ci --grid 2x2 --s 2 --t 2 --d 2 --matrix matrix.csv""",
    note="Decided cases: s=2 with t=L, t=2 with s=K, and s=t=2.\n"
    "Exit code 1: the matrix is not in the variety.",
)
def ci(out: TableOut, grid: str, matrix: Path | None, **asked: Any) -> None:
    """Components of a conditional-independence variety with hidden variables."""
    from segre.variety.ci import components, read_matrix

    sizes = re.fullmatch(r"([0-9]{1,6})[xX]([0-9]{1,6})", grid)
    if sizes is None:
        raise SegreError(
            f"--grid {quote(grid)} is not allowed; allowed: rows x columns, for example 2x3"
        )

    def outside(found: Any) -> int:
        return int(found.membership is not None and bool(found.membership.reason))

    given = None if matrix is None else read_matrix(matrix)
    places = (int(sizes[1]), int(sizes[2]))
    out.answer(components, places, matrix=given, code=outside, waiting="decomposing", **asked)


@variety.answers(
    "slice_ drawing point fiber seed",
    """segre variety slice cone -o cone.html
    segre variety slice discriminant -o wall.png --point P.json --point Q.json
    segre variety slice fiber -o fiber.svg --spec lightning/d=4,4/a=3/t=3""",
    name="slice",
)
def plot_slice(
    out: Out, slice_: str, drawing: Path, point: list[Path], fiber: str, seed: int
) -> None:
    """Draw the functions of one layer, or a fiber, as a picture or an interactive page."""
    from segre.geometry.slices import discriminant, fiber_curve, segre_cone
    from segre.report.png import draw, require_format
    from segre.spec import Network
    from segre.weights import LayerPoint, Weights

    require_format(drawing)
    if slice_ not in SLICES:
        raise SegreError(f"unknown slice {slice_!r}; allowed: {', '.join(SLICES)}")
    with out.waiting("drawing"):
        if slice_ == "cone":
            draw(segre_cone(), drawing)
        elif slice_ == "discriminant":
            layers = [LayerPoint.read(file) for file in point]
            placed = [(f.stem, p.V, p.A, p.a or 1) for f, p in zip(point, layers, strict=True)]
            draw(discriminant(placed), drawing)
        else:
            draw(fiber_curve(Weights.random(Network.parse(fiber), seed)), drawing)
    out.emit(files={"plot": drawing}, data={"slice": slice_, "seed": seed})
