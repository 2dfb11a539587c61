"""A group element as a file: the turn that maps one reduced checkpoint to another.

A safetensors file with the basis of the stream, and for each layer the order and bases of heads
and the order and signs of units. Reading checks that matrices are orthogonal, factors of modulus
1 and orders permutations; anything else is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from segre.checkpoint.alignment import (
    Freedom,
    LayerAlignment,
    StreamAlignment,
    embedding_freedom,
    free_pooler,
    stream_freedom,
)
from segre.checkpoint.experts import kept_together
from segre.checkpoint.flips import NORMED, SUBLAYERS
from segre.checkpoint.latents import LatentTurn
from segre.checkpoint.layout import Tensors
from segre.checkpoint.planes import turning
from segre.checkpoint.units import signed
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import save_tensors, whole_file
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts, routed

LARGEST = 4 << 30


@dataclass
class Witness:
    """Turns of all parts, as they were found or read."""

    basis: StreamAlignment = field(default_factory=StreamAlignment)
    layers: dict[str, LayerAlignment] = field(default_factory=dict)

    def stream(
        self, _spec: Transformer, _one: Tensors, _two: Tensors, _unembedded: Array | None
    ) -> StreamAlignment:
        """The basis of the stream."""
        return self.basis

    def transform(self, _one: Tensors, _two: Tensors) -> Array | None:
        """The order of the units of a transform."""
        return self.basis.transform

    def pooled(self, _one: Tensors, _two: Tensors) -> tuple[Array | None, Array | None]:
        """The order and signs of the units of a pooler."""
        return self.basis.pooled, self.basis.pooled_signs

    def layer(self, _spec: Transformer, part: str, _one: Tensors, _two: Tensors) -> LayerAlignment:
        """Heads and units of a layer."""
        return self.layers[part]

    def write(self, path: str | Path) -> None:
        """Write the file."""
        out = _named("stream", self.basis)
        if self.basis.embed is not None:
            out |= _named("embeddings", self.basis.embed)
        for part, turn in self.layers.items():
            for name, value in vars(turn).items():
                if isinstance(value, np.ndarray):
                    out[f"{part}.{_in_file(turn, name)}"] = _real(value)
            out |= {f"{part}.{norm}": signs for norm, signs in turn.flips.items()}
            latents = vars(turn.latents) if turn.latents is not None else {}
            for name, value in latents.items():
                if value is not None:
                    out[f"{part}.latents.{name}"] = _real(value)
        contiguous = {name: np.ascontiguousarray(value) for name, value in out.items()}
        with whole_file(path) as temporary:
            save_tensors(contiguous, temporary, {"segre": "witness 1"})

    @classmethod
    def read(cls, path: str | Path, spec: Transformer) -> Witness:
        """Read a file, for checkpoints of an architecture."""
        name = str(path)
        try:
            if Path(path).stat().st_size > LARGEST:
                raise CheckpointError(f"witness {name!r} is too large for a witness file")
            found = load_file(path)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"witness {name!r} cannot be read: {error}") from None
        try:
            out = _checked(found, spec)
        except (KeyError, ValueError, IndexError) as error:
            raise CheckpointError(f"witness {name!r} does not fit this model: {error}") from None
        return out


def _named(name: str, basis: StreamAlignment) -> dict[str, Array]:
    return {f"{name}.{k}": v for k, v in vars(basis).items() if isinstance(v, np.ndarray)}


def _real(value: Array) -> Array:
    return np.stack([value.real, value.imag], axis=-1) if np.iscomplexobj(value) else value


def _checked(found: dict[str, Array], spec: Transformer) -> Witness:
    left = dict(found)

    def take(name: str, shape: tuple[int, ...]) -> Array:
        if name not in left:
            raise ValueError(f"{name} is missing")
        value = left.pop(name)
        if value.shape != shape:
            raise ValueError(f"{name} has shape {list(value.shape)} instead of {list(shape)}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has numbers that are not finite")
        return value

    out = Witness(_checked_stream(take, spec))
    for part in parts(spec)[1:-1]:
        turn = out.layers[part] = _checked_layer(take, spec.at(part), part)
        shapes = part_shapes(spec, part)
        for norm in (*SUBLAYERS, *NORMED):
            name, gain = f"{part}.{norm}", shapes.get(f"{norm}.gain")
            if name in left and gain is not None:  # most models have none
                turn.flips[norm] = _signs(take(name, gain), name)
    if left:
        raise ValueError(f"unknown entry {min(left)}")
    return out


def _checked_stream(take: Any, spec: Transformer) -> StreamAlignment:
    centred = spec.norm == "layer"
    out = _checked_basis(take, "stream", stream_freedom(spec), spec.d, centred=centred)
    if spec.embed:
        freedom = embedding_freedom(spec)
        out.embed = _checked_basis(take, "embeddings", freedom, spec.embed, centred=centred)
    if spec.transform and not spec.tied:
        width = (spec.head_width,)
        out.transform = _permutation(take("stream.transform", width), "stream.transform")
    if free_pooler(spec):
        d = spec.d
        out.pooled = _permutation(take("stream.pooled", (d,)), "stream.pooled")
        out.pooled_signs = _signs(take("stream.pooled_signs", (d,)), "stream.pooled_signs")
    return out


def _checked_basis(
    take: Any, name: str, freedom: Freedom, width: int, *, centred: bool
) -> StreamAlignment:
    out = StreamAlignment()
    if freedom == "orthogonal":
        out.matrix = _orthogonal(take(f"{name}.matrix", (width, width)), f"{name}.matrix")
        if centred and np.abs(out.matrix @ np.ones(width) - 1).max() > 1e-9:
            raise ValueError(f"{name}.matrix does not preserve the mean")
    elif freedom != "none":
        out.order = _permutation(take(f"{name}.order", (width,)), f"{name}.order")
        out.signs = _signs(take(f"{name}.signs", (width,)), f"{name}.signs")
        if freedom == "order and sign" and len(np.unique(out.signs)) > 1:
            raise ValueError(f"{name}.signs are not all the same")
    return out


def _checked_layer(take: Any, spec: Transformer, part: str) -> LayerAlignment:
    kv, group, v = spec.kv, spec.group, spec.dv
    at = f"{part}."
    heads = _permutation(take(f"{at}heads", (kv,)), f"{at}heads")
    order = take(f"{at}queries", (kv, group))
    for row in order:
        _permutation(row, f"{at}queries")
    vo = _orthogonal(take(f"{at}vo", (kv, v, v)), f"{at}vo")
    out = LayerAlignment(heads, order.astype(np.int64), vo)
    if turning(spec):
        pairs = take(f"{at}qk", (kv, turning(spec) // 2, 2))
        out.planes = pairs[..., 0] + 1j * pairs[..., 1]
        if np.abs(np.abs(out.planes) - 1).max() > 1e-9:
            raise ValueError(f"{at}qk does not have modulus 1")
    if spec.still:
        name = f"{at}still" if turning(spec) else f"{at}qk"
        out.basis = _orthogonal(take(name, (kv, spec.still, spec.still)), name)
    if spec.latent:
        out.latents = _checked_latents(take, spec, at)
    if spec.mlp == "none":
        return out
    shape: tuple[int, ...] = (spec.ff,)
    if routed(spec, int(part)):
        shape = (spec.experts, spec.eff)
        experts = take(f"{at}experts", (spec.experts,))
        out.experts = _permutation(experts, f"{at}experts")
        if not kept_together(spec, out.experts):
            raise ValueError(f"{at}experts mixes groups")
        if spec.shared:
            own = take(f"{at}shared", (spec.shared,))
            out.shared = _permutation(own, f"{at}shared")
            own = take(f"{at}shared_signs", (spec.shared,))
            out.shared_signs = _signs(own, f"{at}shared_signs")
    units = take(f"{at}units", shape)
    rows = [_permutation(row, f"{at}units") for row in units.reshape(-1, shape[-1])]
    out.units = np.stack(rows).reshape(shape)
    out.signs = _signs(take(f"{at}signs", shape), f"{at}signs")
    if not signed(spec) and (out.signs < 0).any():
        raise ValueError(f"{at}signs is not allowed for units of this kind")
    return out


def _in_file(turn: LayerAlignment, name: str) -> str:
    """Queries and keys are `qk`; in partially rotary heads, `still` is the other part."""
    if name == "basis" and turn.planes is not None:
        return "still"
    return "qk" if name in ("planes", "basis") else name


def _checked_latents(take: Any, spec: Transformer, at: str) -> LatentTurn:
    name, rank = f"{at}latents.keys", spec.kvrank
    out = LatentTurn(_orthogonal(take(name, (rank, rank)), name))
    if spec.qrank:
        name, rank = f"{at}latents.queries", spec.qrank
        out.queries = _orthogonal(take(name, (rank, rank)), name)
    if spec.rotary_dim:
        name = f"{at}latents.planes"
        pairs = take(name, (spec.rotary_dim // 2, 2))
        out.planes = pairs[..., 0] + 1j * pairs[..., 1]
        if np.abs(np.abs(out.planes) - 1).max() > 1e-9:
            raise ValueError(f"{name} does not have modulus 1")
    return out


def _permutation(value: Array, name: str) -> Array:
    if not np.array_equal(np.sort(value), np.arange(len(value))):
        raise ValueError(f"{name} is not a permutation")
    return value.astype(np.int64)


def _signs(value: Array, name: str) -> Array:
    if not np.isin(value, (-1.0, 1.0)).all():
        raise ValueError(f"{name} are not signs")
    return value


def _orthogonal(matrix: Array, name: str) -> Array:
    gram = matrix @ matrix.swapaxes(-1, -2)
    if np.abs(gram - np.eye(matrix.shape[-1])).max() > 1e-9:
        raise ValueError(f"{name} is not orthogonal")
    return matrix
