"""The gauge of what did not change: two checkpoints brought together by what they share.

The nearest gauge spreads a change over everything that could hide it. Here bases and scales are
fitted again and again, each time with less weight on what does not agree: rows of the stream for
its basis; for heads and units, directions of the difference, so that a change of low rank drops
out. A fit counts only where enough agrees to within rounding; otherwise the nearest gauge stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

import numpy as np

from segre.checkpoint.align import SUBLAYERS, Alignment, nearest_signs
from segre.checkpoint.fits import Rows, common, rounding_noise, spectrum, unlike
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import Finder, aligned_pairs, best_stream, stream_rows
from segre.checkpoint.planes import free_key_biases, rotary_key, turning
from segre.checkpoint.reduce import Choose, Reduced, away_from, unread_mean
from segre.fields.interface import Array
from segre.symmetry.action import Actor
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, after, of_stream, stream_freedom
from segre.symmetry.orders import Order
from segre.symmetry.space import FloatWeights, Port
from segre.symmetry.wiring import readers
from segre.transformer.spec import Transformer

_ROUNDS = 12  # of fitting, at most
_ENOUGH = 2  # times as many rows as coordinates determine the basis


class Steady(Alignment):
    """Moves `two` into the gauge of `one`, by what is the same in both."""

    normed: tuple[Array | None, Array | None] = (None, None)  # of the stream: gain and bias

    def _finder(self) -> Finder:
        spec = self.one.spec
        if stream_freedom(spec) != "orthogonal" or spec.embed:
            return super()._finder()
        a, b = next(aligned_pairs(self.one, self.two, finder := Finder(centred=True)))
        tables = list(stream_rows(spec, a.part, a.tensors, b.tensors, gains=False))
        stream = of_stream(spec)["stream"]

        def of_tables(turn: Elements) -> Iterator[Rows]:
            yield from ((x, stream.on(turn["stream"], y.T).T if turn else y) for x, y in tables)

        for rows in (of_tables, lambda turn: self._rows(after(spec, turn, finder.basis))):
            if (turn := self._settle(rows)) is not None:
                return Finder(after(spec, turn, finder.basis))
        return super()._finder()

    def _settle(self, rows: Callable[[Elements], Iterator[Rows]]) -> Elements | None:
        """The turn with which enough rows agree."""
        spec, turn, last = self.one.spec, dict[str, Array](), np.inf
        for _ in range(_ROUNDS):
            inner, every = np.zeros((spec.d, spec.d)), []
            for a, b in rows(turn):
                apart = _apart(a, b)
                every.append(apart)
                inner += (a / (1 + apart / self.near**2)[:, None]).T @ b
            apart = np.sort(np.concatenate(every))
            rest = float(apart[_ENOUGH * spec.d]) if len(apart) > _ENOUGH * spec.d else np.inf
            if rest > last / 2 or rest == np.inf:
                break
            last = rest
            turn = after(spec, best_stream(spec, inner), turn)
        return turn if rest <= (2 * self.near) ** 2 else None

    def _rows(self, basis: Elements) -> Iterator[Rows]:
        for done, (a, b) in enumerate(aligned_pairs(self.one, self.two, Finder(basis))):
            self.progress("basis of the stream", done, len(self.one.parts))
            free = "QKVO" if self.one.spec.mlp != "none" else ""  # heads have bases of their own
            own = {name: value for name, value in a.tensors.items() if name[2:] not in {*free}}
            yield from stream_rows(self.one.spec, a.part, own, b.tensors, gains=False)

    def _choices(self, one: Reduced, two: Reduced) -> Choose:
        a, b = one.tensors, two.tensors
        spec = self.two.spec.at(two.part)
        free = [actor for actor, _ in one.move if isinstance(actor, Basis)]
        readers = {
            vector.tensor[1]: [p.tensor[1] for p in actor.ports if p.reads and p.tensor[1] in b]
            for actor in free
            if (vector := actor.vector) and vector.tensor[0] == one.part and not vector.reads
        }
        readers = {norm: names for norm, names in readers.items() if not norm.startswith("normT")}
        whole = a if spec.norm == "rms" else self._with_means(one)
        gains: Tensors = {}
        for _ in range(2):  # heads that read a norm can be compared once its gain is known
            seen = dict(b)
            for norm, gain in gains.items():
                for name in readers[norm]:
                    seen[name] = b[name] / gain.T
                    if spec.norm == "layer":
                        seen[name] = seen[name] - seen[name].mean(axis=-1, keepdims=True)
            self._steady_layer(one, seen, two)
            gains = {}
            for norm, names in readers.items():
                found = _changed_gain(spec, names, whole, a, b, self.near)
                if found is not None:
                    gains[norm] = found
            if not gains:
                break

        def choose(actor: Actor, like: Array, a: FloatWeights, b: FloatWeights) -> Array:
            if isinstance(actor, Order):
                return nearest_signs(actor, like, a, b)
            vector = actor.vector if isinstance(actor, Basis) else None
            if vector is not None and vector.tensor[1] in gains:
                return np.asarray(like / gains[vector.tensor[1]][:, 0])
            return like

        return choose

    def _with_means(self, one: Reduced) -> Tensors:
        """A part that is reduced, except that its readers have what a LayerNorm never passes on."""
        w = replace(one, tensors=self.one.part(one.part)).weights(self.one.spec)
        for actor, element in one.move:
            if isinstance(actor, Basis):
                actor.act(w, element)
        return {name: w(one.part, name) for name in one.tensors}

    def _steady_layer(self, one: Reduced, seen: Tensors, two: Reduced) -> None:
        """Bases of heads and scales of units of `two`, in place, in which `seen` is as `one`."""
        spec = self.two.spec
        a, b, c = one.weights(spec), replace(two, tensors=seen).weights(spec), two.weights(spec)
        for actor, _ in one.move:
            if isinstance(actor, Basis) and actor.vector is None:
                found = _common_basis(actor, a, b, self.near)
                if found is not None:
                    actor.act(c, found)
        two.tensors.update({name: c(two.part, name) for name in two.tensors})

    def _restored(self, part: str, new: Tensors, target: Tensors) -> None:
        spec = self.two.spec.at(part)
        if spec.norm == "layer" and not spec.embed and part not in ("embed", "head"):
            for norm in SUBLAYERS:
                gain, shift = (new.get(f"{norm}.{kind}") for kind in ("gain", "bias"))
                if gain is None:  # the stream was normed before
                    gain, shift = self.normed if norm == "norm1" else _norm(new, "post1")
                if gain is not None:
                    _steady_reads(spec, part, norm, away_from(gain), shift, new, target, self.near)
        self.normed = _norm(new, "norm" if part == "embed" else "post2")


def _norm(w: Tensors, name: str) -> tuple[Array | None, Array | None]:
    """The gain and the bias of a norm."""
    return w.get(f"{name}.gain"), w.get(f"{name}.bias")


def _steady_reads(
    spec: Transformer,
    part: str,
    norm: str,
    unseen: Array,
    shift: Array | None,
    new: Tensors,
    target: Tensors,
    near: float,
) -> None:
    """Along what a LayerNorm passes on only as a constant, biases as they were, or else readers.

    Biases only where the readers then differ in no more directions than before. Biases of values
    are carried on by those of outputs; biases of keys may have no effect.
    """
    constant = 0.0 if shift is None else (unseen.T @ shift).item()
    centred = float(unread_mean(spec))
    for reader in readers(spec, (part, SUBLAYERS[norm])):
        name, bias = reader.weight, reader.bias
        rows = (new[name] - target[name]).reshape(-1, spec.d)
        effect: Array = np.full((len(rows), 1), constant)  # on biases, row by row ...
        if name == "W_K" and free_key_biases(spec, new):
            kept = (np.arange(len(rows)) % spec.head < turning(spec)).reshape(new["b_K"].shape)
            new["b_K"] = np.where(kept, new["b_K"], target["b_K"])
            effect = effect * kept.reshape(-1, 1)
        through = name == "W_V" and "b_O" in new and spec.sums_to_one
        if through:
            bias = "b_down" if spec.parallel else "b_O"
            carried = (new["W_O"] @ (new["b_V"] - target["b_V"])).sum(axis=(0, 1))
            carried = carried + (new["b_O"] - target["b_O"]) * spec.parallel
            new["b_V"], new[bias] = target["b_V"], new[bias] + carried
            new["b_O"] = target["b_O"] if spec.parallel else new["b_O"]
            joined = new["W_O"].sum(axis=1).swapaxes(0, 1).reshape(spec.d, -1)
            effect = constant * (joined - joined.mean(axis=0) * centred)  # ... or all together
        offset = np.zeros((len(effect), 1))
        if bias is not None:
            offset = (new[bias] - target[bias]).reshape(-1, 1)
            offset = offset - offset.mean() * centred * through
        size = near * float(np.linalg.norm(target[name]))
        noise = rounding_noise(rows, near, target[name]) ** 2
        squares, directions = spectrum(rows)
        if squares[-1] <= noise and np.linalg.norm(offset) <= size:
            continue
        left = rows @ (directions / np.sqrt(np.maximum(squares, 1e-300)))[:, squares > noise]
        known = [0 * rows[:, :1], -rows @ unseen]
        if left.shape[1] < spec.d - 1:  # whatever explains biases lies in these directions
            found = left @ np.linalg.lstsq(effect @ left if through else effect * left, offset)[0]
        elif through:
            found = np.linalg.lstsq(effect, offset)[0]
        else:
            found = np.divide(offset, effect, out=0 * offset, where=effect != 0)
        usual = float(np.linalg.norm(rows)) / max(1, left.shape[1]) ** 0.5
        if np.linalg.norm(found) <= 3 * usual:  # no more than in other directions
            known.append(found)
        best, by, left = (spec.d, True), known[0], offset
        for one in known:
            rest = offset - (effect @ one if through else effect * one)
            rank = int((spectrum(rows + one * unseen.T)[0] > noise).sum())
            score = min(rank, spec.d - 1), float(np.linalg.norm(rest)) > size
            if score < best:
                best, by, left = score, one, rest
        new[name] = new[name] + (by * unseen.T).reshape(new[name].shape)
        if bias is not None:
            new[bias] = target[bias] + left.reshape(new[bias].shape)


def _apart(one: Array, two: Array) -> Array:
    """Squared distances of rows, relative to the first; of rows of zeros, 1."""
    sizes = (one**2).sum(axis=1)
    return np.where(sizes > 0, ((one - two) ** 2).sum(axis=1) / np.where(sizes > 0, sizes, 1), 1.0)


def _changed_gain(
    spec: Transformer, names: list[str], whole: Tensors, one: Tensors, two: Tensors, near: float
) -> Array | None:
    """The factors of a gain (d, 1) that explain the difference of all that reads it, if they do.

    `whole` is `one` with what a LayerNorm removes from it.
    """
    if not names:
        return None
    x, y, z = (
        np.concatenate([w[n].reshape(-1, w[n].shape[-1]) for n in names]) for w in (whole, one, two)
    )
    if np.linalg.norm(z - y) <= near * np.linalg.norm(y):
        return None
    mean = 1 / spec.d if spec.norm == "layer" else 0.0
    weights = np.ones(len(x))
    for _ in range(_ROUNDS):
        seen = x * weights[:, None]
        inner, square = (seen * z).sum(axis=0), (seen * x).sum(axis=0) + 1e-300
        gain = (
            np.linalg.solve(np.diag(square) - mean * seen.T @ x, inner) if mean else inner / square
        )
        scaled = x * gain
        scaled -= mean * scaled.sum(axis=1, keepdims=True)
        weights = 1 / (1 + _apart(z, scaled) / near**2)
    after = unlike(z - scaled, y, near) + np.log1p(((gain - 1) ** 2).mean() / near**2)
    return gain[:, None] if after < unlike(z - y, y, near) else None


def _common_basis(one: Basis, a: FloatWeights, b: FloatWeights, near: float) -> Array | None:
    """The basis or scales in which most of what `b` writes and reads agrees with `a`, if any."""
    if one.group not in ("gl", "torus", "planes") or one.ports[0].tensor[1] == "R_K":
        return None
    if a.transformer.latent and one.ports[0].tensor[1] == "W_K":
        return None
    sides: tuple[list[Rows], list[Rows]] = [], []
    for port in one.ports:
        if port.degree and not (port.tensor[1].startswith(_LEFT_OUT)):
            sides[port.reads].append((_by_block(one, port, a), _by_block(one, port, b)))
    read, written = (
        (np.concatenate([x for x, _ in side], -1), np.concatenate([y for _, y in side], -1))
        for side in sides
    )
    degree = max(port.degree for port in one.ports if port.reads)
    found = common(read, written, near, degree)
    if one.plain:
        shape = (*one.copies, -1)
        return found.reshape(shape)
    out = np.tile(np.eye(one.width), (*one.copies, 1, 1))
    out[..., one.start :, one.start :] = found.reshape(*one.copies, *found.shape[1:])
    return out


_LEFT_OUT = ("b_V", "b_up", "b_gate", "c_up", "c_gate")  # biases that are not compared


def _by_block(one: Basis, port: Port, w: FloatWeights) -> Array:
    """Rows (blocks, group, n, m) of a tensor; each block has a basis of its own."""
    value, deep = w(*port.tensor), len(one.copies)
    moved = np.moveaxis(value, port.axis % value.ndim, deep)
    x = moved.reshape(-1, one.width, prod(moved.shape[deep + 1 : -1]), moved.shape[-1])
    x = x.swapaxes(1, 2)
    if one.group == "gl":
        return np.asarray(x[:, :, one.start :])
    if one.group == "planes":
        x = rotary_key(w.transformer.at(port.tensor[0]), x)
    x = x.swapaxes(1, 2)
    return x.reshape(-1, x.shape[2], 1, x.shape[3])
