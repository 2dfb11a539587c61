"""Which models does segre support, and what can be computed for each?

What a family or a preset supports is found by trying it: its parameters are counted, its files are
opened by name, its small instance is run. No such list is written by hand.

>>> found = catalog("qwen3-8b")
>>> [(one.name, one.kind, one.parameters) for one in found.entries]
[('qwen3-8b', 'preset', 8190735360)]
>>> [question for question, reason in found.entries[0].refusals.items() if reason]
[]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

from segre.checkpoint.layout import layout
from segre.checkpoint.served import require_normal_form
from segre.collapse.commands import decompose, measure
from segre.errors import SegreError, SpecError, UnsupportedError
from segre.finding import Finding, Status, Unbounded
from segre.geometry.at_any_size import at_any_size, formulas, proved_by_theorem, proved_instance
from segre.models import FAMILIES, from_config
from segre.models.family import Family
from segre.models.instances import small_instance
from segre.models.names import LIST, nearest
from segre.shown import Tabular
from segre.transformer.spec import Transformer
from segre.values import quote

__all__ = ["QUESTIONS", "Catalog", "Entry", "catalog"]


@dataclass(frozen=True)
class Entry:
    """A family with the defaults of its config class, or one of its presets."""

    name: str
    kind: str  # family or preset
    family: Family
    config: Mapping[str, Any]

    @cached_property
    def spec(self) -> Transformer:
        """Its architecture."""
        return from_config(self.config, self.name)

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return self.spec.parameters

    @cached_property
    def found(self) -> Finding | None:
        """Its dimension by a theorem, or an upper bound; None where symmetries are not counted."""
        try:
            return at_any_size(self.spec, formulas)
        except UnsupportedError:
            return None

    @property
    def redundant(self) -> int | None:
        """Number of redundant parameters; None if they are not counted."""
        return None if self.found is None else int((self.found.redundancy or {"total": 0})["total"])

    @property
    def theorem(self) -> str | None:
        """The theorem that gives its dimension at this size; None if no theorem does."""
        theorem = None if self.found is None else self.found.theorem
        return None if theorem is None else str(theorem["name"])

    @cached_property
    def refusals(self) -> dict[str, str]:
        """For each question, why it cannot be answered; empty if it can.

        A family supports what any of its presets supports.
        """
        own = {name: _refusal(ask, self) for name, (ask, _) in QUESTIONS.items()}
        if self.kind == "preset" or not any(own.values()):
            return own
        every = [preset.refusals for preset in _presets(self.family)]
        return {
            name: "" if any(not preset[name] for preset in every) else reason
            for name, reason in own.items()
        }

    @property
    def supports(self) -> tuple[str, ...]:
        """The questions that it supports."""
        return tuple(name for name, reason in self.refusals.items() if not reason)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the transformers library."""
        return (*self.family.head_classes, self.family.base_class)

    def row(self) -> dict[str, Any]:
        """One line of a table."""
        redundant = self.redundant
        share = None if redundant is None else round(100 * redundant / self.parameters, 3)
        return {
            "kind": self.kind,
            "name": self.name,
            "family": self.family.name,
            "parameters": self.parameters,
            "redundant": redundant,
            "percent": share,
            "dimension": None if self.found is None else self.found.value,
            **{name: not reason for name, reason in self.refusals.items()},
        }

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        row = self.row()
        return {
            **{key: row[key] for key in row if key not in QUESTIONS},
            "model_type": self.family.model_type,
            "classes": list(self.classes),
            "spec": str(self.spec),
            "theorem": self.theorem,
            "pieces": None if self.found is None else (self.found.redundancy or {}).get("pieces"),
            "supports": {name: not reason for name, reason in self.refusals.items()},
            "reasons": {name: reason for name, reason in self.refusals.items() if reason},
        }


def _ask_proof(entry: Entry) -> None:
    small = small_instance(entry.spec)
    if proved_instance(small) is None:
        raise UnsupportedError(f"no proof of its small instance is recorded; try segre dim {small}")


def _logits(spec: Transformer) -> Transformer:
    return spec.with_output("logits") if spec.output == "softmax" else spec


@cache
def _run(small: Transformer, *, paths: bool) -> None:
    """Run a small instance with random weights, as the commands do."""
    if paths:
        decompose(small, length=small.t)
    else:
        measure(small, variants="full", inputs=1, length=small.t)


# what is tried for each question, and what it is about
QUESTIONS: dict[str, tuple[Callable[[Entry], object], str]] = {
    "counted": (
        lambda entry: formulas(entry.spec),
        "dim, explain: redundant parameters by formulas, at any size",
    ),
    "theorem": (
        lambda entry: proved_by_theorem(entry.spec),
        "dim: the dimension is a theorem, at this size",
    ),
    "small proof": (_ask_proof, "dim: the dimension of a small instance is proved"),
    "files": (
        lambda entry: layout(_logits(entry.spec), entry.family.model_type, entry.config),
        "checkpoints are read",
    ),
    "normal form": (
        lambda entry: require_normal_form(_logits(entry.spec)),
        "same, model canonical, align, shrink",
    ),
    "collapse": (
        lambda entry: _run(small_instance(entry.spec), paths=False),
        "model collapse: how alike tokens become with depth",
    ),
    "paths": (
        lambda entry: _run(small_instance(entry.spec), paths=True),
        "model paths: a forward pass as a sum over all paths",
    ),
}


def _refusal(ask: Callable[[Entry], object], entry: Entry) -> str:
    try:
        ask(entry)
    except SegreError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Catalog(Unbounded, Tabular):
    """The models found: families first, then presets."""

    entries: tuple[Entry, ...]
    named: bool = False  # asked for by name: worth more than a line
    status: ClassVar[Status] = "exact"
    how: ClassVar[str] = "parameters and redundancy by formulas; supported questions by trying them"

    @property
    def value(self) -> list[str]:
        """Their names."""
        return [entry.name for entry in self.entries]

    @property
    def families(self) -> tuple[Entry, ...]:
        """The families."""
        return tuple(entry for entry in self.entries if entry.kind == "family")

    @property
    def presets(self) -> tuple[Entry, ...]:
        """The presets."""
        return tuple(entry for entry in self.entries if entry.kind == "preset")

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "questions": [{"name": name, "asks": said} for name, (_, said) in QUESTIONS.items()],
            "families": [entry.document() for entry in self.families],
            "presets": [entry.document() for entry in self.presets],
        }


def catalog(name: str | None = None, *, match: str = "", supports: str = "") -> Catalog:
    """The families and presets that segre supports: all, one of them, or those that match.

    `name` is a family or a preset; `match` is part of the name of a model or of its family;
    `supports` is one of `QUESTIONS`. Case does not matter.

    >>> len(catalog(match="llama", supports="normal form").families)
    1
    """
    asked = supports.lower().replace("-", " ").replace("_", " ")
    if asked and asked not in QUESTIONS:
        raise SpecError(
            f"supports {quote(supports)} is not allowed; allowed: {', '.join(QUESTIONS)}"
        )
    every = _entries()
    if name is not None:
        found = [entry for entry in every if name.lower().replace("_", "-") == entry.name]
        if not found:
            near = nearest(name, [entry.name for entry in every])
            raise SpecError(f"model {quote(name)} is not known{near}; {LIST}")
        return Catalog(tuple(found), named=True)
    word = match.lower().replace("_", "-")
    chosen = (one for one in every if word in one.name or word in one.family.name)
    return Catalog(tuple(one for one in chosen if not asked or not one.refusals[asked]))


def _entries() -> list[Entry]:
    families = [
        Entry(name, "family", family, {"model_type": family.model_type})
        for name, family in FAMILIES.items()
    ]
    presets = [preset for family in FAMILIES.values() for preset in _presets(family)]
    return [*families, *presets]


def _presets(family: Family) -> list[Entry]:
    return [Entry(name, "preset", family, config) for name, config in family.presets.items()]
