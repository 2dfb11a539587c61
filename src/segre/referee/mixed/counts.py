"""How many roots and arguments has a mixed stack? Sections H4 to H6; no point is needed."""

from __future__ import annotations

from segre.referee.mixed.pattern import seen_pairs
from segre.referee.mixed.weights import Layout
from segre.referee.residues import WORD
from segre.referee.transformers.reader import Facts


def facts_of(layout: Layout) -> Facts:
    """What the form of a certificate of this stack depends on."""
    spec = layout.spec
    t, rows = spec.t, spec.layers[0].width_in
    return Facts(
        parameters=layout.parameters,
        tokens=t,
        rows=rows,
        outputs=spec.layers[-1].width_out * t,
        sources=len(spec.layers) + 1,
        real_inputs=WORD // (rows * t),
        modular=not _any(layout, ("relu", "elu1")),
        arguments=_arguments(layout),
        coordinates=rows * t,
        roots=_roots(layout),
    )


def _any(layout: Layout, features: tuple[str, ...]) -> bool:
    every = (group[0].mechanism for groups in layout.layers for group in groups)
    return any(one.feature in features for one in every)


def _roots(layout: Layout) -> list[list[int]]:
    """How many radicands there are, by stage and root."""
    return [
        [
            size
            for heads in groups
            if heads[0].mechanism.unit != "none"
            for size in (len(heads) * heads[0].count, len(heads) * heads[0].tokens)
        ]
        for groups in layout.layers
    ]


def _arguments(layout: Layout) -> int | None:
    """How many arguments there are; None if no mechanism has any."""
    total = 0
    any_at_all = False
    for heads in (group for groups in layout.layers for group in groups):
        one, head, n = heads[0].mechanism, heads[0], len(heads)
        kinds = (one.weigh == "exp", one.feature in ("exp", "silu"), one.gate != "none")
        any_at_all = any_at_all or any(kinds)
        if one.weigh == "exp":
            total += n * seen_pairs(head)
        if one.feature in ("exp", "silu"):
            total += n * head.a * (head.count + head.tokens)
        if one.gate != "none":
            total += n * (head.inner if one.gate == "element" else 1) * head.tokens
    return total if any_at_all else None
