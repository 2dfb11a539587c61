"""Sweeps: counterexamples first; and their plots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from segre.finding import Status, proved
from segre.report.blocks import Blocks, Figure, Row, Say, Table, Tile, Title, table, told
from segre.report.charts import Number, axis, curve, figure, heat_map
from segre.report.views import data, measured, on_page, tiles, view
from segre.sweep.builtin import Builtin
from segre.sweep.export import table as rows_of_store
from segre.sweep.fit import Fit
from segre.sweep.picture import Cell as Architectures
from segre.sweep.picture import Mark, Picture
from segre.sweep.run import Ran, Swept
from segre.sweep.search import CUT_SHORT
from segre.sweep.status import Standing
from segre.sweep.store import Row as Stored
from segre.sweep.verify import Verified
from segre.values import counted

_FEW = 5
_BOUND = "lower-bound"
_COLOURS = {"fails": "@4", "undecided": "@2", "undefined": "@6", _BOUND: "@2"}


@view
def of_swept(swept: Swept) -> Blocks:
    """The state of the sweep, and what this run did."""
    yield from of_standing(swept.standing)
    yield from of_run(swept.ran)


@view
def of_run(ran: Ran) -> Blocks:
    """What one run did."""
    rate = f", {ran.done / ran.seconds:.0f} per second" if ran.done and ran.seconds else ""
    rest = f"; {ran.left:,} left, run the same command to continue" if ran.left else ""
    if ran.timed_out:
        rest = f"; {ran.timed_out:,} timed out{rest}"
    yield tiles(
        Tile("done now", f"{ran.done:,}", "exact", rate.removeprefix(", ")),
        Tile("left", f"{ran.left:,}", "exact"),
    )
    if ran.mended is not None:
        yield Say(ran.mended, "yellow", wrap=False)
    did = f"{ran.done:,} architectures in {ran.seconds:.1f} s{rate}"
    yield Say(f"{did}; {ran.before:,} were done before{rest}", wrap=False)


@view
def of_standing(found: Standing) -> Blocks:
    """The state of a sweep."""
    yield Title(f"Sweep {found.name}", terminal=False)
    refuted = found.verdicts.get("fails", 0)
    if found.claim is not None:
        said = f"{counted(refuted, 'counterexample')} to {found.claim}"
        yield Say(said, "bold red" if refuted else "green", wrap=False)
        yield from _rows(found.counterexamples, refuted)
    planned = "" if found.planned is None else f" of {found.planned:,}"
    # a sweep computes: no dimension in it is known by a theorem
    known = {proved(None) if one == "proved" else one: n for one, n in found.statuses.items()}
    lines = {"sweep": found.name, "done": f"{found.done:,}{planned} architectures"}
    if found.claim is not None:
        lines["claim"] = _counts(found.verdicts)
    lines["dimensions"] = _counts(known)
    if not found.checked:
        older = "none: the store was written by an older segre; the next run adds them"
        lines["checksums"] = older
    yield told(lines)
    yield tiles(*_tiles(found, planned))
    if found.undecided:
        number = found.verdicts["undecided"]
        yield Say(f"undecided, {min(number, len(found.undecided)):,} of {number:,}:", wrap=False)
        yield from _rows(found.undecided, number)
    yield data(_stored(found))


def _tiles(found: Standing, planned: str) -> Iterator[Tile]:
    if found.claim is not None:
        refuted, holds = (found.verdicts.get(verdict, 0) for verdict in ("fails", "holds"))
        so_far = found.planned is not None and found.done < found.planned
        remark = "the claim is refuted" if refuted else "so far" * so_far
        yield Tile("counterexamples", f"{refuted:,}", "exact", remark)
        yield Tile("the claim holds for", f"{holds:,}", "exact")
    yield Tile("architectures done", f"{found.done:,}{planned}", "exact")
    computed = found.statuses.get("proved", 0)
    status: Status = "proved by computation" if computed else "not run"
    yield Tile("dimensions proved", f"{computed:,}", status)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "nothing yet"


def _rows(rows: Sequence[Stored], total: int) -> Blocks:
    if not rows:
        return
    spec = ("  spec", lambda row: f"  {row.spec}")
    numbers = [(name, name, "d") for name in ("parameters", "lower", "upper")]
    closed = ("closed form", "closed_form", "d")
    yield table("", rows, spec, *numbers, closed, empty="-")
    if total > len(rows):
        yield Say(f"  and {total - len(rows):,} more: segre sweep export", wrap=False)


def _stored(found: Standing) -> Iterator[Table]:
    """Every row of the store as it is now, as `export` writes it."""
    names, rows = rows_of_store(found.store)
    yield Table(found.name, names, rows)


@view
def of_verified(found: Verified) -> Blocks:
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


@view
def of_builtin(found: Builtin) -> Blocks:
    """The sweeps that come with segre."""
    for name, plan in found.plans.items():
        number = f"{plan.draw:,} drawn" if plan.draw is not None else "exhaustive"
        yield Title(f"{name}  ({number})", style="bold")
        yield Say(f"  {plan.given.get('about', '')}", wrap=False)
        if plan.claim is not None:
            yield Say(f"  claim: {plan.claim.text}", wrap=False)


@view
def of_fit(found: Fit) -> Blocks:
    """Formulas, where they hold, and how they did on new architectures."""
    meet = f"; for {found.unproved:,} of them the bounds do not meet" if found.unproved else ""
    none = f"; {len(found.unknown):,} other rows have no bounds" if found.unknown else ""
    left = f"{len(found.left):,} of {found.rows:,}"
    formulas = Tile("formulas", f"{len(found.pieces):,}", "estimated", "conjectures")
    yield tiles(formulas, Tile("rows not explained", left, "exact"))
    yield Title(f"{found.rows:,} rows in {', '.join(found.fields)}{meet}{none}", style="")
    for piece in found.pieces:
        yield Say(f"dimension == {piece.law}", "bold", wrap=False)
        rows, counts = _agree(*piece.agreeing.counts), piece.tested.counts
        known = f"({piece.law.polynomial.rank} independent monomials)"
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
    columns = (
        ("dimension", lambda piece: str(piece.law)),
        *("where: place", "rows"),
        ("rows proved", lambda piece: len(piece.agreeing.proved)),
        ("fresh", lambda piece: len(piece.fresh)),
        ("new proved", lambda piece: len(piece.tested.proved)),
    )
    yield data([table("Formulas", found.pieces, *columns)])


def _agree(met: int, ranked: int, allowed: int) -> str:
    """How many rows agree with a formula, and how that is known."""
    said = {proved(None): met, "by exact rank": ranked, "between their bounds": allowed}
    return ", ".join(f"{count:,} {how}" for how, count in said.items() if count)


@view
def of_picture(sweep: Picture) -> Blocks:
    """Dimension against prediction, and two maps."""
    count = sum(cell.fails for cell in sweep.cells) or "none"
    shares = _map(
        "Redundant share of the parameters",
        sweep,
        lambda cell: (cell.redundancy, f"{cell.rows} architectures"),
        what="share",
    )
    counterexamples = _map(
        f"Counterexamples: {count} (of rows)",
        sweep,
        lambda cell: (cell.fails, f"{cell.fails}/{cell.rows}" if cell.fails else str(cell.rows)),
        what="architectures",
        texttemplate="%{text}",
        colorscale="Reds",
    )
    lead = f"{len(sweep.marks):,} architectures; counterexamples: {count}."
    yield from (Title(sweep.name), Title(sweep.claim))
    plots = Row((_marks(sweep), shares, counterexamples))
    yield on_page([measured("sweep", "Dimensions", lead, "", plots)])


def _marks(sweep: Picture) -> Figure:
    """Exact dimensions against predicted ones; where only bounds are known, marks are open."""
    most = max((mark.predicted for mark in sweep.marks), default=1)
    dotted = {"line": {"dash": "dot"}, "showlegend": False}
    equal = curve([0, most], [0, most], "@6", width=1, **dotted)
    groups: dict[tuple[str, bool], list[Mark]] = {}
    for mark in sorted(sweep.marks, key=lambda mark: mark.verdict == "fails"):
        groups.setdefault((mark.verdict, mark.known), []).append(mark)
    return figure(
        "Dimension against prediction",
        [*(_group(*kind, marks) for kind, marks in groups.items()), equal],
        {
            "xaxis": axis(f"predicted: {sweep.prediction}"[:60]),
            "yaxis": axis("dimension (open marks: from lower to upper bound)"),
            "showlegend": bool(sweep.marks),
        },
        table("", sweep.marks, "spec", "predicted", "lower", "upper", "verdict"),
    )


def _group(verdict: str, known: bool, marks: Sequence[Mark]) -> dict[str, Any]:
    """Marks of one verdict, whose dimensions are all known, or all between bounds."""
    what = "" if known or verdict == _BOUND else ", lower bound"
    up = [0 if mark.upper is None else mark.upper - mark.lower for mark in marks]
    reach = {"type": "data", "array": up, "arrayminus": [0] * len(up), "thickness": 1, "width": 0}
    shape = "x" if verdict == "fails" else "circle"
    look = {"color": _COLOURS.get(verdict, "@1"), "symbol": f"{shape}{'-open' * (not known)}"}
    return {
        "mode": "markers",
        "name": f"{verdict.replace('-', ' ')}{what} ({len(marks):,})",
        "x": [mark.predicted for mark in marks],
        "y": [mark.lower for mark in marks],
        "text": [mark.spec for mark in marks],
        "error_y": {"visible": not known, "symmetric": False, **reach},
        "marker": {**look, "size": 6, "opacity": 0.6},
    }


def _map(
    title: str,
    sweep: Picture,
    of: Callable[[Architectures], tuple[Number, str]],
    *,
    what: str,
    **look: Any,
) -> Figure:
    """A map over two fields of the sweep: a number for each cell, and a text."""
    known = {(cell.x, cell.y): of(cell) for cell in sweep.cells}
    across, up = sorted({x for x, _ in known}), sorted({y for _, y in known}, reverse=True)
    cells = [[known.get((x, y), (None, "")) for x in across] for y in up]
    return heat_map(
        title,
        (sweep.y, list(map(str, up))),
        (sweep.x, list(map(str, across))),
        [[number for number, _ in row] for row in cells],
        what=what,
        look={"zmin": 0, "text": [[text for _, text in row] for row in cells], **look},
    )
