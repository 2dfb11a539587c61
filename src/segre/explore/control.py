"""What is a control of the page? One key of a spec: what it may be, and when it means something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

NONE = "none"  # the step of a slider at which the key is left out


@dataclass(frozen=True)
class Control:
    """One key of a spec: what it is called, what it may be, and when it means something."""

    key: str
    label: str
    part: str
    kind: str  # size, choice or flag
    values: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()  # of the values, where they need words
    hint: str = ""
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    drops: tuple[str, ...] = ()  # keys without a control that go when this one changes
    resets: tuple[str, ...] = ()  # controls that it contradicts: they get their usual values

    def document(self) -> dict[str, Any]:
        """As plain data, for the page."""
        return asdict(self)


def part(name: str, *controls: Control) -> Iterator[Control]:
    """The controls of one part of the page."""
    return (replace(one, part=name) for one in controls)


def size(key: str, label: str, values: Sequence[Any], hint: str = "", **more: Any) -> Control:
    """A number, with the steps of its slider; a field beside it takes any other."""
    return _control("size", key, label, values=tuple(values), hint=hint, **more)


def choice(
    key: str, label: str, values: Sequence[str], names: Sequence[str] = (), **more: Any
) -> Control:
    """One of several values, which have names where they need words."""
    return _control("choice", key, label, values=tuple(values), names=tuple(names), **more)


def flag(key: str, label: str, hint: str = "", **more: Any) -> Control:
    """Something that is there or not."""
    return _control("flag", key, label, hint=hint, **more)


def _control(
    kind: str, key: str, label: str, drops: str = "", resets: str = "", **more: Any
) -> Control:
    """A control; keys that it drops or resets are names in one string."""
    others: dict[str, Any] = {"drops": tuple(drops.split()), "resets": tuple(resets.split())}
    return Control(key, label, "", kind, **others, **more)
