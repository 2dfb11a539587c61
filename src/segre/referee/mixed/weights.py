"""Which weights does a mixed stack have, and where do they stand? Section H2."""

from __future__ import annotations

from collections.abc import Iterator

from segre.attention.layer import Group, Layer
from segre.referee.mixed.heads import Head, tap
from segre.referee.transformers.tensors import Shape, Tensors, laid_out
from segre.spec import Network


def parameter_count(spec: Network) -> int:
    """How many weights there are; no loop over kernels, which may have any size here."""
    return sum(
        places * count * rows * columns
        for layer in spec.layers
        for group in layer.groups
        for _, places, count, rows, columns in _blocks(layer, group)
    )


def _blocks(layer: Layer, group: Group) -> Iterator[tuple[str, int, int, int, int]]:
    """Tensors: a name, the number of places of the kernel, and the three sizes."""
    one, n, a, d = group.mechanism, group.heads, layer.a, layer.width_in
    v = layer.width_out if layer.dv is None else layer.dv
    wide = one.kernel if one.conv == "full" else 1
    yield "W_K", wide, n, a, d
    yield "W_Q", 1, n, a, d
    yield "W_V", wide, n, v, d
    if one.bias in ("key", "both"):
        yield "b_K", 1, n, a, 1
    if one.bias in ("query", "both"):
        yield "b_Q", 1, n, a, 1
    if one.conv in ("depthwise", "shared"):
        apart = one.conv == "depthwise"
        yield "c_K", one.kernel, n, a if apart else 1, 1
        yield "c_V", one.kernel, n, v if apart else 1, 1
    if one.decay == "learned":
        yield "decay", 1, n, 1, 1
    if one.gate != "none":
        yield "W_G", 1, n, v if one.gate == "element" else 1, d
    if layer.dv is not None:
        yield "W_O", 1, n, layer.width_out, layer.dv


class Layout(Tensors):
    """All tensors of a stack, and its heads; parts are groups, numbered through all layers."""

    def __init__(self, spec: Network) -> None:
        self.spec = spec
        self.layers: list[list[list[Head]]] = []  # heads by layer and group
        super().__init__(laid_out(self._shapes()))

    def heads(self, layer: int) -> list[Head]:
        """All heads of a layer that is numbered from 1."""
        return [head for group in self.layers[layer - 1] for head in group]

    def _shapes(self) -> Iterator[tuple[int, Shape]]:
        part = 0
        for number, layer in enumerate(self.spec.layers, start=1):
            self.layers.append([])
            for group in layer.groups:
                for name, places, count, rows, columns in _blocks(layer, group):
                    for place in range(places):
                        yield part, (tap(name, place), count, rows, columns)
                sizes = (layer.a, layer.width_in, layer.width_out, layer.dv, self.spec.t)
                self.layers[-1].append(
                    [Head(number, part, h, group.mechanism, *sizes) for h in range(group.heads)]
                )
                part += 1
