"""Which variants of a model collapse, in words?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from segre.collapse.curves import Curves
from segre.collapse.variants import ALONE, FULL, PARTS, Variant
from segre.collapse.verdict import THRESHOLD, collapses

_ALONE = {
    True: "makes tokens alike",
    False: "keeps tokens different",
    None: "gives numbers that cannot be judged",
}
_THEY = {True: "they become alike", False: "they stay different", None: "this cannot be judged"}


def versions(found: Curves) -> list[dict[str, Any]]:
    """Every variant as plain data: its name, its name in words, and what becomes of it."""
    return [
        {
            "variant": str(curve.variant),
            "words": curve.variant.words,
            "collapses": collapses(curve, THRESHOLD),
            "from_layer": curve.below(THRESHOLD),
        }
        for curve in sorted(found.curves, key=lambda curve: curve.variant != FULL)
    ]


def takeaways(found: Curves) -> dict[str, str]:
    """What the two plots of depth show: parts removed, and attention changed."""
    outcomes = {
        curve.variant: collapses(curve, THRESHOLD)
        for curve in sorted(found.curves, key=lambda curve: curve.variant != FULL)
    }
    plain = {one: outcome for one, outcome in outcomes.items() if one == one.plain}
    changed = {one: outcome for one, outcome in outcomes.items() if one != one.plain}
    said = {"depth": _removed(plain)}
    if changed and ALONE in plain:
        said["what-if"] = _changed(plain[ALONE], changed)
    return said


def _removed(outcomes: Mapping[Variant, bool | None]) -> str:
    """Which variants collapse; if one removed part decides it, that part is named.

    >>> every = [Variant(skip, mlp) for skip in (True, False) for mlp in (True, False)]
    >>> _removed({one: not one.skip for one in every})
    'Tokens become alike exactly where skips are removed: in 2 of 4 versions.'
    >>> _removed({one: one == ALONE for one in every})
    'Tokens become alike in 1 of 4 versions (attention only).'
    >>> _removed({one: None if one == ALONE else False for one in every})
    'Tokens stay different in 3 of 4 versions; 1 cannot be judged: attention only.'
    """
    count = len(outcomes)
    fallen = [one for one, outcome in outcomes.items() if outcome]
    unknown = [one for one, outcome in outcomes.items() if outcome is None]
    lost = f"; {len(unknown)} cannot be judged: {_names(unknown)}" if unknown else ""
    if len(fallen) + len(unknown) == 0:
        return f"Tokens stay different in all {count} versions."
    if not fallen:
        return f"Tokens stay different in {count - len(unknown)} of {count} versions{lost}."
    if len(fallen) == count:
        return f"Tokens become alike in all {count} versions."
    for part, words in PARTS.items():
        if not unknown and set(fallen) == {one for one in outcomes if not getattr(one, part)}:
            return (
                f"Tokens become alike exactly where {words} are removed: in {len(fallen)} of "
                f"{count} versions."
            )
    names = _names(fallen)
    return f"Tokens become alike in {len(fallen)} of {count} versions ({names}){lost}."


def _changed(alone: bool | None, outcomes: Mapping[Variant, bool | None]) -> str:
    """What changes of attention do to attention alone.

    >>> gates, window = (Variant(False, False, **{key: 8}) for key in ("gate", "window"))
    >>> print(_changed(True, {gates: True, window: False}))
    Attention alone makes tokens alike. With a window of 8 tokens they stay different. With random
    gates they become alike, too.
    """
    named: dict[bool | None, list[str]] = {False: [], True: [], None: []}
    for variant, outcome in outcomes.items():
        words = {
            "the uniform part removed": variant.gapless,
            f"a window of {variant.window} tokens": variant.window,
            "random gates": variant.gate,
        }
        named[outcome].append(" and ".join(name for name, there in words.items() if there))
    said = [f"Attention alone {_ALONE[alone]}."]
    for outcome, names in named.items():
        if names:
            too = ", too" if outcome == alone and outcome is not None else ""
            said.append(f"With {' or '.join(names)} {_THEY[outcome]}{too}.")
    return " ".join(said)


def _names(variants: Iterable[Variant]) -> str:
    return "; ".join(one.words for one in variants)
