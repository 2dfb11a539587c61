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
from segre.checkpoint.heads import unbalance
from segre.checkpoint.layout import Tensors
from segre.checkpoint.match import best_stream, stream_rows
from segre.checkpoint.nearest import norm_readers
from segre.checkpoint.pairs import Centred, Finder, aligned_pairs
from segre.checkpoint.planes import keys, met_keys, planes, queries, still, turning
from segre.checkpoint.reduce import GaugeChoice, Reduced
from segre.checkpoint.units import DEGREE, SHARED, UNITS, kinds, scale_units, scaled
from segre.fields.interface import Array
from segre.transformer.spec import Transformer

_ROUNDS, _FITS = 12, 100  # at most: of fitting the basis of the stream; of heads and units
_ENOUGH = 2  # times as many rows as coordinates determine the basis
_STEP = 0.9  # a fit helps if it leaves less of the squares than this
_MOST = 128  # columns are enough for one scale; of more, random combinations are compared

Rows = tuple[Array, Array]  # of both: (blocks, group, n, m), where each block has a basis of its own


class Steady(Alignment):
    """Moves `two` into the gauge of `one`, by what is the same in both."""

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
            yield from stream_rows(self.one.spec, a.tensors, b.tensors, gains=False)

    def _choice(self, one: Reduced, two: Reduced, target: Tensors) -> GaugeChoice:
        a, b, like = dict(one.tensors), two.tensors, one.choice
        spec = self.two.spec.at(two.part)
        readers = {norm: _readers(spec, two.part, norm, b) for norm in like.norms.gains}
        whole = a if spec.norm == "rms" else _with_means(spec, target, like, readers)
        gains: Tensors = {}
        for _ in range(2):  # heads that read a norm can be compared once its gain is known
            divided = {**b}
            for norm, gain in gains.items():
                divided |= {name: b[name] / gain.T for name in readers[norm]}
            _steady_layer(spec, a, divided, like, self._near)
            for norm, gain in gains.items():
                divided |= {name: divided[name] * gain.T for name in readers[norm]}
            b.update(divided)
            gains = {}
            for norm, names in readers.items():
                found = _changed_gain(spec, names, whole, a, b, self._near)
                if found is not None:
                    gains[norm] = found
            if not gains:
                break
        nearest = super()._choice(one, two, target)
        own = {norm: gain * gains.get(norm, 1.0) for norm, gain in like.norms.gains.items()}
        reads = dict(nearest.norms.reads)
        for norm in gains:
            for name in readers[norm]:
                if name in reads:
                    reads[name] = (target[name] * own[norm].T).sum(-1, keepdims=True) / spec.d**0.5
        norms = replace(nearest.norms, gains=own, reads=reads)
        return replace(nearest, norms=norms, heads=like.heads, units=like.units, shared=like.shared)


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
        vo, basis = (None if g is None else np.linalg.inv(g) for g in (like.heads.vo, like.heads.basis))
        scales = None if like.heads.planes is None else 1 / like.heads.planes
        unbalance(spec, out, replace(like.heads, vo=vo, basis=basis, planes=scales, bias=None))
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
    before = _unlike(z - y, y, near)
    mean = 1 / spec.d if spec.norm == "layer" else 0.0
    weights = np.ones(len(x))
    for _ in range(_ROUNDS):
        seen = x * weights[:, None]
        square = np.diag((seen * x).sum(axis=0)) - mean * seen.T @ x
        gain = np.linalg.lstsq(square, (seen * z).sum(axis=0), rcond=None)[0]
        scaled = x * gain
        scaled -= mean * scaled.sum(axis=1, keepdims=True)
        weights = 1 / (1 + _apart(z, scaled) / near**2)
    after = _unlike(z - scaled, y, near) + np.log1p(((gain - 1) ** 2).mean() / near**2)
    return gain[:, None] if after < before else None


def _steady_layer(
    spec: Transformer, one: Tensors, two: Tensors, like: GaugeChoice, near: float
) -> None:
    """Bases of heads and scales of units of `two`, in place, fitted to what agrees with `one`."""
    if like.heads is not None:
        gauge = replace(like.heads, bias=None, planes=None, basis=None)
        if gauge.gains is not None and gauge.signs is not None:
            signs = np.ones_like(gauge.signs[0]), np.ones_like(gauge.signs[1])
            gauge = replace(gauge, gains=np.ones_like(gauge.gains), signs=signs)
        gauge.vo = _common(
            (one["W_V"], two["W_V"]),
            (one["W_O"].swapaxes(-1, -2), two["W_O"].swapaxes(-1, -2)),
            near,
        )
        if turning(spec) and not spec.qknorm:
            by = _common(*(_by_plane(spec, of(one), of(two)) for of in (keys, queries)), near)
            gauge.planes = by.reshape(len(gauge.vo), -1)
        if spec.still and not spec.qknorm and not spec.latent:
            met = still(spec, met_keys(spec, one)), still(spec, met_keys(spec, two))
            asked = still(spec, queries(one)), still(spec, queries(two))
            gauge.basis = _common(met, asked, near)
        unbalance(spec, two, gauge)
    for kind in kinds(two) if scaled(spec) else ():
        up = one[f"{kind}_up"], two[f"{kind}_up"]
        down = (w[f"{kind}_down"].swapaxes(-1, -2) for w in (one, two))
        rows = [tuple(x.reshape(-1, 1, 1, x.shape[-1]) for x in pair) for pair in (up, down)]
        found = _common(rows[0], rows[1], near, DEGREE.get(spec.mlp, 1))
        scale_units(spec, two, found.reshape(up[0].shape[:-1]), kind)


def _by_plane(spec: Transformer, one: Array, two: Array) -> Rows:
    """Complex rows (kv, group, planes, d), each plane as a block."""
    both = (planes(spec, x).swapaxes(1, 2) for x in (one, two))
    a, b = (x.reshape(-1, x.shape[2], 1, x.shape[3]) for x in both)
    return a, b


def _common(read: Rows, written: Rows, near: float, degree: int = 1) -> Array:
    """Bases (blocks, n, n) in which what is read and written agrees in most directions.

    What is read is multiplied by them, and what is written (as rows) by inverse conjugates.
    """

    def other(g: Array) -> Array:
        if degree != 1:
            return np.asarray(np.abs(g) ** -float(degree))
        return np.linalg.inv(g).conj().swapaxes(-1, -2)

    def one(g: Array) -> Array:
        return other(g) if degree == 1 else np.asarray(np.abs(g) ** (-1 / degree))

    same = np.broadcast_to(np.eye(read[0].shape[2]), (len(read[0]), *2 * read[0].shape[2:3]))
    known = [same]
    for pair, to in ((read, lambda g: g), (written, one)):
        if (found := _fitted(*pair, near)) is not None:
            known.append(to(found))
    if len(known) == 1:
        return np.array(same)
    unlike = [
        _unlike(g[:, None] @ read[1] - read[0], read[0], near)
        + _unlike(other(g)[:, None] @ written[1] - written[0], written[0], near)
        for g in known
    ]
    return np.array(known[int(np.argmin(unlike))])


def _fitted(one: Array, two: Array, near: float) -> Array | None:
    """Bases in which `two` is `one` but for a few directions; None if there are none.

    The directions in which both differ most are left out, and the bases fitted to the rest: as
    often as this helps, with twice as many directions each time.
    """
    n, m = one.shape[2:]
    if m > (most := max(4 * n, _MOST)):
        drawn = np.random.default_rng(0).standard_normal((m, most)) / most**0.5
        one, two, m = one @ drawn, two @ drawn, most
    directions, noise = np.zeros((m, 0)), _noise(one, near)
    for rank in (0, *(2**k for k in range(m.bit_length()) if 2 ** (k + 1) <= m - n)):
        last = np.inf
        for _ in range(_FITS if rank else 1):
            basis = _least_squares(*(x - (x @ directions) @ directions.T for x in (one, two)))
            squares, every = _spectrum(basis[:, None] @ two - one)
            directions, rest = every[:, m - rank :], float(squares[m - rank - 1])
            if rest > _STEP * last:
                break
            last = rest
        if rest <= noise**2:
            return basis
        directions = every[:, m - max(1, 2 * rank) :]
    return None


def _least_squares(one: Array, two: Array) -> Array:
    """Bases that bring `two` nearest to `one`; what is 0 stays as it is."""
    seen = two.conj().swapaxes(-1, -2)
    inner, square = (one @ seen).sum(axis=1), (two @ seen).sum(axis=1)
    trace = np.trace(square, axis1=-1, axis2=-2).real[:, None, None]
    ridge = (1e-14 * trace + 1e-300) * np.eye(square.shape[-1])
    return np.asarray((inner + ridge) @ np.linalg.inv(square + ridge))


def _spectrum(difference: Array) -> tuple[Array, Array]:
    """Squares of singular values of (blocks, group, n, m), as one matrix, and directions (m, m)."""
    rows = difference.reshape(-1, difference.shape[-1])
    if np.iscomplexobj(rows):
        rows = np.concatenate([rows.real, rows.imag])
    squares, directions = np.linalg.eigh(rows.T @ rows)
    return squares.clip(0), directions


def _noise(of: Array, near: float) -> float:
    """The largest singular value that rounding gives, as a matrix."""
    rows, columns = of[..., 0].size * (1 + np.iscomplexobj(of)), of.shape[-1]
    return float(near * np.linalg.norm(of) * (rows**-0.5 + columns**-0.5))


def _unlike(difference: Array, of: Array, near: float) -> float:
    """In how many directions, weighed by the logarithm of their size, something differs."""
    return float(np.log1p(_spectrum(difference)[0] / _noise(of, near) ** 2).sum())
