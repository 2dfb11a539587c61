"""What does a transformer compute? Its graph: section 2.3 of the page, in the same order.

A weight is declared where it is used; where the vector of weights has another order, tensors are
declared before.

>>> graph = transformer(Transformer.parse("transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/t=3"))
>>> graph.parameters, graph.shape(graph.output), len(graph.roots)
(144, (4, 3), 2)
"""

from __future__ import annotations

from fractions import Fraction

from segre.kernel.functions import activation, capped, softmax
from segre.kernel.graph import Graph
from segre.kernel.sublayers import Sublayers
from segre.transformer.spec import Transformer

EMBED, HEAD = "embed", "head"


def transformer(spec: Transformer, kind: type[Graph] = Graph) -> Graph:
    """The network of a spec."""
    blocks = tuple(filter(None, (spec.vocab, spec.types))) if spec.vocab else ()
    rows = sum(blocks) if blocks else spec.patch or spec.d
    return _Builder(spec, kind((rows, spec.t), blocks)).build()


class _Builder(Sublayers):
    """A transformer that is being written as a graph."""

    def build(self) -> Graph:
        """The stages in their order."""
        self.stages = 0
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
        if spec.pos == "learned":
            width = spec.d if spec.project else graph.shape(x)[-2]
            positions = graph.weight(EMBED, "positions", (width, spec.positions))
            used = graph.take(positions, -1, range(spec.offset, spec.offset + spec.t))
            x = self.linear(x, EMBED, "W_E", spec.d) if spec.project else x
            x = graph.add(x, used)
        if spec.types:
            types = graph.weight(EMBED, "types", (e, spec.types))
            chosen = self._rows(inputs, spec.vocab, spec.types)
            x = graph.add(x, graph.contract("ev,vt->et", types, chosen))
        if spec.embnorm:
            x = self.norm(x, EMBED, "norm")
        if spec.embed and not spec.project:
            x = self.linear(x, EMBED, "W_E", spec.d, biased=spec.bias == "all")
        return x

    def _rows(self, inputs: int, first: int, count: int) -> int:
        return self.graph.take(inputs, -2, range(first, first + count))

    def _patches(self, inputs: int) -> int:
        """Patches, mapped to the stream; the class token is in the place of the first."""
        spec, graph = self.spec, self.graph
        x = self.linear(inputs, EMBED, "W_P", spec.d, biased=True)
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
        y = self.norm(x, part, f"norm{number}") if self.before and not bare else x
        y = self.attention(y, part, layer) if number == 1 else self.mlp(y, part)
        if self.after or self.post:
            self.declared(part, f"post{number}", spec.d)
        if spec.layerscale:
            y = graph.mul(y, graph.weight(part, f"scale{number}", (spec.d, 1)))
        if self.after:
            y = self.norm(y, part, f"post{number}")
        if spec.residual:
            y = graph.add(graph.scale(x, spec.skip) if spec.skip != 1 else x, y)
        return self.norm(y, part, f"post{number}") if self.post else y

    def _parallel(self, x: int, part: str, layer: int) -> int:
        """A parallel layer: its norms divide by the same root."""
        self._enter()
        same = self.standard(x) if self.normed else x
        y = self.gained(same, part, "norm1") if self.normed else same
        written = self.attention(y, part, layer)
        y = self.gained(same, part, "norm2") if self.normed else same
        return self.graph.sum([x, written, self.mlp(y, part)])

    # The head.

    def _head(self, x: int) -> int:
        spec, graph = self.spec, self.graph
        if spec.final:
            x = self.norm(x, HEAD, "norm")
        pooled = None
        if spec.pooler:
            first = self.linear(graph.take(x, -1, [0]), HEAD, "W_pool", spec.d, biased=True)
            pooled = activation(graph, first, "tanh", noted=False)
        if spec.project:
            x = self.linear(x, HEAD, "W_D", spec.embed)
        if spec.labels:
            if pooled is None:
                chosen = {"first": 0, "last": spec.t - 1}.get(spec.read)
                pooled = x if chosen is None else graph.take(x, -1, [chosen])
            z = self._transformed(pooled)
            logits = self.linear(z, HEAD, "W_U", spec.labels, biased=spec.outbias)
            return self._distribution(logits)
        if spec.output == "hidden":
            return x if pooled is None else graph.join(-1, [x, pooled])
        logits = self._logits(self._transformed(x))
        if spec.logitcap:
            logits = capped(graph, logits, spec.logitcap)
        y = self._distribution(logits)
        if pooled is None:
            return y
        related = self.linear(pooled, HEAD, "W_rel", spec.relation, biased=True)
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
        y = self.linear(x, HEAD, "W_T", width, biased=spec.bias == "all")
        y = activation(self.graph, y, spec.mlp)
        return self.norm(y, HEAD, "normT") if spec.headnorm else y

    def _logits(self, x: int) -> int:
        spec, graph = self.spec, self.graph
        if not spec.tied:
            return self.linear(x, HEAD, "W_U", spec.vocab, biased=spec.outbias)
        tokens = graph.weight(EMBED, "tokens", (spec.embed or spec.d, spec.vocab))
        y = graph.contract("ev,et->vt", tokens, x)
        return self.bias(y, HEAD, "b_U", spec.vocab, given=spec.outbias)

    def _distribution(self, logits: int) -> int:
        """The softmax of every column, if it is asked for."""
        return softmax(self.graph, logits) if self.spec.output == "softmax" else logits
