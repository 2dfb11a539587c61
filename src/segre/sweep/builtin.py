"""Sweeps that come with segre, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from segre.errors import SweepError
from segre.files import is_standard_input
from segre.shown import Shown
from segre.sweep.plan import Plan
from segre.values import quote

_FOLDER = Path(__file__).parent / "plans"


def builtin_names() -> list[str]:
    """The names of the built-in sweeps.

    >>> "deep-softmax" in builtin_names()
    True
    """
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def plan_of(source: str | Path | Mapping[str, Any] | Plan) -> Plan:
    """The plan of a `source`: a .toml file, a name in `builtin_names`, or a mapping.

    >>> plan_of("deep-softmax").claim.text
    'dimension == closed_form'
    """
    if isinstance(source, Plan):
        return source
    if isinstance(source, Mapping):
        return Plan.from_mapping(source)
    if Path(source).suffix == ".toml" or is_standard_input(source):
        return Plan.read(source)
    names = builtin_names()
    if str(source) in names:
        return Plan.read(_FOLDER / f"{source}.toml")
    near = get_close_matches(str(source), names)
    guess = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise SweepError(
        f"unknown sweep {quote(str(source))}{guess}; allowed: a .toml file, {', '.join(names)}"
    )


@dataclass(frozen=True)
class Builtin(Shown):
    """All sweeps that come with segre."""

    plans: dict[str, Plan]

    @classmethod
    def read(cls) -> Builtin:
        """Read them."""
        return cls({name: plan_of(name) for name in builtin_names()})

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"sweeps": {name: dict(plan.given) for name, plan in self.plans.items()}}
