"""Checkpoints written, compared, aligned or shrunk, on the terminal."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from segre.checkpoint.commands import Written
from segre.checkpoint.comparison import Check, Comparison
from segre.checkpoint.demo import Demo
from segre.checkpoint.evidence import Block, agreed
from segre.checkpoint.shrunk import Shrinking
from segre.report.console import plain_console
from segre.report.text import printed

_COLOURS = {"different": "red", "undecided": "yellow"}
_SHOWN = 12


@printed.register
def print_written(written: Written) -> None:
    """Where a checkpoint is, what changed most, and how close its outputs are."""
    if written.blocks:
        _print_alignment(written)
        return
    console = plain_console()
    console.print(f"{written.directory}: {written.what}", soft_wrap=True)
    for name in written.unused:
        console.print(f"left out: {name}, which the class named in the config does not have")
    if written.difference is None:  # no report was asked for
        return
    moved = sorted(written.changes, key=lambda change: -change.change)
    still = sum(change.change == 0 for change in moved)
    table = _table("tensor", "changed by")
    for change in moved[:_SHOWN]:
        table.add_row(change.title, f"{change.change:.3g}")
    console.print(table)
    console.print(
        f"{len(moved) - still} of {len(moved)} tensors changed; changes are relative norms"
    )
    _print_outputs(console, written)


@printed.register
def print_demo(made: Demo) -> None:
    """Where the models are, and what to try on them."""
    console, at = plain_console(), made.directory
    for name, what in _MODELS.items():
        console.print(f"{at / name}: {what}", soft_wrap=True)
    if not made.written:
        console.print("(from an earlier segre demo; nothing was written)")
    console.print("\nTry:")
    for command in _TRY:
        console.print(f"  segre {command.format(at=shlex.quote(str(at)))}", soft_wrap=True)


_MODELS = {
    "base": "a small language model, a Llama with 16,248 parameters",
    "fine-tune": "the same model, trained further on a dialect",
    "moved": "the fine-tune with different weights but the same function",
}
_TRY = (
    "weights same {at}/fine-tune {at}/moved",
    "diff {at}/base {at}/moved",
    "analyze {at}/base -o report.html",
)


def _print_outputs(console: Console, written: Written) -> None:
    if written.difference is not None:
        verdict = "rounding can explain" if written.agrees else "MORE than rounding can explain:"
        console.print(
            f"relative difference of outputs on random tokens: {written.difference:.2g}; "
            f"{verdict} {written.tolerance:.2g}"
        )


@printed.register
def print_sameness(found: Comparison) -> None:
    """The verdict and its evidence."""
    console = plain_console()
    console.print(Text(found.said, style=f"bold {_COLOURS.get(found.verdict, 'green')}"))
    console.print(found.reason)
    if not found.blocks:
        return
    if found.rounded:
        console.print(
            f"relative difference of outputs on random tokens: {found.outputs:.2g}; a relative "
            f"change of a weight by more than {found.sensitivity[1]:.1g} would be detected, a "
            "smaller one may be lost in the rounding"
        )
        return
    nearest = sorted(found.blocks, key=lambda block: -block.excess)
    differing = found.differing
    console.print(block_table(nearest[: min(_SHOWN, len(differing)) or 3]))
    if differing:
        console.print(
            f"{len(differing)} of {len(found.blocks)} blocks differ; the table shows the largest "
            "differences"
        )
    else:
        console.print(
            f"all {len(found.blocks)} blocks agree; the table shows those nearest to their limits"
        )
    console.print(
        f"relative difference of outputs on random tokens: {found.outputs:.2g}; rounding can "
        f"explain {found.outputs_tolerance:.1g}"
    )
    typical, coarsest = found.sensitivity
    console.print(
        "sensitivity, measured by rounding both files once more: a relative change of "
        f"{typical:.1g} would be detected in a typical block, of {coarsest:.1g} in the least "
        "sensitive block"
    )


def block_table(blocks: list[Block]) -> Table:
    """Differences compared with the effect of rounding, and the member that differs most."""
    table = _table("block", "difference", "rounding", "ratio", "limit", "largest in it")
    for block in blocks:
        name = block.name.removesuffix(f", {block.kind}").removeprefix(f"{block.kind}, ")
        most = f"{name} ({block.ratios[block.worst]:.2g} of {block.limit_of_one:.2g})"
        table.add_row(
            f"{block.place}, {block.kind}",
            f"{block.difference:.2g}",
            f"{block.sensitivity:.1g}",
            f"{block.ratio:.2g}",
            f"{block.limit:.2g}",
            most if len(block.sizes) > 1 else "",
        )
    return table


@printed.register
def print_check(check: Check) -> None:
    """Whether a witness is valid."""
    console, blocks = plain_console(), check.blocks
    differing = [block for block in blocks if not block.agrees]
    if differing:
        console.print(Text("the witness is not valid", style="bold red"))
        console.print(block_table(differing[:_SHOWN]))
        console.print(f"{len(differing)} of {len(blocks)} blocks differ")
    else:
        console.print(Text("the witness is valid", style="bold green"))
        console.print(agreed(blocks))


def _print_alignment(written: Written) -> None:
    """Distances and cosines before and after, by block."""
    console = plain_console()
    before, after = written.blocks[-1].distances()
    what = "nearer" if after < before else "not moved: alignment would increase the distance"
    if after > before:
        what = "aligned, although the distance of its weights has increased"
    console.print(f"{written.directory}: the same function, {what}", soft_wrap=True)
    table = _table("block", "distance", "after", "cosine", "after")
    for block in written.blocks:
        distances, cosines = block.distances(), block.cosines()
        table.add_row(block.name, *(f"{x:.3g}" for x in distances), *(f"{x:.4f}" for x in cosines))
    console.print(table)
    console.print("distances are relative to the norm of the block in the first checkpoint")
    if written.by.startswith("activations"):
        console.print(f"aligned by {written.by}")
    _print_outputs(console, written)


@printed.register
def print_shrinking(done: Shrinking) -> None:
    """What shrinking saved, and what it had to keep."""
    console = plain_console()
    saved = done.bytes_before - done.bytes_after
    console.print(f"{done.directory}: shrunk", soft_wrap=True)
    console.print(
        f"left out {done.dropped:,} of {done.parameters:,} numbers "
        f"({done.dropped / done.parameters:.3%}); {done.redundant:,} are redundant"
    )
    console.print(
        f"files: {done.bytes_before:,} -> {done.bytes_after:,} bytes, "
        f"{saved:,} saved ({saved / done.bytes_before:.3%})"
    )
    for reason in done.kept[:_SHOWN]:
        console.print(f"kept: {reason}")
    if len(done.kept) > _SHOWN:
        console.print(f"kept: {len(done.kept) - _SHOWN} more like these")


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 else "right")
    return table
