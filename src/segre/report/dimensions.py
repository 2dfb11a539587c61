"""Dimensions of architectures on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.text import Text

from segre.finding import GROUPS, OWN, Finding, Findings, Status, Symmetry
from segre.report.console import Lines, plain_console, print_lines
from segre.report.text import printed

_LONG = 100_000  # from here on thousands are marked
COLOURS = {
    "proved by computation": "green",
    "proved by theorem": "cyan",
    "certain": "cyan",
    "likely": "yellow",
    "bounded": "yellow",
    "estimated": "red",
}


@printed.register
def print_finding(found: Finding) -> None:
    """The dimension, how it is known, and the symmetries that account for the other parameters."""
    number = "{:,}".format if found.parameters >= _LONG else str
    lines: Lines = [
        (
            "dimension",
            value_in_words(found, number),
            Text(status_in_words(found), style=COLOURS[found.label]),
        ),
        ("parameters", number(found.parameters), ""),
    ]
    for name, bound, evidence in (
        ("lower bound", found.lower, found.lower_evidence),
        ("upper bound", found.upper, found.upper_evidence),
        ("estimate", found.estimate, found.estimate_evidence),
    ):
        if bound is not None and evidence is not None:
            lines.append((name, number(bound), evidence.statement))
    if found.sample is not None:
        lines.append(("random points", number(found.sample.points), found.sample.how))
        lines.append(
            ("redundant", number(found.redundant or 0), f"parameters; {unexplained(found)}")
        )
    lines += _hypothesis_lines(found)
    if found.redundancy is not None:
        lines += _redundancy_lines(found, number)
    elif found.symmetries:
        total = sum(symmetry.dimension for symmetry in found.symmetries)
        known = found.status == "proved" and total == found.fiber_dimension
        name, what = "symmetries", "dimensions of known symmetries:"
        if known:
            name, what = "fiber", "dimensions of weights that give the same function:"
        lines.append((name, number(total), what))
        lines += [("", number(s.dimension), f"{s.name}, {s.where}") for s in found.symmetries]
    lines += [("note", "", note) for note in found.notes]
    console = plain_console()
    console.print(Text(str(found.spec), style="bold cyan"), soft_wrap=True)
    print_lines(console, lines)


def _hypothesis_lines(found: Finding) -> Lines:
    """The hypotheses of the theorem, with the numbers of this architecture."""
    if found.theorem is None:
        return []
    lines: Lines = []
    for one in found.theorem["hypotheses"]:
        numbers = f"{one['left']:,} {one['relation']} {one['right']:,}"
        lines.append(("" if lines else "hypotheses", one["name"], f"{one['says']}: {numbers}"))
    return lines


def _redundancy_lines(found: Finding, number: Callable[[int], str]) -> Lines:
    """Redundant parameters of a transformer by piece; equal lines of many layers become one."""
    redundancy = found.redundancy
    assert redundancy is not None
    share = f"{redundancy['total'] / found.parameters:.3%}".replace("%", " %")
    words = f"parameters ({share}) can change without changing the function:"
    name = "redundant" if redundancy["total"] == found.redundant else "symmetries"
    lines: Lines = [(name, number(redundancy["total"]), words)]
    alike = gathered(found)
    for group in GROUPS:
        own = [line for line in alike if line.group == group]
        if len(own) > 1:
            lines.append((group, number(redundancy["pieces"][group]), ""))
        for line in own:
            words = f"{line.name}, {line.where}"
            lines.append((group if len(own) == 1 else "", number(line.dimension), words))
    return lines


def gathered(found: Finding) -> list[Symmetry]:
    """The symmetries of a transformer by piece; equal ones of many layers become one."""
    named: dict[tuple[str, str], list[Symmetry]] = {}
    for group in GROUPS:
        for one in found.symmetries:
            if one.group == group:
                named.setdefault((group, one.name + _when(one)), []).append(one)
    out = []
    for (group, name), alike in named.items():
        places = list(dict.fromkeys(one.where for one in alike))
        kind = "places"
        if all(place.startswith("layer ") for place in places):
            kind = "heads" if any(", head " in place for place in places) else "layers"
        where = places[0] if len(places) == 1 else f"{len(places)} {kind}"
        out.append(Symmetry(name, where, sum(one.dimension for one in alike), group))
    return out


def _when(symmetry: Symmetry) -> str:
    words = {"eps=0": " (only at eps = 0)", "softmax": " (only after the output softmax)"}
    return words.get(symmetry.holds, "")


@printed.register
def print_findings(several: Findings) -> None:
    """One line for each transformer: its parameters, and which of them are redundant."""
    from rich.table import Table  # here: one finding needs none

    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for title in ("parameters", *GROUPS, "redundant", "%", "dimension"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("known by", no_wrap=True)
    for name, one in zip(several.names, several.found, strict=True):
        redundancy = one.redundancy or {"pieces": dict.fromkeys(GROUPS, 0), "total": 0}
        share = 100 * redundancy["total"] / one.parameters
        pieces = [f"{redundancy['pieces'][group]:,}" for group in GROUPS]
        table.add_row(
            name,
            f"{one.parameters:,}",
            *pieces,
            f"{redundancy['total']:,}",
            f"{share:.3f}",
            value_in_words(one, "{:,}".format),
            known_by(one),
        )
    console = plain_console()
    console.print(table)
    if said := trusted(several.found):
        console.print(said, soft_wrap=True)


def unexplained(found: Finding) -> str:
    """How many redundant parameters no known symmetry explains; empty if that is not known."""
    few = found.unexplained
    if not few:
        return ""
    return f"{few:,} of them {'is' if few == 1 else 'are'} explained by no known symmetry"


def value_in_words(found: Finding, number: Callable[[int], str]) -> str:
    """The dimension as far as it is known; a bound is labelled as a bound."""
    if found.number is not None:
        return number(found.number)
    if found.lower is not None and found.upper is not None:
        return f"{number(found.lower)}..{number(found.upper)}"
    for words, bound in (
        ("at least", found.lower),
        ("at most", found.upper),
        ("about", found.estimate),
    ):
        if bound is not None:
            return f"{words} {number(bound)}"
    raise AssertionError("a finding has a bound or an estimate")


def known_by(found: Finding) -> str:
    """The evidence for the bounds, in two words."""
    if found.number is not None:
        return found.proof(full=False)
    if found.lower_evidence is None and found.upper_evidence is not None:
        return "symmetries counted"
    if counts(found):
        return "count"
    return "estimate" if found.lower_evidence is None else "bounds computed"


def trusted(several: Iterable[Finding]) -> str:
    """Under a table of dimensions: what a proof by a theorem is; empty if there is none."""
    return f"Proved by theorem: {OWN}." if any(x.proved_by == "theorem" for x in several) else ""


def weakest(several: Iterable[Finding]) -> Status:
    """The label of several dimensions together: that of the one known least surely."""
    return max((one.label for one in several), key=list(COLOURS).index)


def status_in_words(found: Finding) -> str:
    """How surely it is known."""
    if found.number is not None:
        return found.proof()
    words = {
        "lower-bound": "between two bounds, both proved by computation",
        "upper-bound": "a proved upper bound",
        "estimate": "an estimate, not proved",
    }
    if counts(found):
        return "a count by formulas, not a bound"
    if found.upper_evidence is not None and found.upper_evidence.kind == "counted-symmetries":
        return "an upper bound, counted by formulas"
    return words[found.status]


def counts(found: Finding) -> bool:
    """Whether the estimate is a count of symmetries, not a floating-point rank."""
    evidence = found.estimate_evidence
    return evidence is not None and evidence.kind == "counted-symmetries"
