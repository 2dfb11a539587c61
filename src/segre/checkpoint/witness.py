"""A group element as a file: what maps one reduced checkpoint to another.

A safetensors file with the basis of the stream, and for each layer the order and bases of heads
and the order and signs of units. Reading checks that matrices are orthogonal, factors of modulus
1 and orders permutations; anything else is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from segre.checkpoint.layout import Tensors
from segre.errors import CheckpointError
from segre.fields.interface import Array
from segre.files import save_tensors, whole_file
from segre.symmetry.basis import Basis
from segre.symmetry.compact import Elements, act, of_layer, of_stream
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

    def stream(
        self, _spec: Transformer, _one: Tensors, _two: Tensors, _unembedded: Array | None
    ) -> Elements:
        """The basis of the stream."""
        return self.basis

    def units(self, spec: Transformer, _one: Tensors, two: Tensors) -> None:
        """Bring the units of the head of `two` near to those of another model, in place."""
        act(spec, "head", self.head, two, stream=True)

    def layer(self, spec: Transformer, part: str, _one: Tensors, two: Tensors) -> None:
        """Bring heads and units of a layer of `two` near to those of another model, in place."""
        act(spec, part, self.layers[part], two)

    def write(self, path: str | Path) -> None:
        """Write the file."""
        assert self.spec is not None
        out = {}
        for place, name, one in _named(self.spec):
            own = self.basis | self.head if place == "stream" else self.layers[place]
            if name in own or name not in GAINS:
                element = own[name] if name in own else one.identity(self.spec)
                for label, value in _arrays(one, element, _label(place, name, one)):
                    out[label] = np.ascontiguousarray(value)
        with whole_file(path) as temporary:
            save_tensors(out, temporary, {"segre": "witness 1"})

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


def _arrays(
    one: Basis | Order, element: Array, label: tuple[str, str]
) -> Iterator[tuple[str, Array]]:
    """An element as arrays of the file."""
    if isinstance(one, Order):
        if "order" in one.kind:
            yield label[0], element[0].astype(np.int64)
        if "sign" in one.kind:
            yield label[1], element[1]
    elif one.group == "planes":
        yield label[0], np.stack([element.real, element.imag], axis=-1)
    else:
        yield label[0], element[..., one.start :, one.start :]


def _checked(found: dict[str, Array], spec: Transformer) -> Witness:
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

    out = Witness(layers={part: {} for part in layer_parts(spec)}, spec=spec)
    for place, name, one in _named(spec):
        label = _label(place, name, one)
        if name in GAINS and label[0] not in left:
            continue
        element = _element(spec, one, label, take)
        own = out.head if name in OF_HEAD else out.basis
        (own if place == "stream" else out.layers[place])[name] = element
    for name in [name for name in left if name.partition(".")[2] in UNSIGNED]:
        if (left.pop(name) != 1).any():
            raise ValueError(f"{name} is not allowed for units of this kind")
    if left:
        raise ValueError(f"unknown entry {min(left)}")
    return out


def _element(spec: Transformer, one: Basis | Order, label: tuple[str, str], take: Take) -> Array:
    """An element from the arrays of a file, if it is one of the group."""
    if isinstance(one, Basis):
        return _basis(spec, one, label[0], take)
    shape, order, signs = (*one.copies, one.width), None, None
    if "order" in one.kind:
        order = take(label[0], shape)
        for row in order.reshape(-1, one.width):
            _require_permutation(row, one.blocks, label[0])
    if "sign" in one.kind:
        signs = take(label[1], shape)
        if not np.isin(signs, (-1.0, 1.0)).all():
            raise ValueError(f"{label[1]} are not signs")
        if one.kind == "order and one sign" and np.ptp(signs):
            raise ValueError(f"{label[1]} are not all the same")
    return one.of(order, signs)


def _basis(spec: Transformer, one: Basis, name: str, take: Take) -> Array:
    if one.group == "planes":
        pairs = take(name, (*one.copies, len(rotary_planes(spec, one.turning)), 2))
        factors = pairs[..., 0] + 1j * pairs[..., 1]
        if np.abs(np.abs(factors) - 1).max() > TOLERANCE:
            raise ValueError(f"{name} does not have modulus 1")
        return np.asarray(factors)
    free = one.width - one.start
    matrix = take(name, (*one.copies, free, free))
    if np.abs(matrix @ matrix.swapaxes(-1, -2) - np.eye(free)).max() > TOLERANCE:
        raise ValueError(f"{name} is not orthogonal")
    if one.group == "o1" and np.abs(matrix @ np.ones(free) - 1).max() > TOLERANCE:
        raise ValueError(f"{name} does not preserve the mean")
    out = one.identity(spec)
    out[..., one.start :, one.start :] = matrix
    return out


def _require_permutation(row: Array, blocks: int, name: str) -> None:
    if not np.array_equal(np.sort(row), np.arange(len(row))):
        raise ValueError(f"{name} is not a permutation")
    groups = row.reshape(-1, blocks) // blocks
    if (groups != groups[:, :1]).any():
        raise ValueError(f"{name} mixes groups")
