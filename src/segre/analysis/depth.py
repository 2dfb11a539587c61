"""Do tokens become alike with depth, in the model as it is and with parts removed?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import isnan, log10
from typing import Any

import numpy as np

from segre.analysis.part import Answer
from segre.analysis.variants import takeaways, versions
from segre.analysis.workbench import Workbench
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import family_of, load
from segre.collapse.curves import curves
from segre.collapse.mechanisms import MechanismStudy, mechanism_advice, mechanism_study
from segre.collapse.study import Study, medians, study, study_advice
from segre.collapse.variants import ALL, ALONE, FULL, what_if
from segre.collapse.verdict import THRESHOLD, advice, not_measured
from segre.errors import SegreError, SpecError, TooLargeError, UnsupportedError
from segre.finding import Status
from segre.models import FAMILIES, with_attention
from segre.transformer.spec import Transformer
from segre.values import counted, from_logarithm

NARROW = 8, 32  # heads, and their dimensions, of what is run instead of models that are too large
WORDS = 1_000  # vocabulary of what has none


def how_depth_acts(bench: Workbench) -> Answer:
    """Relative residuals by layer: of a stack past the smallest float, of a model by variant."""
    spec = with_attention(bench.spec, "rank against depth")
    if spec.residuals_in_balls:
        return _of_mechanisms(bench)
    if not spec.embedded and spec.norm == "none":
        return _of_stack(bench)
    return _of_model(bench)


def _of_stack(bench: Workbench) -> Answer:
    found = study(bench.spec, bench.seed, bench.inputs)
    how = "mean and residual are carried apart, so that numbers go on below the smallest float"
    return _on_random_tokens(bench, found, study_advice(found), how)


def _of_mechanisms(bench: Workbench) -> Answer:
    found = mechanism_study(bench.spec, bench.seed, bench.inputs)
    how = f"computed in certified arithmetic with {found.bits} bits"
    return _on_random_tokens(bench, found, mechanism_advice(found), how)


def _on_random_tokens(
    bench: Workbench, found: Study | MechanismStudy, advice: list[str], how: str
) -> Answer:
    document = found.document()
    options = bench.options(inputs=bench.inputs, seed=bench.seed)
    first, *rest = advice
    many = counted(bench.inputs, "input")
    return Answer(
        status="measured",
        lead=first,
        how=f"Random normal weights of variance 1/width and {many} of random "
        f"tokens (seed {bench.seed}); {how}.",
        command=f"segre model collapse {shlex.quote(str(bench.spec))}{options}",
        data={"kind": "stack", **document},
        notes=tuple(rest),
        takeaways={"depth": _with_depth(document)},
        details=found,
    )


def _with_depth(document: dict[str, Any]) -> str:
    """What becomes of the tokens of a stack, and of the same stack with or without skips.

    >>> _with_depth({"log10": {"relative": [[0.0, -6.0]]}, "other": None, "skip": False})
    'Tokens become alike: the relative residual is 1.0e-6 after the last layer.'
    """
    said = _becoming(last_median(document["log10"]["relative"]))
    if document.get("other") is None:
        return f"{said}."
    word = "without" if document["skip"] else "with"
    other = _becoming(last_median(document["other"]["relative"]))
    if said.partition(":")[0] == other.partition(":")[0]:
        return f"{said}; {word} skips, too."
    return f"{said}; {word} skips, they {other[7:]}."


def _becoming(last: float) -> str:
    if isnan(last):
        return "Tokens cannot be judged: numbers are lost before the last layer"
    what = "become alike" if last < log10(THRESHOLD) else "stay different"
    return f"Tokens {what}: the relative residual is {from_logarithm(last)} after the last layer"


def last_median(rows: Sequence[Sequence[float]]) -> float:
    """log10 of the residual after the last layer, the median over inputs; nan if it is lost."""
    return float(medians(np.array(rows, float))[-1])


def _of_model(bench: Workbench) -> Answer:
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
    shown = takeaways(found)
    lead = f"{first[:-1]} (estimated on a narrower one)." if narrowed else first
    options = bench.options(
        variants=",".join(["all", *(str(one) for one in alone if one != ALONE)]),
        inputs=bench.inputs,
        length=tokens.length,
        text=bench.text_given,
        seed=bench.seed,
        memory=bench.memory,
    )
    status: Status = "estimated" if narrowed else "measured"
    return Answer(
        status=status,
        lead=lead,
        how=f"{said}{basis}",
        command=f"segre model collapse {name}{options}",
        data={
            "kind": "model",
            "run": name,
            "narrowed": narrowed,
            "versions": versions(found),
            **found.document(),
        },
        notes=tuple(rest),
        takeaways=shown,
        details=found,
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
    keys: dict[str, Any] = {
        "d": heads * head,
        "layers": spec.layers,
        "heads": heads,
        "kv": heads // spec.group,
        "ff": round(spec.ff * heads * head / spec.d),
        "eps": f"{float(spec.eps):g}",
        "base": _inline(spec.base) if rotary else 0,
        "rescale": "" if _of_its_own(spec) else _inline(spec.rescale),
        "window": _inline(spec.window) if any(0 < x < 64 for x in spec.window) else 0,
        "scale": spec.scale,
        "bylayer": "true" if spec.bylayer else 0,
        "vocab": WORDS,
        "tied": "true" if spec.tied and rotary else 0,
        "t": 64,
    }
    return "/".join([family, *(f"{key}={value}" for key, value in keys.items() if value)])


def _of_its_own(spec: Transformer) -> bool:
    """Whether a rescaling has no effect up to 64 tokens, or has one number for each plane."""
    return any(kind in str(spec.rescale) for kind in ("dynamic", "longrope"))


def _inline(value: Any) -> str:
    """A value, or a list by layer, as inline specs have it."""
    every = value if isinstance(value, tuple) else (value,)
    return ",".join(str(x) if x != "" else "none" for x in every) if any(every) else ""
