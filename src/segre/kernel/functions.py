"""Which functions do networks share? Norms, activations, softmax and rotations, as regions."""

from __future__ import annotations

from fractions import Fraction

from segre.kernel.graph import Graph, Seen
from segre.transformer.spec import Transformer

_QUICK = Fraction(1702, 1000)
_SIGMOID = {"silu": Fraction(1), "swiglu": Fraction(1), "gelu-quick": _QUICK, "geglu-quick": _QUICK}
_TANH = ("gelu-tanh", "geglu-tanh")
_NORMAL = ("gelu", "geglu")
_LINEAR = ("none", "bilinear")
_DEGREES = {"relu": 1, "reglu": 1, "relu2": 2, "square": 2}


def standard(
    graph: Graph,
    x: int,
    axes: tuple[int, ...],
    eps: Fraction,
    *,
    centred: bool,
    mean: bool = True,
) -> int:
    """What a norm does before its gain: x / sqrt(q), q the mean (or sum) of squares plus eps."""
    width = 1
    for axis in axes:
        width *= graph.shape(x)[axis]
    share = Fraction(1, width)
    with graph.region("norm", [x], axes=axes, eps=eps, centred=centred, mean=mean) as region:
        if centred:
            x = graph.add(x, graph.scale(graph.total(x, *axes), -share))
        q = graph.total(graph.mul(x, x), *axes)
        q = graph.scale(q, share) if mean else q
        q = graph.shift(q, eps) if eps else q
        region.output = graph.mul(x, graph.inverse(graph.root(q)))
    return region.output


def sigmoid_of_minus(graph: Graph, argument: int) -> int:
    """1 / (1 + exp(argument)): sigma of minus the argument."""
    return graph.inverse(graph.shift(graph.exp(argument), Fraction(1)))


def capped(graph: Graph, z: int, cap: Fraction) -> int:
    """The soft cap of logits: cap tanh(z / cap)."""
    with graph.region("activation", [z], kind="cap", degree=None) as region:
        region.output = _capped(graph, z, cap, noted=False)
    return region.output


def _capped(graph: Graph, z: int, cap: Fraction, *, noted: bool) -> int:
    return graph.scale(_activated(graph, graph.scale(z, 1 / cap), "tanh", noted=noted), cap)


def activation(graph: Graph, z: int, kind: str, *, noted: bool = True) -> int:
    """A nonlinear function of every entry; what exp is applied to is noted, or not."""
    if kind in _LINEAR:
        return z
    with graph.region("activation", [z], kind=kind, degree=_DEGREES.get(kind)) as region:
        region.output = _activated(graph, z, kind, noted=noted)
    return region.output


def _activated(graph: Graph, z: int, kind: str, *, noted: bool = True) -> int:
    def sigma(minus: int) -> int:
        if noted:
            graph.argument(minus)
        return sigmoid_of_minus(graph, minus)

    if kind == "sigmoid":
        return sigma(graph.scale(z, Fraction(-1)))
    if kind == "tanh":
        twice = graph.scale(sigma(graph.scale(z, Fraction(-2))), Fraction(2))
        return graph.shift(twice, Fraction(-1))
    if kind in _SIGMOID:
        return graph.mul(z, sigma(graph.scale(z, -_SIGMOID[kind])))
    if kind in _TANH:
        cube = graph.scale(graph.mul(z, graph.mul(z, z)), Fraction(44715, 10**6))
        inner = graph.scale(graph.add(z, cube), ("sqrt(2/pi)",))
        return graph.mul(z, sigma(graph.scale(inner, Fraction(-2))))
    if kind in _NORMAL:
        graph.argument(graph.mul(z, z))
        return graph.mul(z, graph.phi(z))
    if kind == "square":
        return graph.mul(z, z)
    if kind == "exp":
        graph.argument(z)
        return graph.exp(z)
    y = graph.mul(z, graph.step(z))
    if kind == "elu1":
        return graph.add(y, graph.exp(graph.add(z, graph.scale(y, Fraction(-1)))))
    return graph.mul(y, y) if kind == "relu2" else y


def clamped(graph: Graph, gate: int, up: int, limit: Fraction) -> int:
    """The units of mlp `clamped`: both factors are bounded by the limit."""

    def over(y: int) -> int:
        z = graph.shift(y, -limit)
        return graph.mul(z, graph.step(z))

    with graph.region("activation", [gate, up], kind="clamped", degree=None) as region:
        below = over(graph.scale(up, Fraction(-1)))
        gate = graph.add(gate, graph.scale(over(gate), Fraction(-1)))
        up = graph.sum([up, graph.scale(over(up), Fraction(-1)), below])
        region.output = graph.mul(
            _activated(graph, gate, "gelu-quick"), graph.shift(up, Fraction(1))
        )
    return region.output


def softmax(
    graph: Graph,
    Z: int,
    seen: Seen | None = None,
    sinks: int | None = None,
    cap: Fraction = Fraction(0),
) -> int:
    """exp of every entry over the sum of its column; arguments are noted if keys are seen."""
    inputs, sums = ([Z], (-2,)) if sinks is None else ([Z, sinks], ())
    weigh = "capped" if cap else "exp"
    with graph.region("pattern", inputs, weigh=weigh, sums=sums, seen=seen) as region:
        if cap:
            Z = _capped(graph, Z, cap, noted=True)
        if sinks is not None:
            Z = graph.add(Z, graph.scale(sinks, Fraction(-1)))
        if seen is not None:
            graph.argument(Z, seen)
        E = graph.exp(Z) if seen is None else masked(graph, graph.exp(Z), seen)
        region.output = divided(graph, E, -2, more=sinks is not None)
    return region.output


def masked(graph: Graph, E: int, seen: Seen) -> int:
    """Entries where the key is seen, else 0."""
    table = seen.keys, seen.queries
    return E if seen.all else graph.mul(E, graph.constant("seen", seen, table))


def divided(graph: Graph, E: int, axis: int, *, by: int | None = None, more: bool = False) -> int:
    """Entries over their sums along an axis, or those of another node; or over 1 more."""
    whole = graph.total(E if by is None else by, axis)
    return graph.mul(E, graph.inverse(graph.shift(whole, Fraction(1)) if more else whole))


def rotated(graph: Graph, x: int, spec: Transformer) -> int:
    """Every column turned by its position: C x + D (x with the planes exchanged)."""
    *_, width, t = graph.shape(x)
    pairs = planes(spec.rotary_dim, spec.layout)
    partner = list(range(width))
    for a, b in pairs:
        partner[a], partner[b] = b, a
    with graph.region("rotate", [x], planes=pairs) as region:
        C, D = (graph.constant(kind, spec, (width, t)) for kind in ("cos", "sin"))
        region.output = graph.add(graph.mul(C, x), graph.mul(D, graph.take(x, -2, partner)))
    return region.output


def planes(turned: int, layout: str) -> list[tuple[int, int]]:
    """The pairs of dimensions that turn together."""
    half = turned // 2
    if layout == "half":
        return [(i, i + half) for i in range(half)]
    return [(2 * i, 2 * i + 1) for i in range(half)]
