"""The gauge of what did not change: two checkpoints brought together by what they share.

The nearest gauge spreads a change over everything that could hide it. Here bases and scales are
fitted again and again, each time with less weight on what does not agree: rows of the stream for
its basis; for heads and units, directions of the difference, so that a change of low rank drops
out. A fit counts only where enough agrees to within rounding; otherwise the nearest gauge stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from segre.checkpoint.align import NEAR, Alignment, Known
from segre.checkpoint.alignment import StreamAlignment, stream_freedom
from segre.checkpoint.fits import Rows, common, rounding_noise, spectrum, unlike
from segre.checkpoint.heads import unbalance
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import best_stream, stream_rows
from segre.checkpoint.nearest import norm_readers
from segre.checkpoint.norm_gauge import away_from
from segre.checkpoint.pairs import Centred, Finder, aligned_pairs
from segre.checkpoint.planes import free_key_biases, keys, met_keys, planes, queries, still, turning
from segre.checkpoint.reduce import GaugeChoice, Reduced
from segre.checkpoint.sublayers import SUBLAYERS, free_mean
from segre.checkpoint.units import DEGREE, kinds, scale_units, scaled
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

_ROUNDS = 12  # of fitting, at most
_ENOUGH = 2  # times as many rows as coordinates determine the basis


class Steady(Alignment):
    """Moves `two` into the gauge of `one`, by what is the same in both."""

    normed: tuple[Array | None, Array | None] = (None, None)  # of the stream: gain and bias

    @property
    def _near(self) -> float:
        return NEAR * max(self.one.roundoff(), self.two.roundoff())

    def _finder(self) -> Finder:
        spec = self.one.spec
        if stream_freedom(spec) != "orthogonal" or spec.embed:
            return super()._finder()
        a, b = next(aligned_pairs(self.one, self.two, finder := Centred()))
        tables = list(stream_rows(spec, a.tensors, b.tensors, gains=False))
        found = self._settle(finder.basis, lambda: iter(tables))
        if found is None:
            found = self._settle(finder.basis)
        return super()._finder() if found is None else Known(found)

    def _settle(
        self, basis: StreamAlignment, rows: Callable[[], Iterator[Rows]] | None = None
    ) -> StreamAlignment | None:
        """The basis in which enough rows agree: of tables in `basis`, or of all parts."""
        spec, turn, last = self.one.spec, StreamAlignment.identity(self.one.spec), np.inf
        for _ in range(_ROUNDS):
            inner, every = np.zeros((spec.d, spec.d)), []
            for a, b in rows() if rows else self._rows(turn.after(basis)):
                found = turn.read(b) if rows else b
                apart = _apart(a, found)
                every.append(apart)
                inner += (a / (1 + apart / self._near**2)[:, None]).T @ found
            apart = np.sort(np.concatenate(every))
            rest = float(apart[_ENOUGH * spec.d]) if len(apart) > _ENOUGH * spec.d else np.inf
            if rest > last / 2 or rest == np.inf:
                break
            last = rest
            turn = best_stream(spec, inner).after(turn)
        return turn.after(basis) if rest <= (2 * self._near) ** 2 else None

    def _rows(self, basis: StreamAlignment) -> Iterator[Rows]:
        for done, (a, b) in enumerate(aligned_pairs(self.one, self.two, Known(basis))):
            self.progress("basis of the stream", done, len(self.one.parts))
            free = "QKVO" if self.one.spec.mlp != "none" else ""  # heads have bases of their own
            own = {name: value for name, value in a.tensors.items() if name[2:] not in {*free}}
            yield from stream_rows(self.one.spec, own, b.tensors, gains=False)

    def _choice(self, one: Reduced, two: Reduced, target: Tensors) -> GaugeChoice:
        a, b, like = dict(one.tensors), two.tensors, one.choice
        spec = self.two.spec.at(two.part)
        readers = {norm: _readers(spec, two.part, norm, b) for norm in like.norms.gains}
        whole = a if spec.norm == "rms" else _with_means(spec, target, like, readers)
        gains: Tensors = {}
        for _ in range(2):  # heads that read a norm can be compared once its gain is known
            seen = dict(b)
            for norm, gain in gains.items():
                for name in readers[norm]:
                    seen[name] = b[name] / gain.T
                    if spec.norm == "layer":
                        seen[name] = seen[name] - seen[name].mean(axis=-1, keepdims=True)
            _steady_layer(spec, a, seen, b, like, self._near)
            gains = {}
            for norm, names in readers.items():
                found = _changed_gain(spec, names, whole, a, b, self._near)
                if found is not None:
                    gains[norm] = found
            if not gains:
                break
        nearest = super()._choice(one, two, target)
        own = {norm: gain * gains.get(norm, 1.0) for norm, gain in like.norms.gains.items()}
        norms = replace(nearest.norms, gains=own)
        return replace(nearest, norms=norms, heads=like.heads, units=like.units, shared=like.shared)

    def _restored(self, part: str, new: Tensors, target: Tensors) -> None:
        spec = self.two.spec.at(part)
        if spec.norm == "layer" and not spec.embed and part not in ("embed", "head"):
            for norm in SUBLAYERS:
                gain, shift = (new.get(f"{norm}.{kind}") for kind in ("gain", "bias"))
                if gain is None:  # the stream was normed before
                    gain, shift = self.normed if norm == "norm1" else _norm(new, "post1")
                if gain is not None:
                    _steady_reads(spec, part, norm, away_from(gain), shift, new, target, self._near)
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
    centred = float(free_mean(spec, "b_O", last=True))
    for name, bias in norm_readers(spec, part, norm).items():
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


def _readers(spec: Transformer, part: str, norm: str, w: Tensors) -> list[str]:
    """The tensors that absorb the gain of a norm."""
    if part == "head":
        return ["W_U"] if norm == "norm" and "W_U" in w and not spec.transform else []
    return [name for name in norm_readers(spec, part, norm) if name in w]


def _with_means(
    spec: Transformer, target: Tensors, like: GaugeChoice, readers: dict[str, list[str]]
) -> Tensors:
    """A part that is reduced, except that its readers have what a LayerNorm never passes on."""
    out = dict(target)
    for norm, names in readers.items():
        out |= {name: out[name] * like.norms.gains[norm].T for name in names}
    if like.heads is not None:
        vo, basis, scales = like.heads.vo, like.heads.basis, like.heads.planes
        inverse = replace(like.heads, vo=np.linalg.inv(vo), bias=None)
        inverse.basis = None if basis is None else np.linalg.inv(basis)
        inverse.planes = None if scales is None else 1 / scales
        unbalance(spec, out, inverse)
    if like.units is not None:
        scale_units(spec, out, 1 / like.units)
    return out


def _changed_gain(
    spec: Transformer, names: list[str], whole: Tensors, one: Tensors, two: Tensors, near: float
) -> Array | None:
    """The factors of a gain (d, 1) that explain the difference of all that reads it, if they do.

    `whole` is `one` with what a LayerNorm removes from it.
    """
    if not names:
        return None
    x, y, z = (np.concatenate([w[n].reshape(-1, spec.d) for n in names]) for w in (whole, one, two))
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


def _steady_layer(
    spec: Transformer, one: Tensors, seen: Tensors, two: Tensors, like: GaugeChoice, near: float
) -> None:
    """Bases of heads and scales of units of `two`, in place, in which `seen` agrees with `one`."""
    both = one, seen
    if like.heads is not None:
        gauge = replace(like.heads, bias=None, planes=None, basis=None)
        if gauge.gains is not None and gauge.signs is not None:
            signs = np.ones_like(gauge.signs[0]), np.ones_like(gauge.signs[1])
            gauge = replace(gauge, gains=np.ones_like(gauge.gains), signs=signs)
        a, b, c, d = (*(w["W_V"] for w in both), *(w["W_O"].swapaxes(-1, -2) for w in both))
        gauge.vo = common((a, b), (c, d), near)
        if turning(spec) and not spec.qknorm:
            a, b, c, d = (_by_plane(spec, of(w)) for of in (keys, queries) for w in both)
            gauge.planes = common((a, b), (c, d), near).reshape(len(gauge.vo), -1)
        if spec.still and not spec.qknorm and not spec.latent:
            a, b = (still(spec, met_keys(spec, w)) for w in both)
            c, d = (still(spec, queries(w)) for w in both)
            gauge.basis = common((a, b), (c, d), near)
        unbalance(spec, two, gauge)
    for kind in kinds(two) if scaled(spec) else ():
        up, down = f"{kind}_up", f"{kind}_down"
        every = (*(w[up] for w in both), *(w[down].swapaxes(-1, -2) for w in both))
        a, b, c, d = (x.reshape(-1, 1, 1, x.shape[-1]) for x in every)
        found = common((a, b), (c, d), near, DEGREE.get(spec.mlp, 1))
        scale_units(spec, two, found.reshape(two[up].shape[:-1]), kind)


def _by_plane(spec: Transformer, rows: Array) -> Array:
    """Complex rows (kv, group, planes, d), each plane as a block."""
    x = planes(spec, rows).swapaxes(1, 2)
    return x.reshape(-1, x.shape[2], 1, x.shape[3])
