"""The supported models."""

from __future__ import annotations

from collections.abc import Iterator

from segre.discovery import QUESTIONS, Catalog, Entry
from segre.finding import OWN, proved
from segre.report.blocks import Blocks, Cell, Fact, Facts, Say, Table, Title, table
from segre.report.views import data, view

_NUMBERS = ("parameters", "redundant", "%", "dimension")
_COLUMNS = ("kind", "name", "family", "parameters", "redundant", "percent", "dimension", *QUESTIONS)


@view
def of_catalog(found: Catalog) -> Blocks:
    """A line for each model; or, for one model given by name, everything known about it."""
    yield data([table("Models", [entry.row() for entry in found.entries], *_COLUMNS)])
    if found.named:
        for entry in found.entries:
            yield Title(f"{entry.name}, a {entry.kind}")
            yield Facts(tuple(_facts(entry)))
        return
    yield Title("Models", terminal=False)
    names = ("family", "model", *_NUMBERS, *QUESTIONS)
    families = dict.fromkeys(entry.family.name for entry in found.entries)
    rows = tuple(
        _cells(entry)
        for family in families
        for entry in found.entries
        if entry.family.name == family
    )
    formats = ("", "", ",", ",", ".3f", ",", *[""] * len(QUESTIONS))
    numeric = (False, False, *[True] * (len(names) - 2))
    yield Table("", names, rows, numeric, formats=formats)
    yield Say(
        f"{_count(found.families, 'family', 'families')} and "
        f"{_count(found.presets, 'preset', 'presets')}. The line of a family shows the defaults "
        "of its config class, and what any of its models supports. Families can be used in "
        f"inline specs (llama/d=8/heads=2/ff=16/t=3). Dimensions are proved by theorem "
        f"({OWN}). For details: segre model list NAME."
    )


def _count(entries: tuple[Entry, ...], one: str, several: str) -> str:
    return f"{len(entries)} {one if len(entries) == 1 else several}"


def _cells(entry: Entry) -> tuple[Cell, ...]:
    row = entry.row()
    name = "" if entry.kind == "family" else entry.name
    redundant = "not counted" if row["redundant"] is None else row["redundant"]
    asked = ("yes" if row[question] else "-" for question in QUESTIONS)
    family = "" if name else row["family"]
    return (family, name, row["parameters"], redundant, row["percent"], row["dimension"], *asked)


def _facts(entry: Entry) -> Iterator[Fact]:
    row = entry.row()
    yield "spec", "", str(entry.spec)
    if entry.kind == "family":
        yield "model type", "", f"{entry.family.model_type}: {', '.join(entry.classes)}"
        yield "presets", "", ", ".join(entry.family.presets) or "none"
    else:
        yield "family", "", entry.family.name
    yield "parameters", entry.parameters, ""
    if row["redundant"] is not None:
        yield "redundant", row["redundant"], f"{row['percent']:.3f} %"
    if row["dimension"] is not None:
        yield "dimension", row["dimension"], proved(entry.theorem)
    for question, (_, said) in QUESTIONS.items():
        reason = entry.refusals[question]
        yield question, "no" if reason else "yes", reason or said
