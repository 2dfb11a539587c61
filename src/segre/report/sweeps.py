"""Sweeps: counterexamples first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from segre.finding import Status, proved
from segre.report.blocks import Block, Facts, Say, Table, Tile, Title, elsewhere
from segre.report.views import tabled, view
from segre.sweep.builtin import Builtin
from segre.sweep.export import table
from segre.sweep.fit import Fit
from segre.sweep.run import Ran, Swept
from segre.sweep.search import CUT_SHORT
from segre.sweep.status import Standing
from segre.sweep.store import Row
from segre.sweep.verify import Verified

_FEW = 5


@view.register
def of_swept(swept: Swept) -> Iterator[Block]:
    """The state of the sweep, and what this run did."""
    yield from of_standing(swept.standing)
    yield from of_run(swept.ran)


@view.register
def of_run(ran: Ran) -> Iterator[Block]:
    """What one run did."""
    rate = f", {ran.done / ran.seconds:.0f} per second" if ran.done and ran.seconds else ""
    rest = f"; {ran.left:,} left, run the same command to continue" if ran.left else ""
    if ran.timed_out:
        rest = f"; {ran.timed_out:,} timed out{rest}"
    if ran.mended is not None:
        yield Say(ran.mended, "yellow", wrap=False)
    did = f"{ran.done:,} architectures in {ran.seconds:.1f} s{rate}"
    yield Say(f"{did}; {ran.before:,} were done before{rest}", wrap=False)


@view.register
def of_standing(found: Standing) -> Iterator[Block]:
    """The state of a sweep."""
    yield Title(f"Sweep {found.name}", terminal=False)
    refuted = found.verdicts.get("fails", 0)
    if found.claim is not None:
        word = "counterexample" if refuted == 1 else "counterexamples"
        said = f"{refuted:,} {word} to {found.claim}"
        yield Say(said, "bold red" if refuted else "green", wrap=False)
        yield from _rows("counterexamples", found.counterexamples, refuted)
    planned = "" if found.planned is None else f" of {found.planned:,}"
    # a sweep computes: no dimension in it is known by a theorem
    known = {proved(None) if one == "proved" else one: n for one, n in found.statuses.items()}
    lines = {
        "sweep": found.name,
        "done": f"{found.done:,}{planned} architectures",
        "claim": None if found.claim is None else _counts(found.verdicts),
        "dimensions": _counts(known),
        "checksums": None
        if found.checked
        else "none: the store was written by an older segre; the next run adds them",
    }
    told = tuple((name, "", words) for name, words in lines.items() if words is not None)
    yield Facts(told, values=False)
    computed = found.statuses.get("proved", 0)
    first = [Tile("counterexamples", f"{refuted:,}", "exact")] * (found.claim is not None)
    status: Status = "proved by computation" if computed else "not run"
    proved_ = Tile("dimensions proved", f"{computed:,}", status)
    yield elsewhere(Facts((*first, Tile("done", f"{found.done:,}{planned}", "exact"), proved_)))
    if found.undecided:
        number = found.verdicts["undecided"]
        yield Say(f"undecided, {min(number, len(found.undecided)):,} of {number:,}:", wrap=False)
        yield from _rows("undecided", found.undecided, number)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "nothing yet"


def _rows(key: str, rows: Sequence[Row], total: int) -> Iterator[Block]:
    if not rows:
        return
    names = ("  spec", "parameters", "lower", "upper", "closed form")
    cells = tuple((f"  {x.spec}", x.parameters, x.lower, x.upper, x.closed_form) for x in rows)
    yield Table(key, "", names, cells, (False, True, True, True, True), empty="-")
    if total > len(rows):
        yield Say(f"  and {total - len(rows):,} more: segre sweep export", wrap=False)


@tabled.register
def table_of_standing(found: Standing) -> Table:
    """Every row of the store as it is now, as `export` writes it."""
    names, rows = table(found.store)
    return Table("rows", found.name, names, rows)


@tabled.register
def table_of_swept(swept: Swept) -> Table:
    """The same, after a run."""
    return table_of_standing(swept.standing)


@view.register
def of_verified(found: Verified) -> Iterator[Block]:
    """What computing rows again has shown."""
    wrong = len({one.spec for one in found.differences})
    rest = f"; {found.without:,} rows have no result" if found.without else ""
    said = f"{wrong:,} differ" if wrong else "all agree"
    again = f"{found.checked:,} of {found.rows:,} rows computed again (seed {found.seed})"
    kernel = f"; the kernel confirms the bounds of {found.confirmed:,}" if found.confirmed else ""
    yield Title(f"{again}: {said}{kernel}{rest}", style="bold red" if wrong else "green")
    for one in found.differences[:_FEW]:
        stored, computed = ("-" if x is None else x for x in (one.stored, one.computed))
        words = f"  {one.spec}: {one.what} is {stored} in the store, computed: {computed}"
        yield Say(words, wrap=False)
    if len(found.differences) > _FEW:
        yield Say(f"  and {len(found.differences) - _FEW:,} more: --json lists them", wrap=False)


@view.register
def of_builtin(found: Builtin) -> Iterator[Block]:
    """The sweeps that come with segre."""
    for name, plan in found.plans.items():
        number = f"{plan.draw:,} drawn" if plan.draw is not None else "exhaustive"
        yield Title(f"{name}  ({number})", style="bold")
        yield Say(f"  {plan.given.get('about', '')}", wrap=False)
        if plan.claim is not None:
            yield Say(f"  claim: {plan.claim.text}", wrap=False)


@view.register
def of_fit(found: Fit) -> Iterator[Block]:
    """Formulas, where they hold, and how they did on new architectures."""
    meet = f"; for {found.unproved:,} of them the bounds do not meet" if found.unproved else ""
    none = f"; {len(found.unknown):,} other rows have no bounds" if found.unknown else ""
    yield Title(f"{found.rows:,} rows in {', '.join(found.fields)}{meet}{none}", style="")
    for piece in found.pieces:
        yield Say(f"dimension == {piece.law}", "bold", wrap=False)
        rows = _agree(piece.proved, piece.ranked, piece.allowed)
        counts = [len(x) for x in (piece.tested.proved, piece.tested.ranked, piece.undecided)]
        known = f"({piece.polynomial.rank} independent monomials)"
        for name, words in (
            ("where", piece.place),
            ("rows", f"all {piece.rows:,} there agree: {rows} {known}"),
            ("fresh", f"{sum(counts)} more architectures agree: {_agree(*counts)}"),
        ):
            yield Say(f"  {name:<10}  {words}", wrap=False)
    style = "yellow" if found.left else ""
    yield Say(f"not explained: {len(found.left):,} rows", style, wrap=False)
    yield from (Say(f"  {spec}", wrap=False) for spec in found.left[:_FEW])
    if found.cut_short:
        yield Say(f"The search was stopped early: {CUT_SHORT}.", "yellow", wrap=False)
    said = "A formula found this way is a conjecture: state it as a claim and test it in a sweep."
    yield Say(said, wrap=False)


def _agree(met: int, ranked: int, allowed: int) -> str:
    """How many rows agree with a formula, and how that is known."""
    said = {proved(None): met, "by exact rank": ranked, "between their bounds": allowed}
    return ", ".join(f"{count:,} {how}" for how, count in said.items() if count)


@tabled.register
def table_of_fit(found: Fit) -> Table:
    """A row for each formula."""
    names = ("dimension", "where", "rows", "rows proved", "fresh", "new proved")
    rows = tuple(
        (
            *(str(piece.law), piece.place, piece.rows, piece.proved),
            *(len(piece.fresh), len(piece.tested.proved)),
        )
        for piece in found.pieces
    )
    return Table("formulas", "Formulas", names, rows)
