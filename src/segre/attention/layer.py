"""One layer of a stack as data: its heads by mechanism, and the shapes of their weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from segre.attention.mechanism import Mechanism


@dataclass(frozen=True)
class Group:
    """Heads of one layer that have the same mechanism."""

    mechanism: Mechanism
    heads: int


def tap(name: str, place: int) -> str:
    """The name of a tensor at a place of a kernel: W_K, W_K+1, W_K+2, ..."""
    return f"{name}+{place}" if place else name


@dataclass(frozen=True)
class Layer:
    """One layer from tokens of width `width_in` to tokens of width `width_out`.

    A head is X -> V X pattern(K X, Q X), with K and Q of shape a x d and V of shape d' x d. Heads
    are added. With `dv`, the value map of a head is the product W_O W_V through dv dimensions.
    """

    width_in: int
    width_out: int
    groups: tuple[Group, ...]
    a: int
    dv: int | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.width_in, self.width_out, self.groups, self.a, self.dv))

    @cached_property
    def heads(self) -> int:
        """Total number of heads."""
        return sum(group.heads for group in self.groups)

    @property
    def inner(self) -> int:
        """The width of values when they are mixed."""
        return self.width_out if self.dv is None else self.dv

    @cached_property
    def shapes(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """The weight tensors of each group, by name; a kernel has a map for every place in it."""
        return tuple(dict(self._shapes(group)) for group in self.groups)

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(prod(shape) for group in self.shapes for shape in group.values())

    def _shapes(self, group: Group) -> Iterator[tuple[str, tuple[int, ...]]]:
        one, h, d = group.mechanism, group.heads, self.width_in
        wide = one.kernel if one.conv == "full" else 1
        for name, rows in (("W_K", self.a), ("W_Q", self.a), ("W_V", self.inner)):
            for place in range(1 if name == "W_Q" else wide):
                yield tap(name, place), (h, rows, d)
        for name, with_bias in (("b_K", ("key", "both")), ("b_Q", ("query", "both"))):
            if one.bias in with_bias:
                yield name, (h, self.a, 1)
        if one.conv in ("depthwise", "shared"):
            for name, rows in (("c_K", self.a), ("c_V", self.inner)):
                for place in range(one.kernel):
                    yield tap(name, place), (h, rows if one.conv == "depthwise" else 1, 1)
        if one.decay == "learned":
            yield "decay", (h, 1, 1)
        if one.gate != "none":
            yield "W_G", (h, self.inner if one.gate == "element" else 1, d)
        if self.dv is not None:
            yield "W_O", (h, self.width_out, self.dv)

    def taps(self, group: int, name: str) -> tuple[str, ...]:
        """The tensors of a group with this name: none, one, or one for each place of a kernel."""
        return self._taps[group].get(name, ())

    @cached_property
    def _taps(self) -> tuple[dict[str, tuple[str, ...]], ...]:
        found: list[dict[str, tuple[str, ...]]] = [{} for _ in self.groups]
        for mine, shapes in zip(found, self.shapes, strict=True):
            for one in shapes:
                root = one.partition("+")[0]
                mine[root] = (*mine.get(root, ()), one)
        return tuple(found)

    @property
    def text(self) -> str:
        """Its heads as specs write them: softmax*2+lightning:decay=9/10."""
        return "+".join(
            group.mechanism.text + (f"*{group.heads}" if group.heads > 1 else "")
            for group in self.groups
        )


def regrouped(heads: Iterable[Mechanism]) -> tuple[Group, ...]:
    """Heads grouped by mechanism."""
    counts: dict[Mechanism, int] = {}
    for head in heads:
        counts[head] = counts.get(head, 0) + 1
    return tuple(Group(one, count) for one, count in counts.items())
