"""What does segre know of one design, as the page shows it? Counts are digits, at any size.

Each question is a function of segre: `dimension`, `explain`, `cost`, `collapse`, `certify`.
Here their answers are put side by side, and what would take too long is refused in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.certificate import certify
from segre.collapse.commands import measure
from segre.collapse.study import Study
from segre.collapse.variants import Variant
from segre.errors import SegreError, TooLargeError, UnsupportedError
from segre.explore.controls import design, values_of
from segre.finding import Finding
from segre.geometry.at_any_size import at_any_size
from segre.geometry.dimension import dimension, too_large
from segre.geometry.explain import explain
from segre.report.dimensions import value_in_words
from segre.sequence.cost import cost
from segre.transformer.spec import Transformer

TOKENS = tuple(2**power for power in range(6, 21, 2))
MEMORY = 2 << 30
DEEPEST = 512  # layers that are answered for at once
_QUICKLY = 200, 6  # parameters and tokens: so many are computed with at once
_LARGEST_CURVE = 4_000_000  # parameters
_LONGEST_CURVE = 32  # tokens
_RANDOM_TOKENS = 256


def known(text: str) -> dict[str, Any]:
    """Everything that follows from formulas and theorems, which is at once."""
    spec = design(text)
    if spec.layers > DEEPEST:
        raise TooLargeError(
            f"{spec.layers:,} layers: the explorer supports up to {DEEPEST}; use segre explain"
        )
    try:
        explained = explain(spec)
        found: Finding = explained.finding  # type: ignore[union-attr]
        discrete = [one.document() for one in explained.discrete]  # type: ignore[union-attr]
        choices = [one.document() for one in explained.choices]
    except UnsupportedError as error:
        if spec.parameters > _QUICKLY[0] or spec.t > _QUICKLY[1]:
            raise UnsupportedError(
                f"the formulas do not cover these sizes (they need d > 2, t > 1 and heads no wider "
                f"than d), and {spec.parameters:,} parameters on {spec.t:,} tokens are too many "
                f"to compute here; use segre dim {spec}"
            ) from error
        found, discrete, choices = dimension(spec, symmetries=True, memory=MEMORY), [], []
    return {
        **of_finding(found),
        "values": values_of(spec),
        "discrete": discrete,
        "choices": [{**one, "total": str(one["total"])} for one in choices if one["total"]],
        "cost": costs(spec),
        "computable": not too_large(spec) and found.lower is None,
    }


def of_finding(found: Finding) -> dict[str, Any]:
    """A finding as the page shows it: a bound is said to be one."""
    spec = found.spec
    redundancy = found.redundancy
    total = sum(one.dimension for one in found.symmetries)
    return {
        "spec": str(spec),
        "parameters": str(spec.parameters),
        "dimension": value_in_words(found, "{:,}".format),
        "bound": str(found.upper if found.value is None else found.value),
        "redundant": str(spec.parameters - (found.upper or 0)),
        "counted": str(total),
        "status": "proved" if found.value is not None else "bounded",
        "known": _known_by(found),
        "how": found.how,
        "notes": list(found.notes),
        "theorem": _theorem(found),
        "pieces": {}
        if redundancy is None
        else {k: str(n) for k, n in redundancy["pieces"].items()},
        "symmetries": [
            {**one.document(), "dimension": str(one.dimension)} for one in found.symmetries
        ],
    }


def _known_by(found: Finding) -> str:
    """How the dimension is known, in a few words; what is not proved says so."""
    if found.value is not None and found.theorem is not None:
        return f"proved by theorem {found.theorem['name']}"
    if found.value is not None:
        return "proved by computation"
    if found.lower is not None:
        return "both bounds proved by computation; they do not meet"
    return "upper bound, counted by formulas; not proved to be attained"


def _theorem(found: Finding) -> dict[str, Any] | None:
    if found.theorem is None:
        return None
    named: Mapping[str, Any] = found.theorem
    return {
        "name": named["name"],
        "title": named["title"],
        "proof": named["proof"],
        "hypotheses": [
            {**one, "left": str(one["left"]), "right": str(one["right"])}
            for one in named["hypotheses"]
        ],
    }


def costs(spec: Transformer) -> list[dict[str, Any]]:
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
    if too_large(spec) and at_any_size(spec).theorem is None:
        _require_computable(spec)
    return {"certificate": certify(spec, memory=MEMORY)}


def _require_computable(spec: Transformer) -> None:
    if too_large(spec):
        raise TooLargeError(
            f"{spec.parameters:,} parameters and t={spec.t:,}: no theorem gives the dimension, and "
            "the explorer computes with at most 6,000 parameters and 16 tokens; make the design "
            "smaller"
        )


def curve(text: str) -> dict[str, Any]:
    """How unlike tokens are after every layer, with random weights, with skips and without."""
    spec = design(text)
    trunk = spec.parameters - 2 * spec.vocab * spec.d
    if trunk > _LARGEST_CURVE or spec.parameters > 10 * _LARGEST_CURVE:
        raise TooLargeError(
            f"{spec.parameters:,} parameters are too many to run here (at most "
            f"{_LARGEST_CURVE:,} in the layers); make the design smaller, or use segre collapse"
        )
    own = Variant(skip=spec.residual, norm=spec.norm != "none", mlp=spec.mlp != "none")
    bare = Variant(skip=False, norm=own.norm, mlp=own.mlp)
    changed = {"t": min(spec.t, _LONGEST_CURVE)}
    tokens = spec.vocab == 0 and (own.norm or not spec.mechanism.sums_to_one or spec.gate != "none")
    if tokens:  # what is not plain attention runs on tokens, which are random vectors here
        changed |= {"vocab": _RANDOM_TOKENS}
        spec = Transformer.from_mapping(
            {**spec.document(), **changed, "final": spec.final, "output": "hidden"}
        )
    elif spec.t > _LONGEST_CURVE:
        spec = Transformer.from_mapping({**spec.document(), **changed})
    kept = (own,) if own == bare else (own, bare)
    found = measure(spec, variants=kept, inputs=2, length=spec.t, memory=MEMORY)
    lines: dict[str, list[float | None]] = {}
    if isinstance(found.found, Study):
        study = found.found
        lines["with skips" if study.skip else "without skips"] = _median(study.own)
        if study.other is not None:
            lines["without skips" if study.skip else "with skips"] = _median(study.other)
    else:
        document = found.found.document()
        for one in document.get("curves", []):
            lines["with skips" if one["skip"] else "without skips"] = one["log10"]
    return {"curves": lines, "advice": found.advice, "how": f"measured: {found.how}"}


def _median(descent: Any) -> list[float | None]:
    from numpy import isfinite, nanmedian

    return [float(x) if isfinite(x) else None for x in nanmedian(descent.relative, axis=0)]


QUESTIONS = {"known": known, "proof": proof, "certificate": certificate, "curve": curve}
QUICK = ("known",)


def answer(question: str, text: str) -> dict[str, Any]:
    """The answer to a question about a design, or one sentence that says why there is none."""
    try:
        return QUESTIONS[question](text)
    except SegreError as error:
        return {"error": " ".join(str(error).split())}
    except MemoryError:
        return {"error": "there is not enough memory for this design; make it smaller"}
