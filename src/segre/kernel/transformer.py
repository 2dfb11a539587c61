"""What does a transformer compute? Its graph: sections 2 and 3 of the page, in the same order.

A weight is declared where it is used; where the vector of weights has another order, tensors are
declared before. Heads are kept together: the first axes of queries, keys and scores are g and q.

>>> graph = transformer(Transformer.parse("transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/t=3"))
>>> graph.parameters, graph.shape(graph.output), len(graph.roots)
(144, (4, 3), 2)
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from segre.kernel.functions import (
    activation,
    capped,
    clamped,
    rotated,
    sigmoid,
    sigmoid_of_minus,
    softmax,
    standard,
    tanh,
)
from segre.kernel.graph import Choice, Graph, Irrational, Rate, Seen
from segre.transformer.spec import Transformer

EMBED, HEAD = "embed", "head"


def transformer(spec: Transformer) -> Graph:
    """The network of a spec."""
    rows = spec.vocab + spec.types if spec.vocab else spec.patch or spec.d
    return _Builder(spec, Graph((rows, spec.t))).build()


def minor_mod_p(spec: Transformer) -> bool:
    """Whether a minor mod p proves anything about this transformer: section 6, but for angles."""
    piecewise = spec.mlp in ("relu", "relu2", "reglu", "clamped")
    free = not (spec.vocab or spec.patch or spec.experts or piecewise)
    constants = spec.rotary_dim > 0 or spec.decay != "none"
    return free and not (constants and spec.mlp in ("gelu-tanh", "geglu-tanh"))


class _Builder:
    """A transformer that is being written as a graph."""

    def __init__(self, spec: Transformer, graph: Graph) -> None:
        self.spec, self.graph = spec, graph
        self.normed = spec.norm != "none"
        self.before = self.normed and spec.place in ("pre", "sandwich")
        self.after = self.normed and spec.place in ("sandwich", "after")
        self.post = self.normed and spec.place == "post"
        self.stages = 0

    def build(self) -> Graph:
        """The stages in their order."""
        spec, x = self.spec, self.graph.input
        if spec.vocab or spec.patch or spec.pos == "learned":
            self._enter()
            x = self._embedding(x)
        for layer in range(1, spec.layers + 1):
            part = "1" if spec.share else str(layer)
            x = self._parallel(x, part, layer) if spec.parallel else self._layer(x, part, layer)
        if spec.final or spec.output != "hidden" or spec.pooler or spec.project:
            self._enter()
            x = self._head(x)
        self.graph.output = x
        return self.graph

    def _enter(self) -> None:
        self.graph.stage = self.stages
        self.stages += 1

    # Linear maps and norms.

    def _bias(self, y: int, part: str, name: str, rows: int, *, given: bool) -> int:
        return self.graph.add(y, self.graph.weight(part, name, (rows, 1))) if given else y

    def _linear(self, x: int, part: str, name: str, rows: int, *, biased: bool = False) -> int:
        """W x + b; the bias of W_name is b_name."""
        graph = self.graph
        W = graph.weight(part, name, (rows, graph.shape(x)[-2]))
        y = graph.contract("vd,dt->vt", W, x)
        return self._bias(y, part, "b_" + name[2:], rows, given=biased)

    def _declared(self, part: str, name: str, width: int) -> None:
        """The gain and the bias of a norm."""
        if self.spec.gain:
            self.graph.weight(part, f"{name}.gain", (width, 1))
        if self._norm_biased:
            self.graph.weight(part, f"{name}.bias", (width, 1))

    @property
    def _norm_biased(self) -> bool:
        spec = self.spec
        return spec.norm == "layer" and spec.gain and spec.bias in ("norm", "mlp-norm", "all")

    def _norm(self, x: int, part: str, name: str) -> int:
        """The norm `name` of every column."""
        return self._gained(self._standard(x), part, name)

    def _standard(self, x: int) -> int:
        return standard(self.graph, x, (-2,), self.spec.eps, centred=self.spec.norm == "layer")

    def _gained(self, y: int, part: str, name: str) -> int:
        width = self.graph.shape(y)[-2]
        if self.spec.gain:
            y = self.graph.mul(y, self.graph.weight(part, f"{name}.gain", (width, 1)))
        return self._bias(y, part, f"{name}.bias", width, given=self._norm_biased)

    def _rms(self, x: int, part: str, name: str, axes: tuple[int, ...], eps: Fraction) -> int:
        """A norm of queries, keys, latents or of all that heads mix, with its own gain."""
        y = standard(self.graph, x, axes, eps, centred=False)
        if not self.spec.gain:
            return y
        shape = self.graph.shape(x)
        lead = shape[:-2] if len(axes) > 1 else ()
        return self.graph.mul(y, self.graph.weight(part, f"{name}.gain", (*lead, shape[-2], 1)))

    # The embedding.

    def _embedding(self, inputs: int) -> int:
        spec, graph, x = self.spec, self.graph, inputs
        e = spec.embed or spec.d
        if spec.vocab:
            tokens = graph.weight(EMBED, "tokens", (e, spec.vocab))
            x = graph.contract("ev,vt->et", tokens, self._rows(inputs, 0, spec.vocab))
            if spec.embscale:
                x = graph.scale(x, ("sqrt", spec.d))
        elif spec.patch:
            x = self._patches(inputs)
        if spec.project:
            width = graph.shape(x)[-2]
            positions = graph.weight(EMBED, "positions", (spec.d, spec.positions))
            E = graph.weight(EMBED, "W_E", (spec.d, width))
            return graph.add(graph.contract("de,et->dt", E, x), self._used(positions))
        if spec.pos == "learned":
            width = graph.shape(x)[-2]
            x = graph.add(x, self._used(graph.weight(EMBED, "positions", (width, spec.positions))))
        if spec.types:
            types = graph.weight(EMBED, "types", (e, spec.types))
            chosen = self._rows(inputs, spec.vocab, spec.types)
            x = graph.add(x, graph.contract("ev,vt->et", types, chosen))
        if spec.embnorm:
            x = self._norm(x, EMBED, "norm")
        if spec.embed:
            x = self._linear(x, EMBED, "W_E", spec.d, biased=spec.bias == "all")
        return x

    def _rows(self, inputs: int, first: int, count: int) -> int:
        return self.graph.take(inputs, -2, range(first, first + count))

    def _used(self, positions: int) -> int:
        """The positions of the tokens, out of the table."""
        return self.graph.take(
            positions, -1, range(self.spec.offset, self.spec.offset + self.spec.t)
        )

    def _patches(self, inputs: int) -> int:
        """Patches, mapped to the stream; the class token is in the place of the first."""
        spec, graph = self.spec, self.graph
        x = self._linear(inputs, EMBED, "W_P", spec.d, biased=True)
        if spec.cls:
            first = graph.weight(EMBED, "cls", (spec.d, 1))
            rest = [graph.take(x, -1, range(1, spec.t))] if spec.t > 1 else []
            x = graph.join(-1, [first, *rest])
        if spec.masked:
            graph.weight(EMBED, "mask", (spec.d, 1))
        return x

    # Layers.

    def _layer(self, x: int, part: str, layer: int) -> int:
        self._enter()
        bare = not self.spec.firstnorm and layer == 1
        x = self._sublayer(x, part, layer, 1, bare=bare)
        if self.spec.mlp != "none":
            self._enter()
            x = self._sublayer(x, part, layer, 2)
        return x

    def _sublayer(self, x: int, part: str, layer: int, number: int, *, bare: bool = False) -> int:
        """Attention (number 1) or MLP (2) with its norms."""
        spec, graph = self.spec, self.graph
        y = self._norm(x, part, f"norm{number}") if self.before and not bare else x
        y = self._attention(y, part, layer) if number == 1 else self._mlp(y, part)
        if self.after or self.post:
            self._declared(part, f"post{number}", spec.d)
        if spec.layerscale:
            y = graph.mul(y, graph.weight(part, f"scale{number}", (spec.d, 1)))
        if self.after:
            y = self._norm(y, part, f"post{number}")
        if spec.residual:
            y = graph.add(graph.scale(x, spec.skip) if spec.skip != 1 else x, y)
        return self._norm(y, part, f"post{number}") if self.post else y

    def _parallel(self, x: int, part: str, layer: int) -> int:
        """A parallel layer: its norms divide by the same root."""
        self._enter()
        same = self._standard(x) if self.normed else x
        y = self._gained(same, part, "norm1") if self.normed else same
        written = self._attention(y, part, layer)
        y = self._gained(same, part, "norm2") if self.normed else same
        return self.graph.sum([x, written, self._mlp(y, part)])

    # Attention.

    def _attention(self, x: int, part: str, layer: int) -> int:
        """What attention writes to the stream."""
        spec, graph = self.spec.at(layer), self.graph
        k, q = spec.kv, spec.heads // spec.kv
        scores, values = (self._latent if spec.kvrank else self._plain)(x, spec, part)
        gate = None
        if spec.gate != "none":
            rows = spec.dv if spec.gate == "element" else 1
            gate = self._heads(x, spec, part, "W_G", (k, q), rows)
        sinks = graph.weight(part, "sinks", (k, q, 1, 1)) if spec.sinks else None
        for factor in self._factors(spec, layer):
            scores = graph.scale(scores, factor)
        weights = self._pattern(scores, sinks, spec, layer)
        mixed = graph.contract("govm,gqmt->gqvt", values, weights)
        if spec.mixnorm:
            mixed = self._rms(mixed, part, "normo", (-4, -3, -2), spec.mixeps or spec.eps)
        if gate is not None:
            mixed = graph.mul(mixed, sigmoid(graph, gate, noted=True))
        W = graph.weight(part, "W_O", (k, q, spec.d, spec.dv))
        y = graph.contract("gqdv,gqvt->dt", W, mixed)
        return self._bias(y, part, "b_O", spec.d, given=spec.bias in ("attn", "all"))

    def _heads(
        self, x: int, spec: Transformer, part: str, name: str, heads: tuple[int, int], rows: int
    ) -> int:
        """W x + b for every head."""
        graph = self.graph
        W = graph.weight(part, name, (*heads, rows, graph.shape(x)[-2]))
        y = graph.contract("gqkd,dt->gqkt", W, x)
        if spec.kvrank or spec.bias not in ("qkv", "attn", "all"):
            return y
        return graph.add(y, graph.weight(part, "b_" + name[2:], (*heads, rows, 1)))

    def _plain(self, x: int, spec: Transformer, part: str) -> tuple[int, int]:
        """Scores and values of plain attention."""
        graph, kv = self.graph, (spec.kv, 1)
        queries = self._heads(x, spec, part, "W_Q", (spec.kv, spec.heads // spec.kv), spec.head)
        keys = self._heads(x, spec, part, "W_K", kv, spec.head)
        values = self._heads(x, spec, part, "W_V", kv, spec.dv)
        if spec.feature == "silu":
            keys, queries, values = (activation(graph, y, "silu") for y in (keys, queries, values))
        if spec.qknorm:
            axes = (-4, -3, -2) if spec.qknorm == "all" else (-2,)
            if spec.gain:  # declared before, as keys are normed before queries
                lead = graph.shape(queries)[:2] if spec.qknorm == "all" else ()
                graph.weight(part, "normq.gain", (*lead, spec.head, 1))
            keys = self._rms(keys, part, "normk", axes, spec.eps)
            queries = self._rms(queries, part, "normq", axes, spec.eps)
        if spec.rotary_dim:
            keys, queries = (rotated(graph, y, spec) for y in (keys, queries))
        return graph.contract("gokm,gqkt->gqmt", keys, queries), values

    def _latent(self, x: int, spec: Transformer, part: str) -> tuple[int, int]:
        """Scores and values of latent attention."""
        graph, heads, r = self.graph, (spec.heads, 1), spec.rotary_dim
        each = partial(self._heads, spec=spec, part=part, heads=heads)
        a = x
        if spec.qrank:
            a = self._rms(self._linear(x, part, "A_Q", spec.qrank), part, "normq", (-2,), spec.eps)
        queries = each(a, name="W_Q", rows=spec.head)
        turned = rotated(graph, each(a, name="R_Q", rows=r), spec) if r else None
        c = self._linear(x, part, "A_K", spec.kvrank)
        c = self._rms(c, part, "normk", (-2,), spec.eps)
        common = rotated(graph, self._linear(x, part, "R_K", r), spec) if r else None
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
        with graph.region("pattern", [Z], weigh="identity", normalise="none", seen=seen) as region:
            if spec.decay == "none":
                mask = graph.constant("seen", seen, (t, t))
            else:
                heads = spec.kv, spec.heads // spec.kv
                mask = graph.constant("powers", (_rates(spec, layer), seen), (*heads, t, t))
            region.output = graph.mul(Z, mask)
        return region.output

    # MLPs.

    def _mlp(self, x: int, part: str) -> int:
        """What the MLP writes to the stream."""
        spec, dense = self.spec, self.spec.dense
        if isinstance(dense, tuple):
            own = bool(dense[(int(part) - 1) % len(dense)])
        else:
            own = int(part) <= dense
        if spec.experts and not own:
            return self._routed(x, part)
        biased = spec.bias in ("mlp", "mlp-norm", "all")
        gate = self._linear(x, part, "W_gate", spec.ff, biased=biased) if spec.gated else None
        up = self._linear(x, part, "W_up", spec.ff, biased=biased)
        hidden = self._units(gate, up)
        return self._linear(hidden, part, "W_down", spec.d, biased=biased)

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
        spec, graph, E = self.spec, self.graph, self.spec.experts

        def mapped(y: int, name: str, rows: int, subscripts: str) -> int:
            shape = graph.shape(y)
            W = graph.weight(part, f"W_{name}", (E, rows, shape[-2]))
            z = graph.contract(subscripts, W, y)
            if not spec.expbias:
                return z
            return graph.add(z, graph.weight(part, f"c_{name}", (E, rows, 1)))

        logits = mapped(x, "R", 1, "evd,dt->evt")
        gate, up = (mapped(x, name, spec.eff, "evd,dt->evt") for name in ("gate", "up"))
        hidden = self._units(gate, up)
        shares = self._shares(logits)
        y = mapped(hidden, "down", spec.d, "edv,evt->edt")
        y = graph.contract("edt,eot->dt", y, shares)
        if not spec.shared:
            return y
        gate, up = (self._linear(x, part, f"S_{name}", spec.shared) for name in ("gate", "up"))
        common = self._linear(self._units(gate, up), part, "S_down", spec.d)
        if spec.sharedgate:
            common = graph.mul(common, sigmoid(graph, self._linear(x, part, "S_R", 1)))
        return graph.add(y, common)

    def _shares(self, logits: int) -> int:
        """The share of every expert in what a token gets; 0 for those that are not chosen."""
        spec, graph = self.spec, self.graph
        choice = Choice(spec.active, spec.groups, spec.within)
        with graph.region("route", [logits], router=spec.router, choice=choice) as region:
            if spec.router.startswith("softmax"):
                chosen, sizes = graph.choose(logits, choice), graph.exp(logits)
            else:
                sizes = sigmoid_of_minus(graph, graph.scale(logits, Fraction(-1)))
                chosen = graph.choose(sizes, choice)
            shares = graph.mul(sizes, chosen)
            if spec.router != "sigmoid-raw":
                whole = sizes if spec.router == "softmax-raw" else shares
                shares = graph.mul(shares, graph.inverse(graph.total(whole, -3)))
            region.output = shares
        return region.output

    # The head.

    def _head(self, x: int) -> int:
        spec, graph = self.spec, self.graph
        if spec.final:
            x = self._norm(x, HEAD, "norm")
        pooled = None
        if spec.pooler:
            first = self._linear(graph.take(x, -1, [0]), HEAD, "W_pool", spec.d, biased=True)
            pooled = tanh(graph, first)
        if spec.project:
            x = self._linear(x, HEAD, "W_D", spec.embed)
        if spec.labels:
            if pooled is None:
                chosen = {"first": 0, "last": spec.t - 1}.get(spec.read)
                pooled = x if chosen is None else graph.take(x, -1, [chosen])
            z = self._transformed(pooled)
            logits = self._linear(z, HEAD, "W_U", spec.labels, biased=spec.outbias)
            return self._distribution(logits)
        if spec.output == "hidden":
            return x if pooled is None else graph.join(-1, [x, pooled])
        logits = self._logits(self._transformed(x))
        if spec.logitcap:
            logits = capped(graph, logits, spec.logitcap)
        y = self._distribution(logits)
        if pooled is None:
            return y
        related = self._linear(pooled, HEAD, "W_rel", spec.relation, biased=True)
        related = self._distribution(related)
        if spec.relation < spec.vocab:
            zeros = graph.constant("rational", Fraction(0), (spec.vocab - spec.relation, 1))
            related = graph.join(-2, [related, zeros])
        return graph.join(-1, [y, related])

    def _transformed(self, x: int) -> int:
        """The dense layer of the head, if it is there: activated, and normed or not."""
        spec = self.spec
        if not spec.transform:
            return x
        width = spec.d if spec.labels or not spec.embed else spec.embed
        y = self._linear(x, HEAD, "W_T", width, biased=spec.bias == "all")
        y = activation(self.graph, y, spec.mlp)
        return self._norm(y, HEAD, "normT") if spec.headnorm else y

    def _logits(self, x: int) -> int:
        spec, graph = self.spec, self.graph
        if not spec.tied:
            return self._linear(x, HEAD, "W_U", spec.vocab, biased=spec.outbias)
        tokens = graph.weight(EMBED, "tokens", (spec.embed or spec.d, spec.vocab))
        y = graph.contract("ev,et->vt", tokens, x)
        return self._bias(y, HEAD, "b_U", spec.vocab, given=spec.outbias)

    def _distribution(self, logits: int) -> int:
        """The softmax of every column, if it is asked for."""
        return softmax(self.graph, logits) if self.spec.output == "softmax" else logits


def _rates(spec: Transformer, layer: int) -> tuple[Rate, ...]:
    """The decay rates of the heads of a layer."""
    fine = 10**5 * (spec.layers - 1) + 1
    s = 1 - Fraction(10**5 * (layer - 1), fine) + Fraction(1, 10**5)
    heads = range(1, spec.heads + 1)
    return tuple(Rate(exponent=Fraction(8 * h, spec.heads), factor=s, fine=fine) for h in heads)
