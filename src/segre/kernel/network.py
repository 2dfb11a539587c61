"""Which graph does a spec have? That of a stack, of a transformer or of a polynomial network.

The last is written here; the entries of its vectors are rows.

>>> graph = graph_of(Polynomial.parse("poly/3-5-2/degree=3/bias=true"))
>>> graph.parameters, graph.shape(graph.output)
(32, (2, 1))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from segre.kernel.document import Spec
from segre.kernel.graph import Graph
from segre.kernel.stack import stack
from segre.kernel.transformer import transformer
from segre.polynomial.spec import Convolution, Dense, Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer


def graph_of(spec: Spec) -> Graph:
    """The network of a spec."""
    return _GRAPHS[type(spec)](spec)


def polynomial(spec: Polynomial) -> Graph:
    """A polynomial network."""
    graph = Graph((spec.widths[0], 1))
    v = graph.input
    for number, layer in enumerate(spec.layers, start=1):
        part = str(number)
        z = _MAPS[type(layer)](graph, v, part, layer)
        if spec.bias:
            z = graph.add(z, graph.weight(part, "b", (layer.units, 1)))
        v = z if number == len(spec.layers) else _power(graph, z, spec.degree)
    graph.output = v
    return graph


def _mapped(graph: Graph, v: int, part: str, layer: Dense) -> int:
    W = graph.weight(part, "W", (layer.width_out, layer.width_in))
    return graph.contract("vd,dt->vt", W, v)


def _convolved(graph: Graph, v: int, part: str, layer: Convolution) -> int:
    """Entry j is the sum over m of w[m] v[stride j + m]."""
    w = graph.weight(part, "w", (layer.kernel, 1))
    terms = []
    for m in range(layer.kernel):
        last = layer.stride * (layer.width_out - 1) + m
        seen = graph.take(v, -2, range(m, last + 1, layer.stride))
        terms.append(graph.mul(seen, graph.take(w, -2, [m])))
    return graph.sum(terms)


def _power(graph: Graph, z: int, degree: int) -> int:
    """z^degree, by squares."""
    if degree == 1:
        return z
    with graph.region("activation", [z], kind="power", degree=degree) as region:
        result = None
        for bit in bin(degree)[2:]:
            if result is not None:
                result = graph.mul(result, result)
            if bit == "1":
                result = z if result is None else graph.mul(result, z)
        assert result is not None
        region.output = result
    return region.output


_MAPS: dict[type, Callable[[Graph, int, str, Any], int]] = {
    Dense: _mapped,
    Convolution: _convolved,
}
_GRAPHS: dict[type[Spec], Callable[[Any], Graph]] = {
    Network: stack,
    Transformer: transformer,
    Polynomial: polynomial,
}
