"""What does segre know of one design, as the page shows it? Counts are digits, at any size.

Each question is a function of segre: `dimension`, `explain`, `cost`, `collapse`, `certify`.
Here their answers are put side by side, and what would take too long is refused in a sentence.
"""

from __future__ import annotations

from typing import Any

from segre.certificate import certify
from segre.collapse.commands import Depth, measure
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study, medians
from segre.collapse.variants import Variant
from segre.errors import SegreError, TooLargeError, UnsupportedError
from segre.explore.designs import Design, design, on_tokens
from segre.explore.known import admitted, explained, of_finding, told
from segre.geometry.dimension import dimension, too_large
from segre.json_data import json_data
from segre.spec import Network
from segre.theorems import apply
from segre.transformer.spec import Transformer

MEMORY = 2 << 30
_QUICKLY = 200, 6  # parameters and tokens: so many are computed with at once
_LARGEST_CURVE = 4_000_000  # parameters
_LONGEST_CURVE = 32  # tokens
_LARGEST_CERTIFIED, _LONGEST_CERTIFIED = 30_000, 8  # of stacks that are run in certified arithmetic
_RANDOM_TOKENS = 256


def known(text: str) -> dict[str, Any]:
    """What follows from formulas and theorems; the smallest designs are computed as well."""
    spec = admitted(text)
    try:
        found, discrete, choices = explained(spec)
    except UnsupportedError:
        if not _quick(spec):
            raise
        found, discrete, choices = dimension(spec, symmetries=True, memory=MEMORY), (), ()
    if not spec.counted and found.value is None and _quick(spec):
        found = dimension(spec, symmetries=True, memory=MEMORY)
    computable = not too_large(spec) and found.lower is None
    return {**told(spec, found, discrete, choices), "computable": computable}


def _quick(spec: Design) -> bool:
    return spec.parameters <= _QUICKLY[0] and spec.t <= _QUICKLY[1]


def proof(text: str) -> dict[str, Any]:
    """The dimension by computation, with both bounds proved."""
    spec = design(text)
    _require_computable(spec)
    return of_finding(dimension(spec, symmetries=True, memory=MEMORY))


def certificate(text: str) -> dict[str, Any]:
    """The proof as a document that `segre verify` checks."""
    spec = design(text)
    applied = apply(spec)
    if too_large(spec) and (applied is None or not applied.holds):
        _require_computable(spec)
    return {"certificate": certify(spec, memory=MEMORY)}


def _require_computable(spec: Design) -> None:
    if too_large(spec):
        raise TooLargeError(
            f"{spec.parameters:,} parameters and t={spec.t:,}: no theorem gives the dimension, and "
            "the explorer computes with at most 6,000 parameters and 16 tokens; make the design "
            "smaller"
        )


def curve(text: str) -> dict[str, Any]:
    """How unlike tokens are after every layer, with random weights, and on what it was measured."""
    spec = design(text)
    if isinstance(spec, Transformer):
        found, on = _curve_of_model(spec)
    else:
        found, on = _curve_of_stack(spec)
    what, names = found.found, ("without skips", "with skips")
    if isinstance(what, Study):
        both = {names[what.skip]: what.own, names[not what.skip]: what.other}
        lines = {name: medians(one.relative) for name, one in both.items() if one is not None}
    elif isinstance(what, MechanismStudy):
        lines = {names[False]: medians(what.relative)}
    else:
        lines = {names[one.variant.skip]: one.log10 for one in what.curves}
    return {"curves": json_data(lines), "advice": found.advice, "how": on}


def _curve_of_model(spec: Transformer) -> tuple[Depth, str]:
    trunk = spec.parameters - 2 * spec.vocab * spec.d
    if trunk > _LARGEST_CURVE or spec.parameters > 10 * _LARGEST_CURVE:
        raise _too_many(spec, "to run here", f"{_LARGEST_CURVE:,} in the layers")
    own = Variant(skip=spec.residual, norm=spec.norm != "none", mlp=spec.mlp != "none")
    bare = Variant(skip=False, norm=own.norm, mlp=own.mlp)
    length = min(spec.t, _LONGEST_CURVE)
    inputs = f"{spec.vocab:,} token embeddings"
    tokens = spec.vocab == 0 and (
        own.norm or spec.gate != "none" or not all(one.sums_to_one for one in spec.mechanisms)
    )
    if tokens:  # what is not plain attention runs on tokens, which are random vectors here
        inputs = f"a vocabulary of {_RANDOM_TOKENS} random vectors"
        spec = _changed(spec, t=length, vocab=_RANDOM_TOKENS, final=spec.final, output="hidden")
    elif spec.t > _LONGEST_CURVE:
        spec = _changed(spec, t=length)
    kept = (own,) if own == bare else (own, bare)
    found = measure(spec, variants=kept, inputs=2, length=length, memory=MEMORY)
    if isinstance(found.found, Study):
        return found, _on(f"2 inputs of {length} random vectors")
    return found, _on(f"2 inputs of {length} random tokens from {inputs}")


def _changed(spec: Transformer, **changes: Any) -> Transformer:
    return Transformer.from_mapping({**spec.document(), **changes})


def _curve_of_stack(spec: Network) -> tuple[Depth, str]:
    if spec.residuals_in_balls:
        if spec.parameters > _LARGEST_CERTIFIED:
            raise _too_many(spec, "for certified arithmetic here", f"{_LARGEST_CERTIFIED:,}")
        length = min(spec.t, _LONGEST_CERTIFIED)
        found = measure(on_tokens(spec, length), inputs=1, memory=MEMORY)
        return found, _on(f"one input of {length} random vectors, in certified arithmetic")
    if spec.parameters > _LARGEST_CURVE:
        raise _too_many(spec, "to run here", f"{_LARGEST_CURVE:,}")
    length = min(spec.t, _LONGEST_CURVE)
    found = measure(on_tokens(spec, length), inputs=2, memory=MEMORY)
    return found, _on(f"2 inputs of {length} random vectors")


def _too_many(spec: Design, what: str, most: str) -> TooLargeError:
    return TooLargeError(
        f"{spec.parameters:,} parameters are too many {what} (at most {most}); make the design "
        "smaller, or use segre model collapse"
    )


def _on(inputs: str) -> str:
    return (
        f"Measured, not proved: one draw of random weights (seed 0), run on {inputs}. The curve is "
        "the median, and says nothing about trained weights."
    )


QUESTIONS = {"known": known, "proof": proof, "certificate": certificate, "curve": curve}


def answer(question: str, text: str) -> dict[str, Any]:
    """The answer to a question about a design, or one sentence that says why there is none."""
    try:
        return QUESTIONS[question](text)
    except SegreError as error:
        return {"error": " ".join(str(error).split())}
    except MemoryError:
        return {"error": "there is not enough memory for this design; make it smaller"}
