"""What is a variant of a model called in words, and which of the variants collapse?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from segre.collapse.curves import Curves
from segre.collapse.variants import ALONE, FULL, Variant
from segre.collapse.verdict import THRESHOLD, collapses

PARTS = {"skip": "skips", "mlp": "MLPs", "norm": "norms"}


def in_words(variant: Variant) -> str:
    """The name of a variant for readers who do not know the keys of `--variants`.

    >>> in_words(FULL), in_words(ALONE), in_words(Variant(skip=False, norm=False))
    ('the model as it is', 'attention only', 'without skips and norms')
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
    return ", ".join([*removed, *changed]) or "the model as it is"


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
    'Tokens become alike in 1 of 4 versions: attention only.'
    """
    count = len(outcomes)
    fallen = [one for one, outcome in outcomes.items() if outcome]
    unknown = [one for one, outcome in outcomes.items() if outcome is None]
    lost = f" {len(unknown)} cannot be judged: {_names(unknown)}." if unknown else ""
    if not fallen:
        which = "any" if not unknown else "any other"
        return f"Tokens do not become alike in {which} of the {count} versions.{lost}"
    if len(fallen) == count:
        return f"Tokens become alike in all {count} versions."
    for part, words in PARTS.items():
        if not unknown and set(fallen) == {one for one in outcomes if not getattr(one, part)}:
            return (
                f"Tokens become alike exactly where {words} are removed: in {len(fallen)} of "
                f"{count} versions."
            )
    return f"Tokens become alike in {len(fallen)} of {count} versions: {_names(fallen)}.{lost}"


def _changed(alone: bool | None, outcomes: Mapping[Variant, bool | None]) -> str:
    """What changes of attention do to attention alone.

    >>> _changed(True, {Variant(False, False, gate=True): True})
    'Attention only makes tokens alike. Random gates do not prevent that.'
    """
    words = {"gapless": "removing the uniform part", "window": "a window", "gate": "random gates"}
    by_outcome: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for variant, outcome in outcomes.items():
        (name,) = [words[key] for key in words if getattr(variant, key)]
        if variant.window:
            name = f"a window of {variant.window} tokens"
        by_outcome[outcome].append(name)
    verb = {
        True: "makes tokens alike",
        False: "keeps tokens different",
        None: "gives numbers that cannot be judged",
    }
    said = [f"Attention only {verb[alone]}."]
    for outcome in (False, True, None):
        names = by_outcome[outcome]
        if names:
            said.append(_sentence(names, alone, outcome))
    return " ".join(said)


def _sentence(names: list[str], alone: bool | None, outcome: bool | None) -> str:
    many = len(names) > 1 or names == ["random gates"]
    subject = listed(names)
    if outcome is None:
        verb = f"{'give' if many else 'gives'} numbers that cannot be judged"
    elif alone is True:
        prevents = "prevent" if many else "prevents"
        verb = f"{'do' if many else 'does'} not prevent that" if outcome else f"{prevents} that"
    elif outcome:
        verb = "make them alike" if many else "makes them alike"
    else:
        verb = "keep them different" if many else "keeps them different"
    return f"{subject[0].upper()}{subject[1:]} {verb}."


def _names(variants: Iterable[Variant]) -> str:
    return "; ".join(in_words(one) for one in variants)


def listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> listed(["skips"]), listed(["skips", "MLPs", "norms"])
    ('skips', 'skips, MLPs and norms')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
