"""Two reduced layers in one basis: how far their invariants are apart, and how far they may be.

What is compared does not depend on free choices: products of queries and keys and of values and
outputs by head, units by unit, tables and biases. Next to each difference stands how large
rounding to the storage type could have made it, from the sizes of the stored numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.checkpoint.heads import keys, planes, queries
from segre.checkpoint.layout import Tensors
from segre.checkpoint.reduce import Reduced
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.transformer.spec import Transformer

# Over the effect of rounding once, since files may have been rounded several times; in half
# precision there is less room for that.
MARGIN, HALF_MARGIN = 32.0, 8.0


@dataclass(frozen=True)
class Block:
    """One comparison: relative difference, and the tolerance for it."""

    part: str
    name: str
    difference: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference can be rounding."""
        return self.difference <= self.tolerance

    @property
    def title(self) -> str:
        """As in reports: layer 3, head 2, OV."""
        place = self.part if self.part in ("embed", "head") else f"layer {self.part}"
        return f"{place}, {self.name}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "part": self.part,
            "name": self.name,
            "difference": self.difference,
            "tolerance": self.tolerance,
        }


@dataclass(frozen=True)
class Rounding:
    """Sizes of rounding errors: of the storage types, and of the basis of the stream."""

    unit: float
    stream: float = 0.0


def compare_part(
    spec: Transformer, one: Reduced, two: Reduced, rounding: Rounding
) -> Iterator[Block]:
    """All blocks of a part; `two` is in the basis of `one`."""
    if one.part not in ("embed", "head"):
        yield from _heads(spec, one, two, rounding)
        if spec.mlp != "none":
            yield _units(spec, one, two, rounding)
    yield from _rest(spec, one, two, rounding)


def _heads(spec: Transformer, one: Reduced, two: Reduced, rounding: Rounding) -> Iterator[Block]:
    a, b = one.tensors, two.tensors
    writes = _pair(one, two, "W_O", "W_V")
    values = [
        (product(a["W_O"][i, j], a["W_V"][i, 0], b["W_O"][i, j], b["W_V"][i, 0]))
        for i in range(spec.kv)
        for j in range(spec.group)
    ]
    for number, (difference, size) in enumerate(values):
        spread = _stored(one, two, "O", "V", number // spec.group) * writes
        yield _block(one, f"head {number + 1}, OV", difference, size, spread, rounding)
    reads = _pair(one, two, "W_Q", "W_K")
    for number in range(spec.heads):
        i, j = divmod(number, spec.group)
        if spec.qknorm:
            yield _normed_head(one, two, number, (i, j), rounding)
            continue
        if spec.pos == "rope":
            difference, size = _plane_products(a, b, i, j)
        else:
            q1, q2 = queries(a)[i, j].T, queries(b)[i, j].T
            difference, size = product(q1, a["W_K"][i, 0], q2, b["W_K"][i, 0])
        spread = _stored(one, two, "Q", "K", i) * reads
        yield _block(one, f"head {number + 1}, QK", difference, size, spread, rounding)


def product(left1: Array, right1: Array, left2: Array, right2: Array) -> tuple[float, float]:
    """|left1 right1 - left2 right2| and |left1 right1|, without large matrices."""
    n = left1.shape[1]
    with threads_for(n):
        r1 = np.linalg.qr(np.concatenate([left1, left2], axis=1))[1]
        r2 = np.linalg.qr(np.concatenate([right1, right2]).T)[1]
    size = float(np.linalg.norm(r1[:, :n] @ r2[:, :n].T))
    difference = r1[:, :n] @ r2[:, :n].T - r1[:, n:] @ r2[:, n:].T
    return float(np.linalg.norm(difference)), size


def _plane_products(a: Tensors, b: Tensors, i: int, j: int) -> tuple[float, float]:
    """The same for products of planes, conj(q) k, one for each: at most this difference."""
    q1, q2 = planes(queries(a)[i, j]), planes(queries(b)[i, j])
    k1, k2 = planes(keys(a)[i, 0]), planes(keys(b)[i, 0])

    def norm(x: Array) -> Array:
        return np.asarray(np.linalg.norm(x, axis=-1))

    apart = norm(q1) * norm(k1 - k2) + norm(q1 - q2) * norm(k2)
    return float(np.linalg.norm(apart)), float(np.linalg.norm(norm(q1) * norm(k1)))


def _normed_head(
    one: Reduced, two: Reduced, number: int, at: tuple[int, int], rounding: Rounding
) -> Block:
    """Under norms, queries and keys themselves are invariant (up to half turns)."""
    a, b = one.tensors, two.tensors
    i, j = at
    apart = [a["W_Q"][i, j] - b["W_Q"][i, j], a["W_K"][i, 0] - b["W_K"][i, 0]]
    size = [a["W_Q"][i, j], a["W_K"][i, 0]]
    difference = max(
        float(np.linalg.norm(x)) / max(float(np.linalg.norm(y)), 1e-300)
        for x, y in zip(apart, size, strict=True)
    )
    spread = max(_ratio(one, two, "W_Q"), _ratio(one, two, "W_K"))
    return _block(one, f"head {number + 1}, QK", difference, 1.0, spread, rounding)


def _units(spec: Transformer, one: Reduced, two: Reduced, rounding: Rounding) -> Block:
    """The unit with the largest difference of what it reads or writes."""
    a, b = one.tensors, two.tensors
    worst = np.zeros(spec.ff)
    spread = 1.0
    for name in ("W_gate", "W_up", "W_down"):
        if name in a:
            x, y = (w[name].T if name == "W_down" else w[name] for w in (a, b))
            size = np.linalg.norm(x, axis=1)
            floor = 1e-3 * np.median(size)
            apart = np.linalg.norm(x - y, axis=1) / np.maximum(size, max(floor, 1e-300))
            worst = np.maximum(worst, apart)
            spread = max(spread, _ratio(one, two, name))
    unit = int(worst.argmax())
    return _block(one, f"MLP unit {unit + 1}", float(worst[unit]), 1.0, 2 * spread, rounding)


def _rest(spec: Transformer, one: Reduced, two: Reduced, rounding: Rounding) -> Iterator[Block]:
    """Tables, gains that stay, biases."""
    seen = {"W_Q", "W_K", "W_V", "W_O", "W_gate", "W_up", "W_down", "b_V"}
    seen |= set() if spec.qknorm else {"b_Q", "b_K"}
    a, b = one.tensors, two.tensors
    for name in a:
        if name not in seen:
            size = float(np.linalg.norm(a[name]))
            stored = max((_size(x, name, size) for x in (one, two)), default=size)
            difference = float(np.linalg.norm(a[name] - b[name]))
            yield _block(one, name, difference, max(size, 1e-300), stored, rounding, size)
    if "b_V" in a and "b_O" not in a:
        sums = [(w["W_O"] @ w["b_V"]).sum(axis=(0, 1)) for w in (a, b)]
        size = float(np.linalg.norm(sums[0]))
        spread = sum(_writes(x) for x in (one, two))
        difference = float(np.linalg.norm(sums[0] - sums[1]))
        yield _block(one, "sum of value biases", difference, max(size, 1e-300), spread, rounding)


def _writes(found: Reduced) -> float:
    assert found.choice.heads is not None
    sizes = found.choice.heads.sizes
    return float(np.linalg.norm(sizes["O"]) * np.linalg.norm(sizes["b_V"]))


def _block(
    one: Reduced,
    name: str,
    difference: float,
    size: float,
    spread: float,
    rounding: Rounding,
    scale: float | None = None,
) -> Block:
    """A block from absolute difference and size; `spread` is how large stored numbers were."""
    if size <= 1e-300:
        return Block(one.part, name, 0.0 if difference == 0 else np.inf, 0.0)
    own = size if scale is None else max(scale, 1e-300)
    margin = MARGIN if rounding.unit < 2.0**-12 else HALF_MARGIN
    tolerance = margin * (rounding.unit * max(spread / own, 1.0) + rounding.stream)
    return Block(one.part, name, difference / size, tolerance)


def _stored(one: Reduced, two: Reduced, left: str, right: str, head: int) -> float:
    """Products of the norms of stored factors of a head: rounding acts on these."""
    total = 0.0
    for found in (one, two):
        assert found.choice.heads is not None
        sizes = found.choice.heads.sizes
        total = max(total, float(sizes[left][head] * sizes[right][head]))
    return total


def _pair(one: Reduced, two: Reduced, left: str, right: str) -> float:
    return _ratio(one, two, left) * _ratio(one, two, right)


def _ratio(one: Reduced, two: Reduced, name: str) -> float:
    """How much larger stored tensors were than what is left of them after centring."""
    out = 1.0
    for found in (one, two):
        before = found.choice.norms.sizes.get(name, 0.0)
        after = found.choice.norms.sizes.get(f"{name} left", before)
        if after > 0:
            out = max(out, before / after)
    return out


def _size(found: Reduced, name: str, otherwise: float) -> float:
    return max(found.choice.norms.sizes.get(name, 0.0), otherwise)
