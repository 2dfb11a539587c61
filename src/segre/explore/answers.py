"""What does segre know of one design, as the page shows it? Counts are digits, at any size.

Each question is a function of segre: `dimension`, `explain`, `cost`, `collapse`, `certify`.
Here their answers are put side by side, and what would take too long is refused in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from segre.analysis.comparison import group_of
from segre.architectures import Architecture
from segre.certificate import certify
from segre.collapse.commands import Depth, measure
from segre.collapse.mechanisms import MechanismStudy
from segre.collapse.study import Study
from segre.collapse.variants import Variant
from segre.errors import SegreError, TooLargeError, UnsupportedError
from segre.explore.designs import Design, design, on_tokens
from segre.explore.stacks import as_hybrid, choices_of_stack, known_of_stack
from segre.finding import GROUPS, Finding
from segre.geometry.choice import Choice
from segre.geometry.dimension import dimension, too_large
from segre.geometry.discrete import Discrete, discrete_of_hybrid
from segre.geometry.explain import Explanation, explain
from segre.hybrid.spec import Hybrid
from segre.report.dimensions import value_in_words
from segre.sequence.cost import cost
from segre.spec import Network
from segre.theorems import apply
from segre.transformer.spec import Transformer

TOKENS = tuple(2**power for power in range(6, 21, 2))
MEMORY = 2 << 30
DEEPEST = 512  # layers that are answered for at once
_QUICKLY = 200, 6  # parameters and tokens: so many are computed with at once
_LARGEST_CURVE = 4_000_000  # parameters
_LONGEST_CURVE = 32  # tokens
_LARGEST_CERTIFIED, _LONGEST_CERTIFIED = 30_000, 8  # of stacks that are run in certified arithmetic
_RANDOM_TOKENS = 256


def known(text: str) -> dict[str, Any]:
    """Everything that follows from formulas and theorems, which is at once."""
    spec = design(text)
    if spec.depth > DEEPEST:
        raise TooLargeError(
            f"{spec.depth:,} layers: the explorer answers up to {DEEPEST}; use segre explain"
        )
    found, discrete, choices = _of_model(spec) if isinstance(spec, Transformer) else _of_stack(spec)
    return {
        **of_finding(found),
        "discrete": [one.document() for one in discrete],
        "choices": [{**one.document(), "total": str(one.total)} for one in choices if one.total],
        "cost": costs(spec),
        "computable": not too_large(spec) and found.lower is None,
    }


def _of_model(spec: Transformer) -> tuple[Finding, Sequence[Discrete], Sequence[Choice]]:
    try:
        explained = explain(spec)
        assert isinstance(explained, Explanation)
        return explained.finding, explained.discrete, explained.choices
    except UnsupportedError as error:
        why = "they need d > 2, t > 1 and heads no wider than d"
        return _computed_at_once(spec, f"the formulas do not cover these sizes ({why})", error)


def _of_stack(spec: Network | Hybrid) -> tuple[Finding, Sequence[Discrete], Sequence[Choice]]:
    found = known_of_stack(spec)
    if found is None:
        return _computed_at_once(spec, "no formula covers these mechanisms at these sizes", None)
    if found.value is None and _quick(spec):
        found = dimension(spec, symmetries=True, memory=MEMORY)
    return found, discrete_of_hybrid(as_hybrid(spec)), choices_of_stack(spec)


def _quick(spec: Design) -> bool:
    return spec.parameters <= _QUICKLY[0] and spec.t <= _QUICKLY[1]


def _computed_at_once(
    spec: Design, why: str, error: UnsupportedError | None
) -> tuple[Finding, Sequence[Discrete], Sequence[Choice]]:
    if not _quick(spec):
        raise UnsupportedError(
            f"not known here: {why}, and {spec.parameters:,} parameters on {spec.t:,} tokens are "
            f"too many to compute with at once; run: segre dim {spec}"
        ) from error
    return dimension(spec, symmetries=True, memory=MEMORY), (), ()


def of_finding(found: Finding) -> dict[str, Any]:
    """A finding as the page shows it: a bound is said to be one, and so is a prediction."""
    spec = found.spec
    upper = found.upper if found.estimate is None else found.estimate
    pieces = dict.fromkeys(GROUPS, 0)
    for one in found.symmetries:
        group = one.group or (group_of(one.name) if found.theorem is None else "")
        if group:
            pieces[group] += one.dimension
    return {
        "spec": str(spec),
        "parameters": str(spec.parameters),
        "dimension": f"predicted {found.estimate:,}"
        if found.estimate is not None
        else value_in_words(found, "{:,}".format),
        "bound": str(upper),
        "redundant": str(spec.parameters - (upper or 0)),
        "status": _status(found),
        "known": _known_by(found),
        "how": found.how,
        "notes": list(found.notes),
        "theorem": _theorem(found.theorem),
        "unmet": _theorem(_covering(spec)) if found.value is None else None,
        "pieces": {group: str(count) for group, count in pieces.items()},
        "symmetries": [
            {**one.document(), "dimension": str(one.dimension)} for one in found.symmetries
        ],
    }


def _status(found: Finding) -> str:
    if found.value is not None:
        return "proved"
    return "bounded" if found.estimate is None else "estimated"


def _known_by(found: Finding) -> str:
    """How the dimension is known, in a few words; what is not proved says so."""
    if found.value is not None and found.theorem is not None:
        return f"proved by theorem {found.theorem['name']}"
    if found.value is not None:
        return "proved by computation"
    if found.estimate is not None:
        return "predicted by a formula; neither proved nor a bound"
    if found.lower is not None:
        return "both bounds proved by computation; they do not meet"
    return "upper bound, counted by formulas; not proved to be reached"


def _covering(spec: Architecture) -> Mapping[str, Any] | None:
    """The theorem about such designs, of which some hypothesis fails at these sizes."""
    applied = apply(spec)
    return None if applied is None else applied.document()


def _theorem(named: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if named is None:
        return None
    return {
        "name": named["name"],
        "title": named["title"],
        "proof": named["proof"],
        "trusts": named["trusts"],
        "symmetries": {name: str(count) for name, count in named["symmetries"].items()},
        "hypotheses": [
            {**one, "left": str(one["left"]), "right": str(one["right"])}
            for one in named["hypotheses"]
        ],
    }


def costs(spec: Design) -> list[dict[str, Any]]:
    """Operations, and numbers kept for later tokens, against the number of tokens."""
    found = cost(spec, list(TOKENS))
    return [
        {
            "tokens": tokens,
            "operations": str(found.total(tokens)),
            "state": None if found.state(tokens) is None else str(found.state(tokens)),
            "methods": sorted({one.method for one in found.lines if one.tokens == tokens}),
        }
        for tokens in found.tokens
    ]


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
    lines: dict[str, list[float | None]] = {}
    if isinstance(found.found, Study):
        study = found.found
        lines["with skips" if study.skip else "without skips"] = _median(study.own.relative)
        if study.other is not None:
            lines["without skips" if study.skip else "with skips"] = _median(study.other.relative)
    elif isinstance(found.found, MechanismStudy):
        lines["without skips"] = _median(found.found.relative)
    else:
        for one in found.found.document().get("curves", []):
            lines["with skips" if one["skip"] else "without skips"] = one["log10"]
    return {"curves": lines, "advice": found.advice, "how": on}


def _curve_of_model(spec: Transformer) -> tuple[Depth, str]:
    trunk = spec.parameters - 2 * spec.vocab * spec.d
    if trunk > _LARGEST_CURVE or spec.parameters > 10 * _LARGEST_CURVE:
        raise TooLargeError(
            f"{spec.parameters:,} parameters are too many to run here (at most "
            f"{_LARGEST_CURVE:,} in the layers); make the design smaller, or use segre collapse"
        )
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


def _curve_of_stack(spec: Network | Hybrid) -> tuple[Depth, str]:
    if isinstance(spec, Network) and spec.mechanism.sums_to_one:
        if spec.parameters > _LARGEST_CURVE:
            raise TooLargeError(
                f"{spec.parameters:,} parameters are too many to run here (at most "
                f"{_LARGEST_CURVE:,}); make the design smaller, or use segre collapse"
            )
        length = min(spec.t, _LONGEST_CURVE)
        found = measure(on_tokens(spec, length), inputs=2, memory=MEMORY)
        return found, _on(f"2 inputs of {length} random vectors")
    length = min(spec.t, _LONGEST_CERTIFIED)
    if spec.parameters > _LARGEST_CERTIFIED:
        raise TooLargeError(
            f"{spec.parameters:,} parameters are too many for certified arithmetic here (at most "
            f"{_LARGEST_CERTIFIED:,}); make the design smaller, or use segre collapse"
        )
    found = measure(on_tokens(spec, length), inputs=1, memory=MEMORY)
    return found, _on(f"one input of {length} random vectors, in certified arithmetic")


def _on(inputs: str) -> str:
    return (
        f"Measured, not proved: one draw of random weights (seed 0), run on {inputs}. The curve is "
        "the median, and says nothing about trained weights."
    )


def _median(relative: Any) -> list[float | None]:
    from numpy import isfinite, nanmedian

    return [float(x) if isfinite(x) else None for x in nanmedian(relative, axis=0)]


QUESTIONS = {"known": known, "proof": proof, "certificate": certificate, "curve": curve}


def answer(question: str, text: str) -> dict[str, Any]:
    """The answer to a question about a design, or one sentence that says why there is none."""
    try:
        return QUESTIONS[question](text)
    except SegreError as error:
        return {"error": " ".join(str(error).split())}
    except MemoryError:
        return {"error": "there is not enough memory for this design; make it smaller"}
