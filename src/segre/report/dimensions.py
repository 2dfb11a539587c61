"""Dimensions with their evidence, what proves them, and the symmetries behind them, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from segre.finding import GROUPS, OWN, Finding, Findings, Status, Symmetry, claim_in_words
from segre.report.blocks import Blocks, Cell, Fact, Facts, Items, Say, Table, Tile, Title, table
from segre.report.views import data, elsewhere, on_page, terminal, tiles, view
from segre.values import counted, listed

if TYPE_CHECKING:
    from segre.geometry.choices import Choice
    from segre.geometry.conserved import Law
    from segre.geometry.explain import Explanation
    from segre.geometry.samples import SampleCount
    from segre.kernel.verify import Verdict

ONLY = {"eps=0": "only at eps = 0", "softmax": "only after the output softmax"}  # else always
_NUMBER = 15  # letters
_LONG = 100_000  # from here on thousands are marked
_LABELS = ("proved by computation", "proved by theorem", "certain", "likely", "bounded")


@view
def of_finding(found: Finding) -> Blocks:
    """The dimension, how it is known, and the symmetries that account for the other parameters."""
    yield Title(str(found.spec))
    yield Facts(tuple(_facts(found)), grouped=found.parameters >= _LONG)
    yield tiles(Tile("Parameters", f"{found.parameters:,}", "exact"), *redundant_tile(found))
    yield data([symmetries_of(found)])


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
    return f"{_pieces(found)[1] / found.parameters:.3%}".replace("%", " %")


def gathered(found: Finding) -> list[Symmetry]:
    """The symmetries of a transformer by piece; equal ones of many layers become one."""
    named: dict[tuple[str, str], list[Symmetry]] = {}
    for group in GROUPS:
        for one in found.symmetries:
            if one.group == group:
                when = f" ({ONLY[one.holds]})" if one.holds in ONLY else ""
                named.setdefault((group, one.name + when), []).append(one)
    out = []
    for (group, name), alike in named.items():
        places = list(dict.fromkeys(one.where for one in alike))
        kind = "places"
        if all(place.startswith("layer ") for place in places):
            kind = "heads" if any(", head " in place for place in places) else "layers"
        where = places[0] if len(places) == 1 else f"{len(places)} {kind}"
        out.append(Symmetry(name, where, sum(one.dimension for one in alike), group))
    return out


def symmetries_of(found: Finding) -> Table:
    """All symmetries."""
    more = ("piece: group", "holds") if found.redundancy is not None else ()
    columns = ("symmetry: name", "where", "dimensions: dimension", *more)
    return table("Symmetries", found.symmetries, *columns)


@view
def of_findings(several: Findings) -> Blocks:
    """One line for each architecture: its parameters, and which of them are redundant."""
    yield Title("Redundant parameters", terminal=False)
    yield _compared(several, "%", value_in_words)
    yield data([_compared(several, "share in %", lambda one: one.number)])
    yield on_page(_shares(several))


def _compared(several: Findings, share: str, dimension: Callable[[Finding], Cell]) -> Table:
    counts = ("parameters", *GROUPS, "redundant")
    names = ("model", *counts, share, "dimension", "known by")
    formats = ("", *[","] * len(counts), ".3f", ">", "")
    rows: list[tuple[Cell, ...]] = []
    for name, one in zip(several.names, several.found, strict=True):
        pieces, total = _pieces(one)
        counted = (one.parameters, *pieces.values(), total, 100 * total / one.parameters)
        rows.append((name, *counted, dimension(one), known_by(one)))
    return Table("Models", names, tuple(rows), note=trusted(several.found), formats=formats)


def _pieces(found: Finding) -> tuple[dict[str, int], int]:
    """Redundant parameters by piece, and all of them."""
    redundancy = found.redundancy or {"pieces": dict.fromkeys(GROUPS, 0), "total": 0}
    return redundancy["pieces"], redundancy["total"]


def _shares(several: Findings) -> Blocks:
    """The share of redundant parameters of each architecture, by piece."""
    from segre.report.charts import bars

    shares = {
        group: [100 * _pieces(one)[0][group] / one.parameters for one in several.found]
        for group in GROUPS
    }
    totals = [sum(each) for each in zip(*shares.values(), strict=True)]
    most = max(range(len(totals)), key=lambda n: totals[n])
    yield bars(
        "Redundant parameters, by piece",
        [name[:60] for name in several.names],
        {group: values for group, values in shares.items() if any(values)} or {"none": totals},
        unit="redundant parameters, % of all",
        words=[f"{total:.3f} %" for total in totals],
        takeaway=f"The share is largest for {several.names[most]}: {totals[most]:.3f} %.",
    )


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
    bounds = {"at least": found.lower, "at most": found.upper, "about": found.estimate}
    return next(f"{words} {number(one)}" for words, one in bounds.items() if one is not None)


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


@view
def of_verdict(verdict: Verdict) -> Blocks:
    """Every check of a certificate and what the checks prove, or the first check that fails."""
    yield Title("Is the certificate valid?", terminal=False)
    word = "valid" if verdict.valid else "invalid"
    by_theorem = "hypotheses and count, not the theorem, " * (verdict.kind == "theorem")
    yield tiles(Tile("certificate", word, verdict.status, f"{by_theorem}checked by the kernel"))
    if not verdict.valid:
        yield Say(f"invalid: {verdict.reason}", wrap=False)
        return
    yield terminal(*(Say(f"  ok  {sentence}", wrap=False) for sentence in verdict.checks))
    yield Say(f"valid: {claim_in_words(verdict.claim, verdict.theorem)}", wrap=False)
    yield elsewhere(Items("The kernel checked", verdict.checks))


@view
def of_samples(found: SampleCount) -> Blocks:
    """How many inputs determine a function: the naive count, why, and the rank after each input."""
    known = found.dimension
    value = f"{found.value:,}" if found.value is not None else f"{found.lower:,}..{found.upper:,}"
    size = known.value if known.value is not None else known.lower
    sure = {"proved": known.proof(), "computed": "computed, not proved"}
    words = sure.get(found.status, f"bounds {known.proof()}")
    said = f"generic inputs determine the function up to finitely many; {words}"
    label: Status = known.label if found.status == "proved" else "bounded"
    yield Title(str(found.spec))
    yield Facts(
        (
            Tile("samples", value, label, said),
            ("naive count", found.naive, f"{size:,} dimensions / {found.outputs:,} outputs"),
            ("enough", "", found.enough),
            ("fewer", "", found.fewer),
        )
    )
    if found.ranks:
        yield Say()
        short = tuple(tuple(f"{cell:>6}" for cell in row) for row in _shortened(found))
        yield Table("", ("inputs", "rank", "new"), short, (True, True, True))
        yield on_page(_ranks(found))
    counts = range(1, len(found.ranks) + 1)
    rows = zip(counts, found.ranks, found.gains, (n * found.outputs for n in counts), strict=True)
    yield data([Table("Ranks", ("inputs", "rank", "new", "outputs"), tuple(rows))])


def _shortened(found: SampleCount) -> Iterator[tuple[str, str, str]]:
    """The table; of consecutive inputs that add the same rank, only the first and the last."""
    gains, skipped = found.gains, False
    for n, (rank, gain) in enumerate(zip(found.ranks, gains, strict=True)):
        inner = 0 < n < len(gains) - 1 and gains[n - 1] == gain == gains[n + 1]
        if not (inner and skipped):
            yield ("...", "...", f"+{gain}") if inner else (str(n + 1), str(rank), f"+{gain}")
        skipped = inner


def _ranks(found: SampleCount) -> Blocks:
    """The rank against the number of inputs, with the naive count for comparison."""
    from segre.report.charts import lines

    target = found.ranks[-1]
    inputs = range(len(found.ranks) + 2)
    known = f"dimension {target}" if found.dimension.value else f"largest rank found, {target}"
    rank = f"rank: {found.value} inputs ({found.status})"
    naive = f"output numbers: {found.naive} inputs"
    yield lines(
        str(found.spec)[:80],
        inputs,
        {
            rank: [0, *found.ranks, target],
            naive: [min(n * found.outputs, target) for n in inputs],
            known: [target] * len(inputs),
        },
        y="rank of the Jacobian",
        first="generic inputs",
        dashed=(naive,),
        dotted=(known,),
    )


# --- symmetries, and what design choices do to them -----------------------------------------------


@view
def of_explanation(found: Explanation) -> Blocks:
    """What is redundant and why, choice by choice."""
    finding = found.finding
    redundancy = finding.redundancy or {"total": 0, "pieces": {}, "holds": {}}
    least = "at least " * ((finding.redundant or 0) > redundancy["total"])
    yield Title(found.name)
    dimension = value_in_words(finding)
    yield elsewhere(
        Facts((Tile("dimension", dimension, finding.label, status_in_words(finding)),)),
        Say("" if str(finding.spec) == found.name else str(finding.spec)),
    )
    yield _wide(
        f"{finding.parameters:,} parameters, of which {least}{redundancy['total']:,} "
        f"({share(finding)}) are redundant: they can change without changing the function. By "
        f"piece, {found.counted}:"
    )
    pieces = [
        (one.dimension, f"{group}: {one.name}, {one.where}")
        for group in GROUPS
        for one in finding.symmetries
        if one.group == group
    ]
    always = "for every eps and every output"
    yield from _counted(pieces)
    yield Say()
    yield from _counted([(n, ONLY.get(name, always)) for name, n in redundancy["holds"].items()])
    if found.discrete:
        yield Say("\nDiscrete symmetries, in addition:", "bold")
        for one in found.discrete:
            places = "" if one.times == 1 else f", at each of {one.times:,} places"
            yield Say(f"  {one.group}: {one.what}{places}", wrap=False)
    if found.laws is not None:
        yield Say("\nWhat gradient flow conserves because of them:", "bold")
        yield from (_wide(f"  {law.name}, {law.where}: {_law(law)}") for law in found.laws.every)
        yield _wide(f"  {found.laws.independent:,} of these scalars are independent.")
    yield Say("\nHow each design choice changes these numbers:", "bold")
    yield from (_wide(f"  {_effect(choice)}") for choice in found.choices)
    if finding.number is not None:
        yield from (Say(), _wide(f"The dimension is {finding.number:,}, {finding.proof()}."))
    if words := unexplained(finding):
        yield _wide(f"In all, {finding.redundant:,} parameters are redundant; {words}.")
    for note in finding.notes:
        yield from (Say(), _wide(note))
    yield data([symmetries_of(finding)])


def _wide(text: str) -> Say:
    return Say(text, width=100)


def _law(law: Law) -> str:
    """What is conserved by a symmetry."""
    if law.formula is None:
        return f"nothing that is known: {law.reason}"
    return f"{law.formula} ({counted(law.count, 'scalar')})"


def _counted(rows: Sequence[tuple[int, str]]) -> Blocks:
    """Numbers of a fixed width, each with what it counts."""
    facts: tuple[Fact, ...] = tuple((f"{n:>{_NUMBER},}", "", what) for n, what in rows if n)
    if facts:
        yield Facts(facts, values=False)


def _effect(choice: Choice) -> str:
    """What a design choice removes and adds."""
    more = [f"{n:,} of {group}" for group, n in choice.change.items() if n > 0]
    less = [f"{-n:,} of {group}" for group, n in choice.change.items() if n < 0]
    name = choice.name[0].upper() + choice.name[1:]
    parts = [f"removes {listed(more)}"] if more else []
    parts += [f"{'but ' * bool(more)}adds {listed(less)}"] if less else []
    effect = ", ".join(parts) or "no effect on symmetries"
    return f"{name}, instead of {choice.instead}: {effect}."
