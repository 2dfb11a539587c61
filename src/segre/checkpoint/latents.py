"""Latent attention: bases of its latents, and the planes of its rotary key.

A latent passes through an RMSNorm without its gain, which its readers absorb: any orthogonal
matrix before the norm is undone after it. All heads turn against one rotary key, so that a plane
has one factor for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.checkpoint.frame import chosen_basis, weights
from segre.checkpoint.layout import Tensors
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.layers import plane_dimensions
from segre.transformer.spec import Transformer

# By latent: what writes it, and what reads it, normed.
KEYS = ("A_K", ("W_K", "W_V"))
QUERIES = ("A_Q", ("W_Q", "R_Q"))


@dataclass
class LatentTurn:
    """A change of basis of latents and of the planes of the rotary key."""

    keys: Array  # (kvrank, kvrank), orthogonal
    queries: Array | None = None  # (qrank, qrank), orthogonal
    planes: Array | None = None  # (planes,), complex of modulus 1

    @classmethod
    def identity(cls, spec: Transformer) -> LatentTurn:
        """The turn that changes nothing."""
        return cls(
            np.eye(spec.kvrank),
            np.eye(spec.qrank) if spec.qrank else None,
            np.ones(spec.rotary_dim // 2, complex) if spec.rotary_dim else None,
        )

    @classmethod
    def nearest(cls, spec: Transformer, one: Tensors, two: Tensors) -> LatentTurn:
        """The turn that brings latents and rotary key of `two` closest to those of `one`."""
        out = cls.identity(spec)
        out.keys = _nearest(one["A_K"] @ two["A_K"].T)
        if out.queries is not None:
            out.queries = _nearest(one["A_Q"] @ two["A_Q"].T)
        if out.planes is not None:
            a, b = (complex_rows(spec, w["R_K"]) for w in (one, two))
            out.planes = _phases((a * np.conj(b)).sum(axis=-1))
        return out

    @classmethod
    def chosen(cls, spec: Transformer, w: Tensors, slack: float) -> LatentTurn:
        """The turn to the normal form: bases determined by the maps that write the latents."""
        out = cls.identity(spec)
        out.keys = chosen_basis(w["A_K"], slack)
        if out.queries is not None:
            out.queries = chosen_basis(w["A_Q"], slack)
        if out.planes is not None:
            rows = complex_rows(spec, w["R_K"])
            sums = rows @ weights(rows.shape[-1])
            phases = np.conj(_phases(sums))
            near = np.abs(phases - 1) * np.abs(sums) <= slack * np.linalg.norm(rows, axis=-1)
            out.planes = np.where(near, 1.0, phases)
        return out

    def apply(self, spec: Transformer, w: Tensors) -> None:
        """Act on the tensors of a layer, in place."""
        for matrix, (source, readers) in ((self.keys, KEYS), (self.queries, QUERIES)):
            if matrix is not None:
                w[source] = matrix @ w[source]
                for name in readers:
                    if name in w:
                        w[name] = w[name] @ matrix.T
        if self.planes is not None:
            turn_planes(spec, w, self.planes)


def turn_planes(spec: Transformer, w: Tensors, factors: Array) -> None:
    """Multiply the planes of the key, and divide those of all queries by the conjugates."""
    for name, by in (("R_K", factors), ("R_Q", 1 / np.conj(factors))):
        _set_rows(spec, w, name, complex_rows(spec, w[name]) * by[:, None])


def complex_rows(spec: Transformer, rows: Array) -> Array:
    """Rows that turn (..., rotary, n), as complex rows (..., planes, n)."""
    first, second = plane_dimensions(spec)
    return rows[..., first, :] + 1j * rows[..., second, :]


def _set_rows(spec: Transformer, w: Tensors, name: str, to: Array) -> None:
    first, second = plane_dimensions(spec)
    w[name] = np.empty(w[name].shape)
    w[name][..., first, :], w[name][..., second, :] = to.real, to.imag


def _phases(numbers: Array) -> Array:
    size = np.abs(numbers)
    return np.asarray(np.where(size > 0, numbers / np.where(size > 0, size, 1), 1), complex)


def _nearest(inner: Array) -> Array:
    with threads_for(inner.shape[-1]):
        a, _, bh = np.linalg.svd(inner)
        return np.asarray(a @ bh)
