"""Two models, or two designs, side by side: what do they share, and where do they differ?

Sizes are those of `compare`; findings, depth and heads are those of `analyze`; two checkpoints of
one architecture are also compared weight by weight, as by `diff`.

>>> found = side_by_side("softmax/d=4,4/a=2/t=3", "lightning/d=4,4/a=2/t=3")
>>> [one.finding.value for one in found.designs.designs], found.no_diff
([28, 27], 'needs the weights of both')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segre import __version__
from segre.analysis.comparison import Designs, compare
from segre.analysis.diff import Diff, of_checkpoints
from segre.analysis.part import Part
from segre.analysis.run import Analysis, answered, require_readable
from segre.analysis.workbench import Workbench
from segre.errors import SegreError, SpecError
from segre.files import shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.inspect.diagnose import Diagnosis
from segre.json_data import json_data, stated
from segre.models import Source, with_attention
from segre.shown import Tabular
from segre.transformer.spec import Transformer
from segre.values import quote

PARTS = ("findings", "depth", "heads")


@dataclass(frozen=True)
class SideBySide(Tabular):
    """What is known about two targets."""

    one: Analysis
    two: Analysis
    designs: Designs  # sizes, dimension, redundancy, cost
    changes: Diff | None  # from the first to the second
    no_diff: str = ""  # why there is none
    command: str = ""  # what says the same again
    commands: Mapping[str, str] = field(default_factory=dict)  # what says it of sizes, and of diff

    @property
    def both(self) -> tuple[Analysis, Analysis]:
        """The two, in order."""
        return self.one, self.two

    @property
    def failed(self) -> tuple[Part, ...]:
        """The parts that did not run for a reason that segre did not foresee."""
        return (*self.one.failed, *self.two.failed)

    @property
    def diagnoses(self) -> tuple[Diagnosis | None, Diagnosis | None]:
        """What stands out in each, where there are weights that can be run."""
        first, second = (_diagnosis(each) for each in self.both)
        return first, second

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        known = {"format": "segre-side-by-side", "version": 1, "segre": __version__}
        known |= {"diff": self.changes and self.changes.document(), "no_diff": self.no_diff or None}
        return dict(json_data(stated(self, "command designs one two", **known)))


def side_by_side(
    one: Source,
    two: Source,
    *,
    only: Collection[str] = (),
    seed: int = 0,
    inputs: int = Workbench.inputs,
    length: int = Workbench.length,
    text: str | Path | None = None,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> SideBySide:
    """Two targets side by side, as `segre analyze ONE --against TWO`; both are read on one text.

    A stack of attention layers is refused beside a model of tokens, as nothing of them is measured
    alike.
    """
    for key in only:
        if key not in PARTS:
            raise SpecError(
                f"part {quote(key)}: not compared side by side; allowed: {', '.join(PARTS)}"
            )
    with Workbench.of(one) as first, Workbench.of(two) as second:
        targets = first, second
        _require_alike(*targets)
        read = None if text is None else Path(text)
        if read is not None:
            for each in targets:
                require_readable(read, each)
        parts = only or (PARTS if first.model or second.model else ("depth",))
        asked: dict[str, Any] = {"seed": seed, "inputs": inputs, "length": length}
        own = {**asked, "text": read, "memory": memory, "progress": progress}
        a, b = (answered(replace(each, **own), parts) for each in targets)
        sizes = compare(first.spec, second.spec, seed=seed, memory=memory, progress=progress)
        designs = (replace(x, name=y.target) for x, y in zip(sizes.designs, (a, b), strict=True))
        changes, no_diff = None, "needs the weights of both"
        if first.model is not None and second.model is not None:
            try:
                changes = of_checkpoints(
                    first.model, second.model, text=text, progress=progress, **asked
                )
                no_diff = ""
            except SegreError as error:  # another architecture, or one that has no normal form
                no_diff = _short(str(error).partition(";")[0])  # without what to do next
    bench = replace(first, **asked, text=read, memory=memory)
    arguments = f"{first.argument} {second.argument}"
    return SideBySide(
        a,
        b,
        replace(sizes, designs=tuple(designs)),
        changes,
        no_diff,
        f"{bench.command(only)} --against {second.argument}",
        {
            "sizes": f"segre compare {arguments}{bench.options(seed=seed, memory=memory)}",
            "diff": f"segre diff {arguments}{bench.options(**bench.inputs_given)}",
        },
    )


def _require_alike(one: Workbench, two: Workbench) -> None:
    for each in (one, two):
        with_attention(each.spec, "analyze --against")
    kinds = [isinstance(each.spec, Transformer) for each in (one, two)]
    if kinds[0] != kinds[1]:
        stack, model = (one, two) if kinds[1] else (two, one)
        raise SpecError(
            f"against: {quote(shown(stack.given))} is a stack of attention layers and "
            f"{quote(shown(model.given))} a transformer; they have no measure in common; "
            "segre compare has the sizes of both"
        )


def _short(reason: str, most: int = 200) -> str:
    """A reason that may list every design choice, cut after some of them.

    >>> _short("d is 8 and 16, heads is 2 and 4, kv is 1 and 2", most=20)
    'd is 8 and 16 and so on'
    """
    if len(reason) <= most:
        return reason
    return f"{reason[:most].rpartition(',')[0] or reason[:most]} and so on"


def _diagnosis(found: Analysis) -> Diagnosis | None:
    for part in found.parts:
        if isinstance(part.details, Diagnosis):
            return part.details
    return None
