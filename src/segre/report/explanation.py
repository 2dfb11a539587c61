"""The symmetries of an architecture in words, and what each design choice does to them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from segre.finding import GROUPS
from segre.geometry.choice import Choice
from segre.geometry.explain import Explanation
from segre.geometry.laws import Laws
from segre.report.console import plain_console
from segre.report.dimensions import unexplained
from segre.report.text import printed
from segre.values import counted, listed

_HOLDS = {
    "exact": "for every eps and every output",
    "eps=0": "only at eps = 0",
    "softmax": "only after the output softmax",
}


@printed.register
def print_explanation(found: Explanation) -> None:
    """What is redundant and why, choice by choice."""
    console = plain_console()
    finding = found.finding
    redundancy = finding.redundancy or {"total": 0, "pieces": {}, "holds": {}}
    total = redundancy["total"]
    console.print(Text(found.name, style="bold cyan"), soft_wrap=True)
    least = "at least " * ((finding.redundant or 0) > total)
    share = f"{total / finding.parameters:.3%}".replace("%", " %")
    _paragraph(
        console,
        f"{finding.parameters:,} parameters, of which {least}{total:,} ({share}) are redundant: "
        f"they can change without changing the function. By piece, {found.counted}:",
    )
    for group in GROUPS:
        for symmetry in finding.symmetries:
            if symmetry.group == group:
                label = f"{group}: {symmetry.name}, {symmetry.where}"
                _item(console, symmetry.dimension, label)
    console.print()
    for holds, count in redundancy["holds"].items():
        if count:
            _item(console, count, _HOLDS[holds])
    if found.discrete:
        console.print("\nDiscrete symmetries, in addition:", style="bold")
        for one in found.discrete:
            places = "" if one.times == 1 else f", at each of {one.times:,} places"
            console.print(f"  {one.group}: {one.what}{places}", soft_wrap=True)
    if found.laws is not None:
        _print_laws(console, found.laws)
    _print_choices(console, found.choices)
    if finding.number is not None:
        console.print()
        _paragraph(console, f"The dimension is {finding.number:,}, {finding.proof()}.")
    if said := unexplained(finding):
        _paragraph(console, f"In all, {finding.redundant:,} parameters are redundant; {said}.")
    for note in finding.notes:
        console.print()
        _paragraph(console, note)


def _print_laws(console: Console, laws: Laws) -> None:
    """What gradient flow conserves because of each symmetry."""
    console.print("\nWhat gradient flow conserves because of them:", style="bold")
    for law in laws.every:
        said = f"nothing that is known: {law.reason}"
        if law.formula is not None:
            said = f"{law.formula} ({counted(law.count, 'scalar')})"
        _paragraph(console, f"{law.name}, {law.where}: {said}", indent="  ")
    _paragraph(console, f"  {laws.independent:,} of these scalars are independent.", indent="  ")


def _print_choices(console: Console, choices: Sequence[Choice]) -> None:
    """What each design choice removes and adds."""
    console.print("\nHow each design choice changes these numbers:", style="bold")
    for choice in choices:
        _paragraph(console, _sentence(choice), indent="  ")


def _sentence(choice: Choice) -> str:
    more = [f"{n:,} of {group}" for group, n in choice.change.items() if n > 0]
    less = [f"{-n:,} of {group}" for group, n in choice.change.items() if n < 0]
    name = choice.name[0].upper() + choice.name[1:]
    if not more and not less:
        return f"{name}, instead of {choice.instead}: no effect on symmetries."
    parts = []
    if more:
        parts.append(f"removes {listed(more)}")
    if less:
        parts.append(f"{'adds' if not more else 'but adds'} {listed(less)}")
    return f"{name}, instead of {choice.instead}: {', '.join(parts)}."


def _item(console: Console, number: int, text: str) -> None:
    width = max(40, console.width - 18)
    first, *rest = textwrap.wrap(text, width) or [""]
    console.print(f"{number:>15,}  {first}")
    for line in rest:
        console.print(" " * 17 + line)


def _paragraph(console: Console, text: str, indent: str = "") -> None:
    width = max(40, min(console.width, 100))
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + "  " * bool(indent),
        break_on_hyphens=False,
        break_long_words=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
