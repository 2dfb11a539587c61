"""Along which tangents do heads stay what they are? Families 1 to 12 of section 9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations, product

from flint import nmod_mat

from segre.referee.linear import annihilator, beside, integers, total
from segre.referee.transformers.attention import planes
from segre.referee.transformers.stream import Actor, Norm, Reader
from segre.referee.transformers.tangents import Family, Point, Tangent, together
from segre.referee.transformers.weights import Key, turning


class Heads:
    """The attention of one layer."""

    def __init__(self, point: Point, part: int) -> None:
        self.point, self.part = point, part
        self.spec = spec = point.spec.at(part)
        self.group = spec.heads // spec.kv
        self.turned = turning(spec)
        self.planes = planes(self.turned, spec.layout)
        first = 0 if spec.kvrank else self.turned
        self.still = range(first, spec.head)

    def __iter__(self) -> Family:
        families: list[tuple[str, Callable[[], Iterator[Tangent]]]] = [
            ("query-key", self._query_key),
            ("rotary", self._rotary),
            ("query-key-gains", self._query_key_gains),
            ("query-key-turns", self._query_key_turns),
            ("query-key-scale", self._query_key_scale),
            ("value-output", self._value_output),
            ("key-bias", self._key_bias),
            ("value-bias", self._value_bias),
            ("scale", self._scale),
            ("latent-turns", self._latent_turns),
            ("gain", self._latent_gains),
            ("latent-scale", self._latent_scale),
        ]
        if self.spec.feature != "none":
            families = []
        if self.spec.mixnorm:
            families = [pair for pair in families if pair[0] not in ("value-output", "scale")]
            families.append(("gain", self._mixed_gains))
        for name, family in families:
            for tangent in family():
                yield name, tangent

    # Matrices of one group.

    def _queries(self, g: int) -> list[Key]:
        return [key for q in range(self.group) for key in self._query(g * self.group + q)]

    def _query(self, head: int) -> list[Key]:
        return self.point.with_bias(self.part, "Q", head)

    def _keys(self, g: int) -> list[Key]:
        return self.point.with_bias(self.part, "K", g)

    def _outputs(self, g: int) -> list[Key]:
        return [(self.part, "W_O", g * self.group + q) for q in range(self.group)]

    # Queries and keys.

    def _query_key(self) -> Iterator[Tangent]:
        if self.spec.qknorm:
            return
        unit, left, k = self.point.unit, self.point.left, self.spec.head
        for g, i, j in product(range(self.spec.kv), self.still, self.still):
            moved = left(self._queries(g), unit(k, (i, j, 1)))
            yield together(moved, left(self._keys(g), unit(k, (j, i, -1))))

    def _rotary(self) -> Iterator[Tangent]:
        if self.spec.qknorm or not self.turned:
            return
        left = self.point.left
        if self.spec.kvrank:
            places = self.point.keys([(self.part, "R_Q")]), self.point.keys([(self.part, "R_K")])
            groups, width = [places], self.turned
        else:
            groups = [(self._queries(g), self._keys(g)) for g in range(self.spec.kv)]
            width = self.spec.head
        for (queries, keys), (a, b) in product(groups, self.planes):
            both = self.point.unit(width, (a, a, 1), (b, b, 1))
            yield together(left(queries, both), left(keys, -both))
            yield left(queries + keys, self._turn(width, a, b))

    def _turn(self, width: int, a: int, b: int) -> nmod_mat:
        """Row a becomes minus row b, row b becomes row a."""
        return self.point.unit(width, (a, b, -1), (b, a, 1))

    def _query_key_gains(self) -> Iterator[Tangent]:
        if not (self.spec.qknorm and self.spec.gain):
            return
        own = self.spec.qknorm == "all"  # every head has gains of its own
        each = [*self.planes, *((j,) for j in self.still)]
        for g, dimensions in product(range(self.spec.kv if own else 1), each):
            some = self.point.unit(self.spec.head, *((i, i, 1) for i in dimensions))
            heads = range(g * self.group, (g + 1) * self.group) if own else (0,)
            queries = self.point.left([(self.part, "normq.gain", h) for h in heads], some)
            yield together(queries, self.point.left([(self.part, "normk.gain", g)], -some))

    def _query_key_turns(self) -> Iterator[Tangent]:
        if not self.spec.qknorm or self.spec.gain:
            return
        pairs = [*self.planes, *combinations(self.still, 2)]
        for g, (a, b) in product(range(self.spec.kv), pairs):
            both = self._queries(g) + self._keys(g)
            yield self.point.left(both, self._turn(self.spec.head, a, b))

    def _query_key_scale(self) -> Iterator[Tangent]:
        if not self.spec.qknorm or self.spec.eps:
            return
        scaled = [self._query(h) for h in range(self.spec.heads)]
        met = [self._keys(g) for g in range(self.spec.kv)]
        if self.spec.qknorm == "all":
            scaled, met = [list(chain(*scaled))], [list(chain(*met))]
        scaled += met
        for keys in scaled:
            yield {key: self.point.matrices[key] for key in keys}

    # Values.

    def _value_output(self) -> Iterator[Tangent]:
        v = self.spec.dv
        for g, j, k in product(range(self.spec.kv), range(v), range(v)):
            if self.spec.gate == "element" and j != k:
                continue
            values = self.point.with_bias(self.part, "V", g)
            moved = self.point.left(values, self.point.unit(v, (j, k, 1)))
            outputs = self.point.right(self._outputs(g), self.point.unit(v, (j, k, -1)))
            yield together(moved, outputs)

    def _key_bias(self) -> Iterator[Tangent]:
        spec, point = self.spec, self.point
        if spec.attn != "softmax" or spec.sinks or spec.cap or spec.qknorm or spec.kvrank:
            return
        norm = None if point.has((self.part, "b_K")) else self._norm_with_bias()
        for g, j in product(range(spec.kv), self.still):
            if point.has((self.part, "b_K")):
                yield point.filled((self.part, "b_K", g), row=j)
            elif norm is not None:
                tall = point.field.unit(spec.head, 1, j, 0)
                yield {(self.part, "W_K", g): tall * point.mean_form(norm)}

    def _norm_with_bias(self) -> Norm | None:
        """The norm with a bias whose output attention reads."""
        stream, own = self.point.stream, Actor("attention", self.part)
        norm, before = stream.norm_before(own), stream.producers_for(own)
        if self.spec.place == "post" and len(before) == 1 and before[0].kind != "embedding":
            norm = stream.norm_after(before[0])
        return norm if norm is not None and self.point.has(norm.bias) else None

    def _value_bias(self) -> Iterator[Tangent]:
        spec, point = self.spec, self.point
        if spec.attn != "softmax" or spec.sinks or spec.gate != "none" or spec.kvrank:
            return
        norm = None if point.has((self.part, "b_V")) else self._norm_with_bias()
        if norm is None and not point.has((self.part, "b_V")):
            return
        sums = [total([point.matrices[key] for key in self._outputs(g)]) for g in range(spec.kv)]
        taker = "b_down" if norm is not None and spec.parallel else "b_O"
        if point.has((self.part, taker)):
            for g, j in product(range(spec.kv), range(spec.dv)):
                tall = point.field.unit(spec.dv, 1, j, 0)
                constant = 1 if norm is None else point.mean_value(norm)
                column = sums[g] * tall * constant
                yield together(self._values_moved(g, tall, norm), {(self.part, taker, 0): -column})
            return
        M = beside(sums)
        if spec.norm == "layer" and (spec.final or spec.place != "pre"):
            rows = integers(M)
            flat = [x - y for row in rows[1:] for x, y in zip(row, rows[0], strict=True)]
            M = nmod_mat(spec.d - 1, M.ncols(), flat, point.p)
        for n in annihilator(M, f"what the values of layer {self.part} write"):
            parts = (n[g * spec.dv : (g + 1) * spec.dv] for g in range(spec.kv))
            tall = [nmod_mat(spec.dv, 1, part, point.p) for part in parts]
            yield together(*(self._values_moved(g, one, norm) for g, one in enumerate(tall)))

    def _values_moved(self, g: int, tall: nmod_mat, norm: Norm | None) -> Tangent:
        """Values plus a constant: by their bias, or by what they read of the bias of a norm."""
        if norm is None:
            return {(self.part, "b_V", g): tall}
        return {(self.part, "W_V", g): tall * self.point.mean_form(norm)}

    def _scale(self) -> Iterator[Tangent]:
        if self.spec.attn != "lightning":
            return
        for h in range(self.spec.heads):
            queries = {key: -self.point.matrices[key] for key in self._query(h)}
            output = (self.part, "W_O", h)
            yield together({output: self.point.matrices[output]}, queries)

    # One norm of all that heads mix.

    def _mixed_gains(self) -> Iterator[Tangent]:
        if not self.spec.gain:
            return
        v = self.spec.dv
        for h, j in product(range(self.spec.heads), range(v)):
            gain = self.point.left([(self.part, "normo.gain", h)], self.point.unit(v, (j, j, 1)))
            lost = self.point.right([(self.part, "W_O", h)], self.point.unit(v, (j, j, -1)))
            yield together(gain, lost)

    # Latents.

    def _latents(self) -> Iterator[tuple[Key, Norm, list[Reader]]]:
        """The map to each latent, its norm, and its readers."""
        if not self.spec.kvrank:
            return
        latents = [("A_K", "normk", self.spec.kvrank, ("W_K", "W_V"))]
        if self.spec.qrank:
            latents.append(("A_Q", "normq", self.spec.qrank, ("W_Q", "R_Q")))
        for name, norm, rank, readers in latents:
            places = [(self.part, reader) for reader in readers]
            kept = [Reader(place, None) for place in places if self.point.has(place)]
            yield (self.part, name, 0), Norm(self.part, norm, rank), kept

    def _latent_turns(self) -> Iterator[Tangent]:
        for A, norm, readers in self._latents():
            G, inverse = self.point.gain(norm, norm.width)
            keys = self.point.keys(reader.weight for reader in readers)
            for S in self.point.skew(norm.width):
                moved = self.point.left([A], S)
                yield together(moved, self.point.right(keys, -(G * S * inverse)))

    def _latent_gains(self) -> Iterator[Tangent]:
        for _, norm, readers in self._latents():
            if self.point.has(norm.gain):
                yield from gains(self.point, norm, readers)

    def _latent_scale(self) -> Iterator[Tangent]:
        for A, _, _ in self._latents():
            if not self.spec.eps:
                yield {A: self.point.matrices[A]}


def gains(point: Point, norm: Norm, readers: list[Reader]) -> Iterator[Tangent]:
    """A dimension that a norm puts out, times a number, and all that read it divided by it."""
    own = point.keys([norm.gain, norm.bias])
    for i in range(norm.width):
        one = point.unit(norm.width, (i, i, 1))
        changes = [point.columns_scaled(reader, i) for reader in readers]
        yield together(point.left(own, one), *changes)
