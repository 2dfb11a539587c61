"""What is a control of the page? One key of a spec: what it may be, and when it means something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def size(key: str, label: str, values: Sequence[Any], hint: str = "") -> Control:
    """A number, with the steps of its slider; a field beside it takes any other."""
    return Control(key, label, "", "size", tuple(values), hint=hint)


def choice(key: str, label: str, values: Sequence[str] | Mapping[str, str]) -> Control:
    """One of several values, which have names where they need words."""
    names = tuple(values.values()) if isinstance(values, Mapping) else ()
    return Control(key, label, "", "choice", tuple(values), names)


def flag(key: str, label: str, hint: str = "") -> Control:
    """Something that is there or not."""
    return Control(key, label, "", "flag", hint=hint)


def joined(
    parts: Mapping[str, Sequence[Control]],
    when: Mapping[str, Mapping[str, tuple[Any, ...]]],
    drops: Mapping[str, str],
    resets: Mapping[str, str],
) -> tuple[Control, ...]:
    """The controls of all parts; keys, alone or several, say what else holds of them."""
    meant = {key: values for keys, values in when.items() for key in keys.split()}
    return tuple(
        replace(
            one,
            part=part,
            when=meant.get(one.key, {}),
            drops=tuple(drops.get(one.key, "").split()),
            resets=tuple(resets.get(one.key, "").split()),
        )
        for part, controls in parts.items()
        for one in controls
    )
