"""Checkpoints written, compared, aligned, merged or shrunk, and losses between checkpoints."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from segre.checkpoint.barrier import Barriers
from segre.checkpoint.commands import Written
from segre.checkpoint.comparison import Check, Comparison
from segre.checkpoint.demo import Demo
from segre.checkpoint.evidence import Block as Compared
from segre.checkpoint.evidence import agreed
from segre.checkpoint.merge import Merged
from segre.checkpoint.shrunk import Shrinking
from segre.files import shown
from segre.report.blocks import Blocks, Say, Table, Tile, Title, table
from segre.report.charts import lines
from segre.report.diff import FAR_APART
from segre.report.views import data, elsewhere, on_page, terminal, tiles, view

_COLOURS = {"different": "bold red", "undecided": "bold yellow"}
_SHOWN = 12
_PLACES = 5  # columns of losses


@view
def of_written(written: Written) -> Blocks:
    """Where a checkpoint is, what changed most, and how close its outputs are."""
    if written.blocks:
        yield from _alignment(written)
        return
    columns = ("part", "tensor: name", "change")
    yield data([table("What changed", written.changes, *columns)])
    yield Title(f"{written.directory}: {written.what}", style="")
    for name in written.unused:
        yield Say(f"left out: {name}, which the class named in the config does not have")
    if written.difference is None:  # no report was asked for
        return
    moved = sorted(written.changes, key=lambda change: -change.change)
    by = ("changed by", "change", ".3g")
    yield table("What changed most", moved[:_SHOWN], "tensor: title", by)
    changed = sum(change.change != 0 for change in moved)
    yield Say(f"{changed} of {len(moved)} tensors changed; changes are relative norms")
    yield from _outputs(written)


def _alignment(written: Written) -> Blocks:
    """Distances and cosines before and after, by block."""
    yield data([_aligned(written, "cosine after")])
    before, after = written.blocks[-1].distances()
    what = "nearer" if after < before else "not moved: alignment would increase the distance"
    if after > before:
        what = "aligned, although the distance of its weights has increased"
    yield Title(f"{written.directory}: the same function, {what}", style="")
    yield _aligned(written, "after")
    yield Say("distances are relative to the norm of the block in the first checkpoint")
    if written.by.startswith("activations"):
        yield Say(f"aligned by {written.by}")
    yield from _outputs(written)


def _aligned(written: Written, cosine: str) -> Table:
    return table(
        "What changed",
        written.blocks,
        "block: name",
        ("distance", lambda one: float(one.distances()[0]), ".3g"),
        ("after", lambda one: float(one.distances()[1]), ".3g"),
        ("cosine", lambda one: float(one.cosines()[0]), ".4f"),
        (cosine, lambda one: float(one.cosines()[1]), ".4f"),
    )


def _outputs(written: Written) -> Blocks:
    if written.difference is not None:
        verdict = "rounding can explain" if written.agrees else "MORE than rounding can explain:"
        yield Say(
            f"relative difference of outputs on random tokens: {written.difference:.2g}; "
            f"{verdict} {written.tolerance:.2g}"
        )


_MODELS = {
    "base": "a small language model, a Llama with 16,248 parameters",
    "fine-tune": "the same model, trained further on a dialect",
    "moved": "the fine-tune with different weights but the same function",
}
_TRY = (
    "same {at}/fine-tune {at}/moved",
    "diff {at}/base {at}/moved",
    "analyze {at}/base -o report.html",
)


@view
def of_demo(made: Demo) -> Blocks:
    """Where the models are, and what to try on them."""
    for name, what in _MODELS.items():
        yield Say(f"{made.directory / name}: {what}", wrap=False)
    if not made.written:
        yield Say("(from an earlier segre model demo; nothing was written)")
    yield Say("\nTry:")
    for command in _TRY:
        at = shlex.quote(str(made.directory))
        yield Say(f"  segre {command.format(at=at)}", wrap=False)


@view
def of_comparison(found: Comparison) -> Blocks:
    """The verdict and its evidence."""
    yield Title("Are two checkpoints the same function?", terminal=False)
    yield data([_every_block(found)])
    first = [Tile("verdict", found.said, found.status)]
    if found.blocks:
        first.append(_agreeing(found))
    if found.outputs is not None:
        remark = f"relative; rounding can explain {found.outputs_tolerance:.1g}"
        first.append(Tile("outputs differ by", f"{found.outputs:.2g}", "measured", remark))
    yield tiles(*first)
    yield terminal(Say(found.said, _COLOURS.get(found.verdict, "bold green")))
    yield Say(found.reason)
    if not found.blocks:
        return
    typical, coarsest = found.sensitivity
    apart = f"relative difference of outputs on random tokens: {found.outputs:.2g}; "
    if found.rounded:
        yield Say(
            f"{apart}a relative change of a weight by more than {coarsest:.1g} would be detected, "
            "a smaller one may be lost in the rounding"
        )
        return
    count, differing = len(found.blocks), len(found.differing)
    nearest = sorted(found.blocks, key=lambda block: -block.excess)
    yield _blocks(nearest[: min(_SHOWN, differing) or 3])
    if differing:
        yield Say(f"{differing} of {count} blocks differ; the table shows the largest differences")
    else:
        yield Say(f"all {count} blocks agree; the table shows those nearest to their limits")
    yield Say(f"{apart}rounding can explain {found.outputs_tolerance:.1g}")
    yield Say(
        "sensitivity, measured by rounding both files once more: a relative change of "
        f"{typical:.1g} would be detected in a typical block, of {coarsest:.1g} in the least "
        "sensitive block"
    )
    if found.differing_entries is not None:
        yield elsewhere(Say(f"{found.differing_entries:,} entries differ as stored"))


def _agreeing(found: Comparison | Check) -> Tile:
    """How many blocks of weights agree."""
    differing = sum(not block.agrees for block in found.blocks)
    count = len(found.blocks)
    value = f"{differing:,} of {count:,} differ" if differing else f"all {count:,} agree"
    return Tile("blocks of weights", value, "measured", "compared with the effect of rounding")


def _blocks(blocks: Iterable[Compared]) -> Table:
    """Differences compared with the effect of rounding, and the member that differs most."""

    def largest(block: Compared) -> str:
        name = block.name.removesuffix(f", {block.kind}").removeprefix(f"{block.kind}, ")
        share = f"{block.ratios[block.worst]:.2g} of {block.limit_of_one:.2g}"
        return f"{name} ({share})" if len(block.sizes) > 1 else ""

    return table(
        "Blocks of weights",
        blocks,
        ("block", lambda one: f"{one.place}, {one.kind}"),
        ("difference", "difference", ".2g"),
        ("rounding", "sensitivity", ".1g"),
        ("ratio", "ratio", ".2g"),
        ("limit", "limit", ".2g"),
        ("largest in it", largest, ">"),
        wraps=("block", "difference", "rounding", "ratio", "limit", "largest in it"),
    )


@view
def of_check(check: Check) -> Blocks:
    """Whether a witness is valid."""
    differing = [block for block in check.blocks if not block.agrees]
    word, said = ("not valid", "is not valid") if differing else ("holds", "is valid")
    yield Title("Is the witness valid?", check.status, terminal=False)
    yield data([_every_block(check)])
    yield tiles(Tile("witness", word, check.status), _agreeing(check))
    yield Say(f"the witness {said}", "bold red" if differing else "bold green")
    if differing:
        yield _blocks(differing[:_SHOWN])
        yield Say(f"{len(differing)} of {len(check.blocks)} blocks differ")
    else:
        yield Say(agreed(check.blocks))


def _every_block(found: Comparison | Check) -> Table:
    """Every block, in the order of the model."""
    numbers = ("difference", "rounding: sensitivity", "ratio", "limit")
    last = ("most in: name", "excess", ("agrees", lambda one: bool(one.agrees)))
    return table("Blocks", found.blocks, "part", "kind", *numbers, *last)


@view
def of_shrinking(done: Shrinking) -> Blocks:
    """What shrinking saved, and what it had to keep."""
    saved = done.bytes_before - done.bytes_after
    yield Title(f"{done.directory}: shrunk", style="")
    yield Say(
        f"left out {done.dropped:,} of {done.parameters:,} numbers "
        f"({done.dropped / done.parameters:.3%}); {done.redundant:,} are redundant"
    )
    yield Say(
        f"files: {done.bytes_before:,} -> {done.bytes_after:,} bytes, "
        f"{saved:,} saved ({saved / done.bytes_before:.3%})"
    )
    for reason in done.kept[:_SHOWN]:
        yield Say(f"kept: {reason}")
    if len(done.kept) > _SHOWN:
        yield Say(f"kept: {len(done.kept) - _SHOWN} more like these")


@view
def of_merged(merged: Merged) -> Blocks:
    """Where the checkpoint is, how it was merged, and how close its sources were."""
    yield Title(f"{merged.directory}: {merged.formula}", style="")
    for one in merged.aligned:
        before, after = one.whole.distances()
        near = f"{before:.3g}" + f" before alignment, {after:.3g} after" * one.moved
        names = f"{shown(one.name)} to {shown(one.to)}"
        yield Say(f"{names}: relative distance {near}", wrap=False)
        if min(before, after) > FAR_APART and not merged.by.startswith("none"):
            yield Say(
                f"{shown(one.name)} is far from {shown(one.to)}, and may be unrelated: measure the "
                "result with segre model barrier before you use it"
            )
    if all(one.moved for one in merged.aligned):
        yield Say(f"aligned by {merged.by}", wrap=False)
    elif merged.by.startswith("none"):
        yield Say("merged without alignment")
    else:
        still = ", ".join(shown(one.name) for one in merged.aligned if not one.moved)
        yield Say(f"not moved: {still}; alignment would increase the distance", wrap=False)


@view
def of_barriers(found: Barriers) -> Blocks:
    """Losses along every line, and the barriers."""
    yield Title("Loss along the straight line", terminal=False)
    shares = found.lines[0].shares
    last, parts = len(shares) - 1, _PLACES - 1
    places = sorted({(2 * last * i + parts) // (2 * parts) for i in range(parts + 1)})
    yield table(
        "Losses",
        found.lines,
        (f"from {shown(found.name)} to", lambda line: shown(line.name)),
        *((f"{shares[n]:.2g}", lambda line, n=n: float(line.losses[n]), ".3f") for n in places),
        ("barrier", lambda line: float(line.barrier), ".3f"),
    )
    yield Say(f"measured: {found.how}", wrap=False)
    figure = lines(
        "Loss along the straight line, measured",
        shares,
        {
            f"{shown(line.name)}: barrier {line.barrier:.2f}": list(map(float, line.losses))
            for line in found.lines
        },
        y="next-token loss (nats)",
        first=f"from {shown(found.name)} (0) to the other checkpoint (1)",
        note=f"On {found.on}.",
    )
    yield on_page([replace(figure, layout={**figure.layout, "showlegend": True})])
