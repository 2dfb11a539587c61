"""A group element as a file: what maps one reduced checkpoint to another.

A safetensors file with the basis of the stream, and for each layer the order and bases of heads
and the order and signs of units. Reading checks that matrices are orthogonal, factors of modulus
1 and orders permutations; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import save_tensors, whole_file
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, of_layer, of_stream
from segre.symmetry.orders import Order
from segre.symmetry.space import rotary_planes
from segre.symmetry.wiring import layer_parts
from segre.transformer.spec import Transformer

LARGEST = 4 << 30
TOLERANCE = 1e-9
OF_HEAD = ("transform", "pooled")
GAINS = ("post1", "post2", "normq", "normk")  # most models have none whose sign is not sure
UNSIGNED = ("signs", "shared_signs")  # older files have them for units without signs
Take = Callable[[str, tuple[int, ...]], Array]


@dataclass
class Witness:
    """Elements for all parts, as they were found or read."""

    basis: Elements = field(default_factory=dict)  # of the stream
    head: Elements = field(default_factory=dict)  # of units between the stream and the logits
    layers: dict[str, Elements] = field(default_factory=dict)
    spec: Transformer | None = None

    def write(self, path: str | Path) -> None:
        """Write the file."""
        assert self.spec is not None
        out = {}
        for place, name, one in _named(self.spec):
            own = self.basis | self.head if place == "stream" else self.layers[place]
            if name in own or name not in GAINS:
                arrays = _arrays(one, own[name] if name in own else one.identity(self.spec))
                for label, value in zip(_label(place, name, one), arrays, strict=True):
                    if value is not None:
                        out[label] = np.ascontiguousarray(value)
        with whole_file(path) as temporary:
            save_tensors(out, temporary, {"segre": "witness 1"})

    @classmethod
    def read(cls, path: str | Path, spec: Transformer) -> Self:
        """Read a file, for checkpoints of an architecture."""
        name = str(path)
        try:
            if Path(path).stat().st_size > LARGEST:
                raise CheckpointError(f"witness {name!r} is too large for a witness file")
            found = load_file(path)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"witness {name!r} cannot be read: {error}") from None
        try:
            out = cls(spec=spec, layers={part: {} for part in layer_parts(spec)})
            _fill(out, found, spec)
        except (KeyError, ValueError, IndexError) as error:
            raise CheckpointError(f"witness {name!r} does not fit this model: {error}") from None
        return out


def _named(spec: Transformer) -> Iterator[tuple[str, str, Basis | Order]]:
    """All that acts: the stream or a layer, its name there, and its group."""
    for name, one in of_stream(spec).items():
        yield "stream", name, one
    for part in layer_parts(spec):
        for name, one in of_layer(spec, part).items():
            yield part, name, one


def _label(place: str, name: str, one: Basis | Order) -> tuple[str, str]:
    """What orders or matrices are called in the file, and what signs are called."""
    if name in ("stream", "embeddings"):
        return f"{name}.{'matrix' if isinstance(one, Basis) else 'order'}", f"{name}.signs"
    label = f"{place}.{name}"
    signs_alone = isinstance(one, Order) and one.kind == "signs"
    return label, label if signs_alone else f"{label}_signs"


def _arrays(one: Basis | Order, element: Array) -> tuple[Array | None, Array | None]:
    """An element as arrays of the file: orders, factors or matrices; and signs."""
    if isinstance(one, Order):
        order = element[0].astype(np.int64) if "order" in one.kind else None
        return order, element[1] if "sign" in one.kind else None
    if one.group == "planes":
        return np.stack([element.real, element.imag], axis=-1), None
    return element[..., one.start :, one.start :], None


def _fill(out: Witness, found: dict[str, Array], spec: Transformer) -> None:
    """Check the arrays of a file, and put their elements into a witness."""
    left = dict(found)

    def take(name: str, shape: tuple[int, ...]) -> Array:
        if name not in left:
            raise ValueError(f"{name} is missing")
        value = left.pop(name)
        if value.shape not in (shape, (*shape, 1)):
            raise ValueError(f"{name} has shape {list(value.shape)} instead of {list(shape)}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has numbers that are not finite")
        return value.reshape(shape)

    for place, name, one in _named(spec):
        label = _label(place, name, one)
        if name not in GAINS or label[0] in left:
            of_stream = out.head if name in OF_HEAD else out.basis
            own = of_stream if place == "stream" else out.layers[place]
            if isinstance(one, Order):
                own[name] = _order(one, label, take)
            else:
                own[name] = _basis(spec, one, label[0], take)
    for name in [name for name in left if name.partition(".")[2] in UNSIGNED]:
        if (left.pop(name) != 1).any():
            raise ValueError(f"{name} is not allowed for units of this kind")
    if left:
        raise ValueError(f"unknown entry {min(left)}")


def _order(one: Order, label: tuple[str, str], take: Take) -> Array:
    """Orders and signs from the arrays of a file, if they are of the group."""
    shape, order, signs = (*one.copies, one.width), None, None
    if "order" in one.kind:
        order = take(label[0], shape)
        if (np.sort(order, axis=-1) != np.arange(one.width)).any():
            raise ValueError(f"{label[0]} is not a permutation")
        groups = order.reshape(-1, one.blocks) // one.blocks
        if (groups != groups[:, :1]).any():
            raise ValueError(f"{label[0]} mixes groups")
    if "sign" in one.kind:
        signs = take(label[1], shape)
        if not np.isin(signs, (-1.0, 1.0)).all():
            raise ValueError(f"{label[1]} are not signs")
        if one.kind == "order and one sign" and np.ptp(signs):
            raise ValueError(f"{label[1]} are not all the same")
    return one.of(order, signs)


def _basis(spec: Transformer, one: Basis, name: str, take: Take) -> Array:
    """Factors or matrices from an array of a file, if they are of the group."""
    free = one.width - one.start
    if one.group == "planes":
        pairs = take(name, (*one.copies, len(rotary_planes(spec, one.turning)), 2))
        factors = pairs[..., 0] + 1j * pairs[..., 1]
        if np.abs(np.abs(factors) - 1).max() > TOLERANCE:
            raise ValueError(f"{name} does not have modulus 1")
        return np.asarray(factors)
    matrix = take(name, (*one.copies, free, free))
    if np.abs(matrix @ matrix.swapaxes(-1, -2) - np.eye(free)).max() > TOLERANCE:
        raise ValueError(f"{name} is not orthogonal")
    if one.group == "o1" and np.abs(matrix @ np.ones(free) - 1).max() > TOLERANCE:
        raise ValueError(f"{name} does not preserve the mean")
    out = one.identity(spec)
    out[..., one.start :, one.start :] = matrix
    return out
