"""Do tokens become alike with depth, in the model as it is and with parts removed?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from math import isnan, log10
from typing import Any

from segre.analysis.part import Part
from segre.analysis.workbench import Workbench
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import family_of, load
from segre.collapse.commands import Depth, measure
from segre.collapse.curves import Curves, curves
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.collapse.variants import ALL, ALONE, FULL, PARTS, Variant, what_if
from segre.collapse.verdict import THRESHOLD, advice, collapses, not_measured
from segre.errors import SegreError, SpecError, TooLargeError, UnsupportedError
from segre.fields.interface import Array
from segre.models import FAMILIES, with_attention
from segre.transformer.spec import Transformer
from segre.values import counted, from_logarithm

NARROW = 8, 32  # heads, and their dimensions, of what is run instead of models that are too large
WORDS = 1_000  # vocabulary of what has none


def how_depth_acts(bench: Workbench) -> Part:
    """Relative residuals by layer: of a stack past the smallest float, of a model by variant."""
    spec = with_attention(bench.spec, "rank against depth")
    if not spec.embedded and spec.norm == "none":
        return _on_random_tokens(bench)
    return _of_model(bench)


def _on_random_tokens(bench: Workbench) -> Part:
    depth = measure(bench.spec, inputs=bench.inputs, seed=bench.seed)
    found = depth.found
    assert not isinstance(found, Curves)
    how = "mean and residual are carried apart, so that numbers go on below the smallest float"
    if isinstance(found, MechanismStudy):
        how = f"computed in certified arithmetic with {found.bits} bits"
    many = counted(bench.inputs, "input")
    options = bench.options(inputs=bench.inputs, seed=bench.seed)
    return Part(
        status="measured",
        lead=depth.advice[0],
        how=f"Random normal weights of variance 1/width and {many} of random "
        f"tokens (seed {bench.seed}); {how}.",
        command=f"segre model collapse {shlex.quote(str(bench.spec))}{options}",
        data={"kind": "stack", **found.document()},
        notes=tuple(depth.advice[1:]),
        takeaways={"depth": _with_depth(found)},
        details=depth,
    )


def _with_depth(found: Study | MechanismStudy) -> str:
    """What becomes of the tokens of a stack, and of the same stack with or without skips.

    >>> print(_with_depth(measure("softmax/d=8,8,8,8/a=4/t=6", inputs=1).found))
    Tokens stay different: the relative residual is 0.11 after the last layer; with skips, too.
    """
    if isinstance(found, MechanismStudy):
        return f"{_becoming(found.relative)}."
    said = _becoming(found.own.relative)
    if found.other is None:
        return f"{said}."
    word = "without" if found.skip else "with"
    other = _becoming(found.other.relative)
    if said.partition(":")[0] == other.partition(":")[0]:
        return f"{said}; {word} skips, too."
    return f"{said}; {word} skips, they {other[7:]}."


def _becoming(relative: Array) -> str:
    """What becomes of tokens, by the median over inputs after the last layer."""
    last = float(medians(relative)[-1])
    if isnan(last):
        return "Tokens cannot be judged: numbers are lost before the last layer"
    what = "become alike" if last < log10(THRESHOLD) else "stay different"
    return f"Tokens {what}: the relative residual is {from_logarithm(last)} after the last layer"


def _of_model(bench: Workbench) -> Part:
    name, loaded, said, narrowed = _runnable(bench)
    tokens = bench.tokens(loaded, bench.inputs, bench.length)
    changed, refused = what_if(loaded.spec, tokens.length)
    alone = [one for one in changed if one.plain == ALONE]  # where collapse shows, for little time
    variants = tuple(dict.fromkeys((*ALL, *alone)))
    found = curves(
        loaded, tokens, variants, past_floor=True, seed=bench.seed, progress=bench.progress
    )
    basis, first, *rest = (*advice(found), *not_measured(refused))
    if found[FULL].sink is not None:  # the next sentence is about that
        first, rest = f"{first} {rest[0]}", rest[1:]
    lead = f"{first[:-1]} (estimated on a narrower one)." if narrowed else first
    options = bench.options(
        variants=",".join(["all", *(str(one) for one in alone if one != ALONE)]),
        inputs=bench.inputs,
        length=tokens.length,
        text=bench.text_given,
        seed=bench.seed,
        memory=bench.memory,
    )
    return Part(
        status="estimated" if narrowed else "measured",
        lead=lead,
        how=f"{said}{basis}",
        command=f"segre model collapse {name}{options}",
        data={
            "kind": "model",
            "run": name,
            "narrowed": narrowed,
            "versions": _versions(found),
            **found.document(),
        },
        notes=tuple(rest),
        takeaways=_takeaways(found),
        details=Depth(found, [basis, first, *rest]),
    )


def _runnable(bench: Workbench) -> tuple[str, Model, str, bool]:
    """The model to run: the target, with a vocabulary if it has none, or a narrower model like it.

    Returns its name, the model, a sentence about it, and whether it is narrower than the target.
    """
    spec = bench.spec
    assert isinstance(spec, Transformer)
    if not spec.embedded:
        if "=" not in bench.given:
            raise UnsupportedError(
                "the spec has no vocabulary, and so no model to run; give it one"
            )
        worded = f"{bench.given}/vocab={WORDS}"
        said = f"Run with a vocabulary of {WORDS:,} random tokens, as the spec has none. "
        return shlex.quote(worded), load(worded, bench.seed, memory=bench.memory), said, False
    try:
        return bench.argument, bench.loaded, "", False
    except TooLargeError as error:
        narrow = narrow_model(spec, family_of(bench.source).replace("_", "-"))
        try:
            loaded = load(narrow, bench.seed, memory=bench.memory)
        except SegreError:
            raise error from None
    said = (
        f"Too large to run ({spec.parameters:,} parameters): instead, a model of the same design "
        f"and depth with width {loaded.spec.d} instead of {spec.d:,}. "
    )
    return narrow, loaded, said, True


def narrow_model(spec: Transformer, family: str) -> str:
    """The inline spec of a narrow model: the same depth, grouping and shape of the MLP.

    >>> from segre.models import architecture
    >>> narrow_model(architecture("llama-3-8b"), "llama")
    'llama/d=256/layers=32/heads=8/kv=2/ff=896/eps=1e-05/base=500000/vocab=1000/t=64'
    """
    if family not in FAMILIES:
        raise SpecError(f"model of family {family}: there is no inline spec for it")
    most, head = NARROW
    heads = max(spec.group, most // spec.group * spec.group)
    rotary = spec.pos == "rope"
    # no effect up to 64 tokens, or one number for each plane
    of_its_own = any(kind in str(spec.rescale) for kind in ("dynamic", "longrope"))
    keys: dict[str, Any] = {
        "d": heads * head,
        "layers": spec.layers,
        "heads": heads,
        "kv": heads // spec.group,
        "ff": round(spec.ff * heads * head / spec.d),
        "eps": f"{float(spec.eps):g}",
        "base": _inline(spec.base) if rotary else 0,
        "rescale": "" if of_its_own else _inline(spec.rescale),
        "window": _inline(spec.window) if any(0 < x < 64 for x in spec.window) else 0,
        "scale": spec.scale,
        "bylayer": "true" if spec.bylayer else 0,
        "vocab": WORDS,
        "tied": "true" if spec.tied and rotary else 0,
        "t": 64,
    }
    return "/".join([family, *(f"{key}={value}" for key, value in keys.items() if value)])


def _inline(value: Any) -> str:
    """A value, or a list by layer, as inline specs have it."""
    every = value if isinstance(value, tuple) else (value,)
    return ",".join(str(x) if x != "" else "none" for x in every) if any(every) else ""


# --- variants, in words --------------------------------------------------------------------------


_ALONE = {
    True: "makes tokens alike",
    False: "keeps tokens different",
    None: "gives numbers that cannot be judged",
}
_THEY = {True: "they become alike", False: "they stay different", None: "this cannot be judged"}


def _versions(found: Curves) -> list[dict[str, Any]]:
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


def _takeaways(found: Curves) -> dict[str, str]:
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
