"""The supported models, on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from segre.discovery import QUESTIONS, Catalog, Entry
from segre.finding import OWN, proved
from segre.report.console import Lines, plain_console, print_lines
from segre.report.text import printed


@printed.register
def print_catalog(found: Catalog) -> None:
    """A line for each model; or, for one model given by name, everything known about it."""
    if found.named:
        for entry in found.entries:
            _print_entry(entry)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("family", "model"):
        table.add_column(title, no_wrap=True)
    for title in ("parameters", "redundant", "%", "dimension"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in QUESTIONS:
        table.add_column(title, justify="right", no_wrap=True)
    for family in dict.fromkeys(entry.family.name for entry in found.entries):
        for entry in found.entries:
            if entry.family.name == family:
                table.add_row(*_cells(entry))
    plain_console().print(table)
    plain_console().print(
        f"{_count(found.families, 'family', 'families')} and "
        f"{_count(found.presets, 'preset', 'presets')}. The line of a family shows the defaults "
        "of its config class, and what any of its models supports. Families can be used in "
        f"inline specs (llama/d=8/heads=2/ff=16/t=3). Dimensions are proved by theorem "
        f"({OWN}). For details: segre models NAME."
    )


def _count(entries: tuple[Entry, ...], one: str, several: str) -> str:
    return f"{len(entries)} {one if len(entries) == 1 else several}"


def _cells(entry: Entry) -> tuple[str, ...]:
    row = entry.row()
    name = "" if entry.kind == "family" else entry.name
    redundant = "not counted" if row["redundant"] is None else f"{row['redundant']:,}"
    share = "" if row["percent"] is None else f"{row['percent']:.3f}"
    asked = ("yes" if row[question] else "-" for question in QUESTIONS)
    family = "" if name else row["family"]
    dimension = "" if row["dimension"] is None else f"{row['dimension']:,}"
    return (family, name, f"{row['parameters']:,}", redundant, share, dimension, *asked)


def _print_entry(entry: Entry) -> None:
    row = entry.row()
    console = plain_console()
    console.print(Text(f"{entry.name}, a {entry.kind}", style="bold cyan"), soft_wrap=True)
    lines: Lines = [("spec", "", str(entry.spec))]
    if entry.kind == "family":
        lines.append(("model type", "", f"{entry.family.model_type}: {', '.join(entry.classes)}"))
        lines.append(("presets", "", ", ".join(entry.family.presets) or "none"))
    else:
        lines.append(("family", "", entry.family.name))
    lines.append(("parameters", f"{entry.parameters:,}", ""))
    if row["redundant"] is not None:
        lines.append(("redundant", f"{row['redundant']:,}", f"{row['percent']:.3f} %"))
    if row["dimension"] is not None:
        lines.append(("dimension", f"{row['dimension']:,}", proved(entry.theorem)))
    for question, (_, said) in QUESTIONS.items():
        reason = entry.refusals[question]
        lines.append((question, "no" if reason else "yes", reason or said))
    print_lines(console, lines)
