"""The supported models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from segre.discovery import QUESTIONS, Catalog, Entry
from segre.finding import OWN, proved
from segre.report.blocks import Blocks, Cell, Fact, Facts, Say, Title, table
from segre.report.views import data, view
from segre.values import counted

_LINE = (
    *("family", "model", ("parameters", "parameters", ","), ("redundant", "redundant", ",")),
    *(("%", "percent", ".3f"), ("dimension", "dimension", ",")),
)
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
    families = list(dict.fromkeys(entry.family.name for entry in found.entries))
    entries = sorted(found.entries, key=lambda entry: families.index(entry.family.name))
    yield table("", map(_line, entries), *_LINE, *((name, name, ">") for name in QUESTIONS))
    many = len(found.families)
    yield Say(
        f"{many} {'family' if many == 1 else 'families'} and "
        f"{counted(len(found.presets), 'preset')}. The line of a family shows the defaults "
        "of its config class, and what any of its models supports. Families can be used in "
        f"inline specs (llama/d=8/heads=2/ff=16/t=3). Dimensions are proved by theorem "
        f"({OWN}). For details: segre model list NAME."
    )


def _line(entry: Entry) -> Mapping[str, Cell]:
    """The line of an entry; of a family's models, only the first names it."""
    row, preset = entry.row(), entry.kind != "family"
    known = {name: "yes" if row[name] else "-" for name in QUESTIONS}
    names = {"family": "" if preset else row["family"], "model": entry.name if preset else ""}
    few = "not counted" if row["redundant"] is None else row["redundant"]
    return {**row, **known, **names, "redundant": few}


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
