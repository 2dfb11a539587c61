"""Dimensions of architectures: one with its evidence, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from segre.finding import GROUPS, OWN, Finding, Findings, Status, Symmetry
from segre.report.blocks import Block, Cell, Fact, Facts, Figure, Table, Tile, Title, table, tiles
from segre.report.views import drawn, tabled, view

_LONG = 100_000  # from here on thousands are marked
_LABELS = ("proved by computation", "proved by theorem", "certain", "likely", "bounded")


@view.register
def of_finding(found: Finding) -> Iterator[Block]:
    """The dimension, how it is known, and the symmetries that account for the other parameters."""
    yield Title(str(found.spec))
    yield Facts(tuple(_facts(found)), grouped=found.parameters >= _LONG)
    yield tiles(Tile("Parameters", f"{found.parameters:,}", "exact"), *redundant_tile(found))


def redundant_tile(found: Finding) -> Iterator[Tile]:
    """How many parameters are redundant, if that is known."""
    if found.redundant is not None:
        least = "" if found.number is not None else "about " if found.upper is None else "at least "
        of_all = f"{100 * found.redundant / found.parameters:.3f}% of all"
        remark = f"{of_all}; they do not change the function"
        yield Tile("Redundant parameters", f"{least}{found.redundant:,}", found.label, remark)


def _facts(found: Finding) -> Iterator[Fact]:
    number = "{:,}".format if found.parameters >= _LONG else str
    yield Tile("dimension", value_in_words(found, number), found.label, status_in_words(found))
    yield "parameters", found.parameters, ""
    yield from evidence_of(found)
    if found.redundancy is not None:
        yield from _redundancy(found)
    elif found.symmetries:
        total = sum(symmetry.dimension for symmetry in found.symmetries)
        if found.status == "proved" and total == found.fiber_dimension:
            yield "fiber", total, "dimensions of weights that give the same function:"
        else:
            yield "symmetries", total, "dimensions of known symmetries:"
        yield from (("", one.dimension, f"{one.name}, {one.where}") for one in found.symmetries)
    yield from (("note", "", note) for note in found.notes)


def evidence_of(found: Finding) -> Iterator[Fact]:
    """The bounds, each with what it rests on."""
    for name, bound, evidence in (
        ("lower bound", found.lower, found.lower_evidence),
        ("upper bound", found.upper, found.upper_evidence),
        ("estimate", found.estimate, found.estimate_evidence),
    ):
        if bound is not None and evidence is not None:
            yield name, bound, evidence.statement
    if found.sample is not None:
        yield "random points", found.sample.points, found.sample.how
        yield "redundant", found.redundant or 0, f"parameters; {unexplained(found)}"
    for place, one in enumerate(() if found.theorem is None else found.theorem["hypotheses"]):
        numbers = f"{one['left']:,} {one['relation']} {one['right']:,}"
        yield "" if place else "hypotheses", one["name"], f"{one['says']}: {numbers}"


def _redundancy(found: Finding) -> Iterator[Fact]:
    """Redundant parameters of a transformer by piece; equal lines of many layers become one."""
    redundancy = found.redundancy
    assert redundancy is not None
    name = "redundant" if redundancy["total"] == found.redundant else "symmetries"
    words = f"parameters ({share(found)}) can change without changing the function:"
    yield name, redundancy["total"], words
    alike = gathered(found)
    for group in GROUPS:
        own = [line for line in alike if line.group == group]
        if len(own) > 1:
            yield group, redundancy["pieces"][group], ""
        for line in own:
            words = f"{line.name}, {line.where}"
            yield group if len(own) == 1 else "", line.dimension, words


def share(found: Finding) -> str:
    """The redundant parameters as a share of all."""
    total = (found.redundancy or {"total": 0})["total"]
    return f"{total / found.parameters:.3%}".replace("%", " %")


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


@tabled.register
def symmetries_of(found: Finding) -> Table:
    """All symmetries."""
    more = ("piece: group", "holds") if found.redundancy is not None else ()
    columns = ("symmetry: name", "where", "dimensions: dimension", *more)
    return table("symmetries", "Symmetries", found.symmetries, *columns)


@view.register
def of_findings(several: Findings) -> Iterator[Block]:
    """One line for each architecture: its parameters, and which of them are redundant."""
    yield Title("Redundant parameters", terminal=False)
    yield _compared(several, "%", lambda one: value_in_words(one, "{:,}".format))


@drawn.register
def plot_of_findings(several: Findings) -> Iterator[Figure]:
    """The share of redundant parameters of each architecture, by piece."""
    from segre.report.charts import bars

    shares = {
        group: [
            100 * (one.redundancy or {"pieces": {}})["pieces"].get(group, 0) / one.parameters
            for one in several.found
        ]
        for group in GROUPS
    }
    totals = [sum(each) for each in zip(*shares.values(), strict=True)]
    most = max(range(len(totals)), key=lambda n: totals[n])
    yield bars(
        [name[:60] for name in several.names],
        {group: values for group, values in shares.items() if any(values)} or {"none": totals},
        unit="redundant parameters, % of all",
        words=[f"{total:.3f} %" for total in totals],
        key="redundant",
        title="Redundant parameters, by piece",
        alt="A bar for each architecture: redundant parameters as a share of all, by piece.",
        takeaway=f"The share is largest for {several.names[most]}: {totals[most]:.3f} %.",
    )


@tabled.register
def table_of_findings(several: Findings) -> Table:
    """The same with the dimension as a number."""
    return _compared(several, "share in %", lambda one: one.number)


def _compared(several: Findings, share: str, dimension: Callable[[Finding], Cell]) -> Table:
    counts = ("parameters", *GROUPS, "redundant")
    names = ("model", *counts, share, "dimension", "known by")
    formats = ("", *[","] * len(counts), ".3f", ">", "")
    rows = tuple(
        (*_row(name, one), dimension(one), known_by(one))
        for name, one in zip(several.names, several.found, strict=True)
    )
    return Table("models", "", names, rows, note=trusted(several.found), formats=formats)


def _row(name: str, found: Finding) -> tuple[Cell, ...]:
    redundancy = found.redundancy or {"pieces": dict.fromkeys(GROUPS, 0), "total": 0}
    pieces = (redundancy["pieces"][group] for group in GROUPS)
    total = redundancy["total"]
    return (name, found.parameters, *pieces, total, 100 * total / found.parameters)


def unexplained(found: Finding) -> str:
    """How many redundant parameters no known symmetry explains; empty if that is not known."""
    few = found.unexplained
    if not few:
        return ""
    return f"{few:,} of them {'is' if few == 1 else 'are'} explained by no known symmetry"


def value_in_words(found: Finding, number: Callable[[int], str] = "{:,}".format) -> str:
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
    return max((one.label for one in several), key=(*_LABELS, "estimated").index)


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
