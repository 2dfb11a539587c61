"""How many dimensions reach, and are read after, each layer of a generic network?

Section 7.1 of the document; everything here is a count, no point is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from segre.attention.layer import Layer
from segre.spec import Network


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Counts at the l + 1 boundaries: index i is after layer i, index 0 the input.

    `reached` are the rho, `read` the sigma, `parallel` says whether tau = 1 (lightning only).
    """

    silent: bool
    reached: tuple[int, ...]
    read: tuple[int, ...]
    parallel: tuple[bool, ...]

    @classmethod
    def of(cls, net: Network) -> Dimensions:
        """The generic dimensions of a network."""
        silent = net.score == "softmax" and net.t == 1
        reached = [net.layers[0].width_in]
        tau = [min(reached[0], net.t)]
        for layer in net.layers:
            reached.append(min(layer.width_out, _pass(layer, reached[-1], 0, silent)))
            through = layer.heads * min(_narrow(layer, tau[-1]), layer.a)
            tau.append(min(layer.width_out, net.t, through))
        read = [net.layers[-1].width_out]
        for layer in reversed(net.layers):
            spread = _pass(layer, read[-1], 2 * layer.a, silent)
            read.append(min(layer.width_in, spread))
        lightning = net.score == "lightning"
        return cls(
            silent,
            tuple(reached),
            tuple(reversed(read)),
            tuple(lightning and rank == 1 for rank in tau),
        )

    def distinct_scores(self, net: Network) -> int:
        """The number of (layer, head, pair) of section 6."""
        t = net.t
        return sum(
            layer.heads * (t * t if rho > 1 else t * (t + 1) // 2)
            for rho, layer in zip(self.reached, net.layers, strict=False)
        )


def _narrow(layer: Layer, n: int) -> int:
    dv = layer.dv
    return n if dv is None else min(n, dv)


def _pass(layer: Layer, n: int, s: int, silent: bool) -> int:
    heads, dv = layer.heads, layer.dv
    if silent:
        return n if dv is None else min(n, heads * dv)
    return heads * (_narrow(layer, n) + s)
