"""What is a control of the page? One key of a spec: what it may be, and when it means something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
