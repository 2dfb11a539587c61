"""How many independent directions change nothing? Section H8: all families, recounted."""

from __future__ import annotations

from flint import nmod_mat

from segre.referee.linear import Echelon
from segre.referee.mixed.alike import Alike, alike
from segre.referee.mixed.point import Point
from segre.referee.mixed.reach import reach
from segre.referee.mixed.scores import scores
from segre.referee.mixed.spans import Spans
from segre.referee.mixed.tensor import tensor_kernel
from segre.referee.mixed.values import pooled, values
from segre.referee.network import Progress
from segre.referee.transformers.point import Family
from segre.referee.transformers.rank import added


def families(point: Point) -> Family:
    """The tangent vectors of all families, with their names."""
    layout = point.layout
    layers = range(1, len(layout.layers) + 1)
    if any(all(head.dead for head in layout.heads(layer)) for layer in layers):
        yield from (("nothing", tangent) for tangent in point.entries(point.matrices))
        return
    spans = point.spans()
    for layer in layers:
        yield from reach(point, spans, layer)
        for head in layout.heads(layer):
            yield from scores(point, head)
            yield from values(point, head)
        yield from _together(point, spans, layer)


def _together(point: Point, spans: Spans, layer: int) -> Family:
    """Families 18 to 20: what several heads of a layer do together."""
    for unit in spans.units[layer - 1]:
        if unit.pool:
            yield from (("pooled-heads", tangent) for tangent in pooled(point, unit))
    B = spans.images[layer - 1]
    if B is None:
        return
    for heads in alike(point.layout.heads(layer)):
        group = Alike(point, heads, B)
        yield from (("mix-heads", tangent) for tangent in group.mixed())
        yield from (("trilinear", tangent) for tangent in tensor_kernel(group))


def symmetry_rank(point: Point, jacobian: nmod_mat, progress: Progress) -> int:
    """The rank of all vectors, each of which is held against rows of the Jacobian."""
    return added(Echelon(), families(point), point.layout, jacobian, progress)
