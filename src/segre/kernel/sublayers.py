"""What do attention and MLPs of a transformer compute? With their linear maps and norms.

Heads are kept together: the first axes of queries, keys and scores are g and q.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from segre.kernel.functions import (
    activation,
    clamped,
    divided,
    masked,
    rotated,
    sigmoid_of_minus,
    softmax,
    standard,
)
from segre.kernel.graph import Choice, Graph, Irrational, Rate, Seen
from segre.transformer.spec import Transformer

_Linear = Callable[..., int]  # W x + b, of x, name, rows and heads


class Sublayers:
    """A transformer that is being written as a graph."""

    def __init__(self, spec: Transformer, graph: Graph) -> None:
        self.spec, self.graph = spec, graph
        self.normed = spec.norm != "none"
        self.before = self.normed and spec.place in ("pre", "sandwich")
        self.after = self.normed and spec.place in ("sandwich", "after")
        self.post = self.normed and spec.place == "post"

    # Linear maps and norms.

    def bias(self, y: int, part: str, name: str, rows: int, *, given: bool) -> int:
        """Plus a bias, if it is given."""
        return self.graph.add(y, self.graph.weight(part, name, (rows, 1))) if given else y

    def linear(
        self,
        x: int,
        part: str,
        name: str,
        rows: int,
        *,
        lead: tuple[int, ...] = (),
        biased: bool = False,
    ) -> int:
        """W x + b, for every head or expert (`lead`); the bias of W_name is b_name, or c_name."""
        graph, shape = self.graph, self.graph.shape(x)
        each = {0: "", 1: "e", 2: "gq"}[len(lead)]
        own = each if len(shape) > 2 else ""
        W = graph.weight(part, name, (*lead, rows, shape[-2]))
        y = graph.contract(f"{each}vd,{own}dt->{each}vt", W, x)
        b = ("c_" if each == "e" else "b_") + name[2:]
        return graph.add(y, graph.weight(part, b, (*lead, rows, 1))) if biased else y

    def declared(self, part: str, name: str, width: int) -> None:
        """The gain and the bias of a norm that comes later."""
        if self.spec.gain:
            self.graph.weight(part, f"{name}.gain", (width, 1))
        if self._norm_biased:
            self.graph.weight(part, f"{name}.bias", (width, 1))

    @property
    def _norm_biased(self) -> bool:
        spec = self.spec
        return spec.norm == "layer" and spec.gain and spec.bias in ("norm", "mlp-norm", "all")

    def norm(self, x: int, part: str, name: str) -> int:
        """The norm `name` of every column."""
        return self.gained(self.standard(x), part, name)

    def standard(self, x: int) -> int:
        """What the norms of the stream do before their gain."""
        return standard(self.graph, x, (-2,), self.spec.eps, centred=self.spec.norm == "layer")

    def gained(self, y: int, part: str, name: str) -> int:
        """What they do after it: the gain and the bias."""
        width, y = self.graph.shape(y)[-2], self._gain(y, part, name)
        return self.bias(y, part, f"{name}.bias", width, given=self._norm_biased)

    def rms(self, x: int, part: str, name: str, axes: tuple[int, ...], eps: Fraction) -> int:
        """A norm of queries, keys, latents or of all that heads mix, with its own gain."""
        lead = self.graph.shape(x)[:-2] if len(axes) > 1 else ()
        return self._gain(standard(self.graph, x, axes, eps, centred=False), part, name, lead)

    def _gain(self, y: int, part: str, name: str, lead: tuple[int, ...] = ()) -> int:
        if not self.spec.gain:
            return y
        shape = *lead, self.graph.shape(y)[-2], 1
        return self.graph.mul(y, self.graph.weight(part, f"{name}.gain", shape))

    # Attention.

    def attention(self, x: int, part: str, layer: int) -> int:
        """What attention writes to the stream."""
        spec, graph = self.spec.at(layer), self.graph
        k, q = spec.kv, spec.heads // spec.kv
        biased = not spec.kvrank and spec.bias in ("qkv", "attn", "all")
        each = partial(self.linear, part=part, biased=biased)
        scores, values = (self._latent if spec.kvrank else self._plain)(x, spec, part, each)
        gate = None
        if spec.gate != "none":
            rows = spec.dv if spec.gate == "element" else 1
            gate = each(x, name="W_G", rows=rows, lead=(k, q))
        sinks = graph.weight(part, "sinks", (k, q, 1, 1)) if spec.sinks else None
        for factor in self._factors(spec, layer):
            scores = graph.scale(scores, factor)
        weights = self._pattern(scores, sinks, spec, layer)
        mixed = graph.contract("govm,gqmt->gqvt", values, weights)
        if spec.mixnorm:
            mixed = self.rms(mixed, part, "normo", (-4, -3, -2), spec.mixeps or spec.eps)
        if gate is not None:
            mixed = graph.mul(mixed, activation(graph, gate, "sigmoid"))
        W = graph.weight(part, "W_O", (k, q, spec.d, spec.dv))
        y = graph.contract("gqdv,gqvt->dt", W, mixed)
        return self.bias(y, part, "b_O", spec.d, given=spec.bias in ("attn", "all"))

    def _plain(self, x: int, spec: Transformer, part: str, each: _Linear) -> tuple[int, int]:
        """Scores and values of plain attention."""
        graph, kv, G = self.graph, spec.kv, spec.heads // spec.kv
        queries = each(x, name="W_Q", rows=spec.head, lead=(kv, G))
        keys = each(x, name="W_K", rows=spec.head, lead=(kv, 1))
        values = each(x, name="W_V", rows=spec.dv, lead=(kv, 1))
        if spec.feature == "silu":
            keys, queries, values = (activation(graph, y, "silu") for y in (keys, queries, values))
        if spec.qknorm:
            axes = (-4, -3, -2) if spec.qknorm == "all" else (-2,)
            if spec.gain:  # declared before, as keys are normed before queries
                lead = graph.shape(queries)[:2] if spec.qknorm == "all" else ()
                graph.weight(part, "normq.gain", (*lead, spec.head, 1))
            keys = self.rms(keys, part, "normk", axes, spec.eps)
            queries = self.rms(queries, part, "normq", axes, spec.eps)
        if spec.rotary_dim:
            keys, queries = (rotated(graph, y, spec) for y in (keys, queries))
        return graph.contract("gokm,gqkt->gqmt", keys, queries), values

    def _latent(self, x: int, spec: Transformer, part: str, each: _Linear) -> tuple[int, int]:
        """Scores and values of latent attention."""
        graph, r, a = self.graph, spec.rotary_dim, x
        each = partial(each, lead=(spec.heads, 1))
        if spec.qrank:
            a = self.rms(self.linear(x, part, "A_Q", spec.qrank), part, "normq", (-2,), spec.eps)
        queries = each(a, name="W_Q", rows=spec.head)
        turned = rotated(graph, each(a, name="R_Q", rows=r), spec) if r else None
        c = self.linear(x, part, "A_K", spec.kvrank)
        c = self.rms(c, part, "normk", (-2,), spec.eps)
        common = rotated(graph, self.linear(x, part, "R_K", r), spec) if r else None
        keys = each(c, name="W_K", rows=spec.head)
        scores = graph.contract("gqkm,gqkt->gqmt", keys, queries)
        if turned is not None and common is not None:
            scores = graph.add(scores, graph.contract("rm,gqrt->gqmt", common, turned))
        return scores, each(c, name="W_V", rows=spec.dv)

    def _factors(self, spec: Transformer, layer: int) -> list[Irrational]:
        """By what scores are multiplied."""
        square, how = Fraction(1), spec.rescaling
        if spec.scale:
            square = (spec.head + (spec.rotary_dim if spec.kvrank else 0)) / spec.scale
        if spec.bylayer:
            square /= layer * layer
        found: list[Irrational] = [("root", square)] if square != 1 else []
        if how is not None and spec.kvrank and how.all:
            found += [("grown", how.all / 10, Fraction(0), how.factor)] * 2
        return found

    def _pattern(self, Z: int, sinks: int | None, spec: Transformer, layer: int) -> int:
        """How much each query takes from each key."""
        graph, t = self.graph, spec.t
        window = spec.window[(layer - 1) % len(spec.window)] if spec.window else 0
        seen = Seen(t, t, spec.causal, window - 1 if window else None)
        if spec.attn == "softmax":
            return softmax(graph, Z, seen, sinks, spec.cap)
        if spec.decay == "none" and seen.all:
            return Z
        with graph.region("pattern", [Z], weigh="identity", sums=(), seen=seen) as region:
            if spec.decay == "none":
                region.output = masked(graph, Z, seen)
            else:
                shape = spec.kv, spec.heads // spec.kv, t, t
                powers = graph.constant("powers", (_rates(spec, layer), seen), shape)
                region.output = graph.mul(Z, powers)
        return region.output

    # MLPs.

    def mlp(self, x: int, part: str) -> int:
        """What the MLP writes to the stream."""
        spec, dense = self.spec, self.spec.dense
        if isinstance(dense, tuple):
            own = bool(dense[(int(part) - 1) % len(dense)])
        else:
            own = int(part) <= dense
        if spec.experts and not own:
            return self._routed(x, part)
        biased = spec.bias in ("mlp", "mlp-norm", "all")
        gate = self.linear(x, part, "W_gate", spec.ff, biased=biased) if spec.gated else None
        up = self.linear(x, part, "W_up", spec.ff, biased=biased)
        hidden = self._units(gate, up)
        return self.linear(hidden, part, "W_down", spec.d, biased=biased)

    def _units(self, gate: int | None, up: int) -> int:
        """What units hold."""
        graph, kind = self.graph, self.spec.mlp
        if gate is None:
            return activation(graph, up, kind)
        if kind == "clamped":
            return clamped(graph, gate, up, self.spec.limit)
        return graph.mul(activation(graph, gate, kind), up)

    def _routed(self, x: int, part: str) -> int:
        """The MLP that chooses experts, and the shared one."""
        spec, graph = self.spec, self.graph
        mapped = partial(self.linear, part=part, lead=(spec.experts,), biased=spec.expbias)
        logits = mapped(x, name="W_R", rows=1)
        gate, up = (mapped(x, name=f"W_{name}", rows=spec.eff) for name in ("gate", "up"))
        hidden, shares = self._units(gate, up), self._shares(logits)
        y = mapped(hidden, name="W_down", rows=spec.d)
        y = graph.contract("edt,eot->dt", y, shares)
        if not spec.shared:
            return y
        gate, up = (self.linear(x, part, f"S_{name}", spec.shared) for name in ("gate", "up"))
        common = self.linear(self._units(gate, up), part, "S_down", spec.d)
        if spec.sharedgate:
            logit = self.linear(x, part, "S_R", 1)
            common = graph.mul(common, activation(graph, logit, "sigmoid", noted=False))
        return graph.add(y, common)

    def _shares(self, logits: int) -> int:
        """The share of every expert in what a token gets; 0 for those that are not chosen."""
        spec, graph = self.spec, self.graph
        choice = Choice(spec.active, spec.groups, spec.within)
        weigh = "exp" if spec.router.startswith("softmax") else "sigmoid"
        sums = () if spec.router == "sigmoid-raw" else (-3,)
        with graph.region("pattern", [logits], weigh=weigh, sums=sums) as region:
            if weigh == "exp":
                chosen, sizes = graph.choose(logits, choice), graph.exp(logits)
            else:
                sizes = sigmoid_of_minus(graph, graph.scale(logits, Fraction(-1)))
                chosen = graph.choose(sizes, choice)
            shares = graph.mul(sizes, chosen)
            if sums:
                by = sizes if spec.router == "softmax-raw" else shares
                shares = divided(graph, shares, -3, by=by)
            region.output = shares
        return region.output


def _rates(spec: Transformer, layer: int) -> tuple[Rate, ...]:
    """The decay rates of the heads of a layer."""
    fine = 10**5 * (spec.layers - 1) + 1
    s = 1 - Fraction(10**5 * (layer - 1), fine) + Fraction(1, 10**5)
    heads = range(1, spec.heads + 1)
    return tuple(Rate(exponent=Fraction(8 * h, spec.heads), factor=s, fine=fine) for h in heads)
