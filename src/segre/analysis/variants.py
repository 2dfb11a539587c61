"""What is a variant of a model called in words, and which of the variants collapse?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from segre.collapse.curves import Curves
from segre.collapse.variants import ALONE, FULL, Variant
from segre.collapse.verdict import THRESHOLD, collapses
from segre.values import listed

_ALONE = {
    True: "makes tokens alike",
    False: "keeps tokens different",
    None: "gives numbers that cannot be judged",
}
_THEY = {True: "they become alike", False: "they stay different", None: "this cannot be judged"}
PARTS = {"skip": "skips", "mlp": "MLPs", "norm": "norms"}


def in_words(variant: Variant) -> str:
    """The name of a variant for readers who do not know the keys of `--variants`.

    >>> in_words(FULL), in_words(ALONE), in_words(Variant(skip=False, norm=False))
    ('the whole model', 'attention only', 'without skips and norms')
    >>> in_words(Variant(skip=False, mlp=False, norm=False))
    'attention only, without norms'
    >>> in_words(Variant(skip=False, mlp=False, gapless=True)), in_words(Variant(window=8))
    ('attention only, uniform part removed', 'with a window of 8 tokens')
    """
    changes = {
        "uniform part removed": variant.gapless,
        f"with a window of {variant.window} tokens": variant.window > 0,
        "with random gates": variant.gate,
        "the MLPs with skips": variant.mlp_skip is True and not variant.skip,
        "the MLPs without skips": variant.mlp_skip is False and variant.skip,
    }
    changed = [words for words, there in changes.items() if there]
    if not variant.skip and not variant.mlp:
        return ", ".join(["attention only", *["without norms"] * (not variant.norm), *changed])
    gone = [words for part, words in PARTS.items() if not getattr(variant, part)]
    removed = [f"without {listed(gone)}"] if gone else []
    return ", ".join([*removed, *changed]) or "the whole model"


def versions(found: Curves) -> list[dict[str, Any]]:
    """Every variant as plain data: its name, its name in words, and what becomes of it."""
    return [
        {
            "variant": str(curve.variant),
            "words": in_words(curve.variant),
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
    """Which variants collapse, by what they lack if that decides it.

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
    return "; ".join(in_words(one) for one in variants)
