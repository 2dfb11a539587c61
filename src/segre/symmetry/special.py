"""Symmetries of a kind that only one place of a transformer has."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.balance import DEFICIENT
from segre.symmetry.basis import Basis
from segre.symmetry.piece import ModularWeights
from segre.symmetry.reach import annihilator
from segre.symmetry.space import (
    Bias,
    FloatWeights,
    Freedom,
    Tensor,
    Weights,
    inverse_gain,
    tensors_of,
    unit_shift,
)
from segre.symmetry.wiring import Norm


@dataclass(frozen=True)
class Mean(Freedom):
    """A constant in all entries of a tensor; the `last` bias takes it back, or nothing sees it."""

    source: Tensor
    last: Tensor | None = None
    often: tuple[int, int] = (1, 1)  # how often each is added to the stream

    def __call__(self, w: ModularWeights) -> Array:
        """The generator."""
        canvas = w.canvas(1)
        canvas(*self.source)[0] = w.field.reduce(self._shift(w))
        if self.last is not None:
            canvas(*self.last)[0] = -self.often[0]
        return canvas.rows

    def _shift(self, w: Weights) -> Array:
        """What the entries of the source change by, where the stream moves by one."""
        return np.ones(1) if self.last is None else self.often[1] * unit_shift(w, self.source)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Of the size of the tensor."""
        return np.asarray(w.size(self.source) * rng.standard_normal(1))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add to all entries of one, and take it back from the other."""
        if self.source in w.tensors:
            w.tensors[self.source] = w(*self.source) + self._shift(w) * element
        if self.last is not None and self.last in w.tensors:
            w.tensors[self.last] = w(*self.last) - self.often[0] * element

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """One, or both."""
        return (self.source,) if self.last is None else (self.source, self.last)


@dataclass(frozen=True)
class UnseenShift(Freedom):
    """Tokens shift against another table along 1 / gain of the norm before a tied table.

    There a LayerNorm's output is constant, so that all logits of a token change alike; the bias of
    the logits takes the constant back.
    """

    table: Tensor
    site: Norm

    def __call__(self, w: ModularWeights) -> Array:
        """The generator."""
        canvas = w.canvas(1)
        for tensor, change in self._changes(w):
            canvas(*tensor)[0] = change
        return w.field.reduce(canvas.rows)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """A shift of the size of the other table's entries."""
        size = w.size(self.table) / float(np.linalg.norm(inverse_gain(w, self.site)))
        return np.asarray(size * rng.standard_normal(1))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Shift both tables, and the bias of the logits."""
        for tensor, change in self._changes(w):
            if tensor in w.tensors:
                w.tensors[tensor] = w(*tensor) + element * change

    def _changes(self, w: Weights) -> list[tuple[Tensor, Array]]:
        F, spec, form = w.field, w.transformer, inverse_gain(w, self.site)
        scale = F.surd(spec.d) if spec.embscale else np.ones((1, 1))
        out = [(("embed", "tokens"), form), (self.table, -F.mul(form, scale))]
        if self.site.bias is not None:
            value = F.sum(F.mul(form, w("head", self.site.bias)), axis=-2)
            out.append((("head", "b_U"), -value))
        return out

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Both tables, and the bias of the logits."""
        bias = () if self.site.bias is None else (("head", "b_U"),)
        return (("embed", "tokens"), self.table, *bias)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """The norm."""
        return tensors_of(self.site)


@dataclass(frozen=True)
class CommonForm(Freedom):
    """x + e 1 (m(x) - k) instead of x, for the form m that is k on all that a norm writes.

    Layers that share their weights read embeddings and what their last norm writes. The elements
    are the factors by which m grows.
    """

    shear: Basis
    site: Norm
    source: Tensor | None  # the bias of the embeddings

    def __call__(self, w: ModularWeights) -> Array:
        """The generator."""
        F, form = w.field, inverse_gain(w, self.site).T
        rows = F.matmul(form, self.shear(w))
        if self.site.bias is None:
            return rows
        canvas, kappa = w.canvas(1), F.matmul(form, w(self.site.part, self.site.bias))
        for port in self.shear.ports:
            if port.reads and port.bias is not None:
                sums = F.sum(w(*port.tensor), axis=-1)
                canvas(*port.bias.tensor)[0] = F.mul(sums, kappa)
        if self.source is not None:
            canvas(*self.source)[0] = -F.mul(kappa, unit_shift(w, self.source))
        return F.add(rows, canvas.rows)

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:  # noqa: ARG002
        """A factor."""
        return np.exp(rng.uniform(-0.7, 0.7, 1))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Change what is written, and let readers take it back."""
        form = inverse_gain(w, self.site).T
        by, kappa = (element - 1) / form.sum(), np.zeros(1)
        if self.site.bias is not None:
            kappa = (form @ w(self.site.part, self.site.bias))[0]
        for port in self.shear.ports:
            if port.tensor not in w.tensors:
                continue
            value = w(*port.tensor)
            if not port.reads:
                constant = kappa * unit_shift(w, port.tensor) if port.tensor == self.source else 0.0
                w.tensors[port.tensor] = value + by * (form @ value - constant)
                continue
            sums = value.sum(axis=-1, keepdims=True)
            w.tensors[port.tensor] = value - (by / element) * (sums @ form)
            if port.bias is not None and port.bias.tensor in w.tensors:
                bias = w(*port.bias.tensor)
                w.tensors[port.bias.tensor] = bias + (by / element) * kappa * sums

    def inverse(self, element: Array) -> Array:
        """The inverse factor."""
        return np.asarray(1 / element)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What is written, and readers with their biases."""
        biases = (p.bias.tensor for p in self.shear.ports if p.bias is not None)
        return (*self.shear.tensors, *biases)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """The norm."""
        return tensors_of(self.site)


@dataclass(frozen=True)
class ValueKernel(Freedom):
    """Value biases (or, after a LayerNorm, values) whose sum over all heads writes nothing."""

    part: str
    source: Bias
    shape: tuple[int, int]  # key-value heads, and entries of a value
    centred: bool  # the mean of what is written has no effect

    def __call__(self, w: ModularWeights) -> Array:
        """The generators."""
        F, (kv, dv) = w.field, self.shape
        forms = annihilator(F, F.reduce(self._written(w)))
        canvas = w.canvas(len(forms))
        self.source.add(w, canvas(*self.source.tensor), forms.reshape(-1, kv, 1, dv))
        return canvas.rows

    def _written(self, w: Weights) -> Array:
        """What the values of all heads write: (d, kv * v)."""
        joint = w(self.part, "W_O").sum(axis=1)
        joint = joint.swapaxes(0, 1).reshape(-1, prod(self.shape))
        return np.asarray(joint[1:] - joint[:1] if self.centred else joint)

    def unwritten(self, w: FloatWeights, value: Array) -> Array:
        """The part of values (kv, 1, v) that writes nothing."""
        _, sigma, rows = np.linalg.svd(self._written(w), full_matrices=False)
        rows = rows[sigma > DEFICIENT * sigma[0]]
        flat = value.reshape(-1, 1)
        return np.asarray((flat - rows.T @ (rows @ flat)).reshape(value.shape))

    def draw(self, rng: np.random.Generator, w: FloatWeights) -> Array:
        """Any values, of which the part that writes nothing acts."""
        size = w.size(self.source.tensor)
        return size * rng.standard_normal((self.shape[0], 1, self.shape[1]))

    def act(self, w: FloatWeights, element: Array) -> None:
        """Add what writes nothing."""
        if self.source.tensor in w.tensors:
            value = w.tensors[self.source.tensor] = w(*self.source.tensor).copy()
            self.source.add(w, value, self.unwritten(w, element))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The biases."""
        return (self.source.tensor,)

    @property
    def needed(self) -> tuple[Tensor, ...]:
        """Norms that carry constants."""
        return self.source.needed
