"""Sweeps on the terminal: counterexamples first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from segre.finding import proved
from segre.report.console import plain_console
from segre.report.text import printed
from segre.sweep.builtin import Builtin
from segre.sweep.fit import Fit
from segre.sweep.run import Ran, Swept
from segre.sweep.search import CUT_SHORT
from segre.sweep.status import Standing
from segre.sweep.store import Row
from segre.sweep.verify import Verified

_WIDE = 400
_FEW = 5


@printed.register
def print_swept(swept: Swept) -> None:
    """The state of the sweep, and what this run did."""
    print_standing(swept.standing)
    print_ran(swept.ran)


@printed.register
def print_ran(ran: Ran) -> None:
    """What one run did."""
    rate = f", {ran.done / ran.seconds:.0f} per second" if ran.done and ran.seconds else ""
    rest = f"; {ran.left:,} left, run the same command to continue" if ran.left else ""
    if ran.timed_out:
        rest = f"; {ran.timed_out:,} timed out{rest}"
    if ran.mended is not None:
        _console().print(ran.mended, style="yellow")
    _console().print(
        f"{ran.done:,} architectures in {ran.seconds:.1f} s{rate}; "
        f"{ran.before:,} were done before{rest}"
    )


@printed.register
def print_standing(found: Standing) -> None:
    """The state of a sweep."""
    console = _console()
    refuted = found.verdicts.get("fails", 0)
    if found.claim is not None:
        word = "counterexample" if refuted == 1 else "counterexamples"
        colour = "bold red" if refuted else "green"
        console.print(f"{refuted:,} {word} to {found.claim}", style=colour)
        _print_rows(console, found.counterexamples, refuted)
    console.print(f"sweep       {found.name}")
    planned = "" if found.planned is None else f" of {found.planned:,}"
    console.print(f"done        {found.done:,}{planned} architectures")
    if found.claim is not None:
        console.print(f"claim       {_counts(found.verdicts)}")
    # a sweep computes: no dimension in it is known by a theorem
    known = {proved(None) if one == "proved" else one: n for one, n in found.statuses.items()}
    console.print(f"dimensions  {_counts(known)}")
    if not found.checked:
        console.print(
            "checksums   none: the store was written by an older segre; the next run adds them"
        )
    if found.undecided:
        number = found.verdicts["undecided"]
        console.print(f"undecided, {min(number, len(found.undecided)):,} of {number:,}:")
        _print_rows(console, found.undecided, number)


@printed.register
def print_verified(found: Verified) -> None:
    """What computing rows again has shown."""
    console = _console()
    wrong = len({one.spec for one in found.differences})
    rest = f"; {found.without:,} rows have no result" if found.without else ""
    said = f"{wrong:,} differ" if wrong else "all agree"
    again = f"{found.checked:,} of {found.rows:,} rows computed again (seed {found.seed})"
    console.print(
        f"{again}: {said}{rest}",
        style="bold red" if wrong else "green",
    )
    for one in found.differences[:_FEW]:
        stored, computed = ("-" if x is None else x for x in (one.stored, one.computed))
        console.print(f"  {one.spec}: {one.what} is {stored} in the store, computed: {computed}")
    if len(found.differences) > _FEW:
        console.print(f"  and {len(found.differences) - _FEW:,} more: --json lists them")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items()) or "nothing yet"


def _print_rows(console: Console, rows: Sequence[Row], total: int) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("  spec", no_wrap=True)
    for title in ("parameters", "lower", "upper", "closed form"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        numbers = (row.parameters, row.lower, row.upper, row.closed_form)
        table.add_row(f"  {row.spec}", *("-" if n is None else str(n) for n in numbers))
    console.print(table, crop=False)
    if total > len(rows):
        console.print(f"  and {total - len(rows):,} more: segre sweep export")


@printed.register
def print_builtin(found: Builtin) -> None:
    """The sweeps that come with segre."""
    console = _console()
    for name, plan in found.plans.items():
        number = f"{plan.draw:,} drawn" if plan.draw is not None else "exhaustive"
        console.print(f"{name}  ({number})", style="bold")
        console.print(f"  {plan.given.get('about', '')}")
        if plan.claim is not None:
            console.print(f"  claim: {plan.claim.text}")


def _console() -> Console:
    # as wide as it is: specs are to be copied
    return plain_console(_WIDE)


def _agree(met: int, ranked: int, allowed: int) -> str:
    """How many rows agree with a formula, and how that is known."""
    said = {proved(None): met, "by exact rank": ranked, "between their bounds": allowed}
    return ", ".join(f"{count:,} {how}" for how, count in said.items() if count)


@printed.register
def print_fit(found: Fit) -> None:
    """Formulas, where they hold, and how they did on new architectures."""
    console = _console()
    meet = f"; for {found.unproved:,} of them the bounds do not meet" if found.unproved else ""
    none = f"; {len(found.unknown):,} other rows have no bounds" if found.unknown else ""
    console.print(f"{found.rows:,} rows in {', '.join(found.fields)}{meet}{none}")
    for piece in found.pieces:
        console.print(f"dimension == {piece.law}", style="bold")
        console.print(f"  where       {piece.place}")
        rows = _agree(piece.proved, piece.ranked, piece.allowed)
        console.print(
            f"  rows        all {piece.rows:,} there agree: {rows} "
            f"({piece.polynomial.rank} independent monomials)"
        )
        counts = [len(x) for x in (piece.tested.proved, piece.tested.ranked, piece.undecided)]
        console.print(f"  fresh       {sum(counts)} more architectures agree: {_agree(*counts)}")
    console.print(f"not explained: {len(found.left):,} rows", style="yellow" if found.left else "")
    for spec in found.left[:_FEW]:
        console.print(f"  {spec}")
    if found.cut_short:
        console.print(f"The search was stopped early: {CUT_SHORT}.", style="yellow")
    console.print(
        "A formula found this way is a conjecture: state it as a claim and test it in a sweep."
    )
