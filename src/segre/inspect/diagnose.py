"""What is odd in a model, and where? Findings in words, ranked, from one recorded pass."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.checkpoint.inputs import shortened, token_texts
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import open_model
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.geometry.progress import Progress, quiet
from segre.inspect.interventions import NOTHING, Intervention
from segre.inspect.measure import Finding, Measure
from segre.inspect.measures import MEASURES
from segre.inspect.measures.heads import SINK, sinks
from segre.inspect.recorded import Recorded, recorded
from segre.json_data import json_data, stated
from segre.models import Source
from segre.shown import Tabular

LENGTH = 64
NO_FINDING = "Nothing stands out."
MOST = 300_000  # bytes of the patterns of all heads together, on a page
SMALLEST = 4  # rows and columns that a pattern keeps, however many heads there are
VALUES, TOP = 8, 5  # singular values and eigenvalues of a head; tokens that it attends to
LETTERS = 24  # of a token


@dataclass(frozen=True)
class Effect:
    """What an intervention does."""

    what: str
    loss: float | None  # nats for each next token; None if the model predicts none
    sinks: int | None  # heads that attend to one token
    apart: float  # outputs, relative to those of the model as it is


@dataclass(frozen=True)
class Diagnosis(Unbounded, Tabular):
    """The findings about a model on one input."""

    model: Mapping[str, Any]
    inputs: str  # the name of a text, or random tokens
    words: tuple[str, ...]  # tokens as texts, if they are known
    tokens: int
    loss: float | None
    findings: tuple[Finding, ...]  # the most telling first
    values: Mapping[str, Array]  # by measure
    control: Mapping[str, Array]  # the same with random weights, if asked for
    control_findings: int | None = None  # how many, there
    effects: tuple[Effect, ...] = ()  # as it is, of the intervention, and of controls
    heads: Mapping[str, Any] | None = None  # `head_details`, for pages; not in the document
    status: ClassVar[Status] = "measured"

    @property
    def value(self) -> int:
        """Number of findings."""
        return len(self.findings)

    @property
    def in_words(self) -> str:
        """The number of findings, as a sentence."""
        count = self.value
        return f"{count} thing{'s stand' if count > 1 else ' stands'} out." if count else NO_FINDING

    @property
    def how(self) -> str:
        """How it is known."""
        return f"one recorded pass on {self.tokens} tokens"

    @property
    def measured(self) -> tuple[Measure, ...]:
        """The measures that this model has."""
        return tuple(one for one in MEASURES if one.key in self.values)

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            **self.model,
            "inputs": {"kind": self.inputs, "tokens": self.tokens},
            "loss": self.loss,
            "findings": [one.document() for one in self.findings],
            "measures": [
                stated(
                    one,
                    "key title axis how",
                    values=json_data(self.values[one.key]),
                    control=json_data(self.control.get(one.key)),
                )
                for one in self.measured
            ],
            "control_findings": self.control_findings,
            "effects": [vars(one) for one in self.effects],
        }


def diagnose(
    source: Source,
    *,
    text: str | Path | None = None,
    length: int = LENGTH,
    control: bool = False,
    settings: Sequence[str] = (),
    ablations: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = quiet,
) -> Diagnosis:
    """Anomalies of a model on the first tokens of a text, or on random tokens.

    `source` is a model directory, or an architecture, which then gets random weights. `control`
    also measures the same architecture with random weights. `settings` and `ablations` are
    interventions in the notation of the command line: "12:0:507=median", "3.7", "mlp:2".

    >>> found = diagnose("gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16", length=12)
    >>> found.findings, sorted(found.values)[:3]
    ((), ['alike', 'contraction', 'cosine'])
    """
    model = open_model(source, seed)
    given = shortened(model, text, 1, length, seed)
    ids = given.batches[0][0]
    words = words_of(model, ids)
    intervention = Intervention.read(settings, ablations)
    intervention.require(model.spec, len(ids))
    seen = recorded(model, ids, words, progress=progress)
    found = diagnosis(seen, given.kind)
    if control:
        twin_of = Model.drawn(model.spec, seed, f"{model.name} with random weights")
        other = recorded(twin_of, ids, words, progress=progress)
        twin, findings = measured(other)
        found = replace(
            found,
            findings=tuple(_beside(one, twin) for one in found.findings),
            control=twin,
            control_findings=len(findings),
        )
    if intervention:
        found = replace(found, effects=tuple(_effects(seen, intervention, seed, progress)))
    return found


def diagnosis(seen: Recorded, inputs: str) -> Diagnosis:
    """What stands out in a pass; `inputs` says what it was run on."""
    require_finite(seen)
    values, findings = measured(seen)
    return Diagnosis(
        seen.model.document(),
        inputs,
        seen.words,
        seen.tokens,
        seen.loss,
        tuple(sorted(findings, key=lambda one: -one.weight)),
        values,
        {},
        heads=head_details(seen),
    )


def words_of(model: Model, ids: Sequence[int] | Array) -> tuple[str, ...]:
    """Tokens as texts, if the model was trained on them and there is a tokenizer to ask."""
    numbers = [int(number) for number in ids]
    known = {} if model.random is not None else token_texts(model, sorted(set(numbers)))
    return tuple(known[number] for number in numbers) if known else ()


def require_finite(seen: Recorded) -> None:
    """Refuse a pass in which numbers are not finite, saying where that begins."""
    depth = seen.first_not_finite()
    if depth is not None:
        where = "the embeddings" if depth == 0 else f"layer {depth}"
        raise SegreError(
            f"model {seen.model.name!r}: activations are not finite after {where} on this input"
        )


def measured(seen: Recorded) -> tuple[dict[str, Array], list[Finding]]:
    """All measures of a pass, and what stands out in them."""
    values: dict[str, Array] = {}
    findings: list[Finding] = []
    for one in MEASURES:
        if seen.tokens < one.least:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            found = one.of(seen)
            if found is not None:
                values[one.key] = found
                findings += one.findings(seen, found)
    return values, findings


def _beside(finding: Finding, twin: Mapping[str, Array]) -> Finding:
    found = twin.get(finding.measure)
    if found is None or finding.extreme == "none":
        return finding
    most = np.min if finding.extreme == "smallest" else np.max
    return replace(finding, control=float(most(found)))


def _effects(
    seen: Recorded, intervention: Intervention, seed: int, progress: Progress
) -> list[Effect]:
    every = [NOTHING, intervention, *intervention.controls(seen.spec, seen.tokens, seed)]
    out = []
    for number, one in enumerate(every):
        progress("interventions", number, len(every))
        other = seen if not one else recorded(seen.model, seen.ids, seen.words, one)
        heads = sinks(other)
        size = max(float(np.linalg.norm(seen.outputs)), 1e-300)
        out.append(
            Effect(
                str(one) or "as it is",
                other.loss,
                None if heads is None else int((heads > SINK).sum()),
                float(np.linalg.norm(other.outputs - seen.outputs)) / size,
            )
        )
    return out


def head_details(seen: Recorded) -> dict[str, Any] | None:
    """What a page shows of each head, as plain data; None where attention has no patterns.

    Heads come one after the other. Patterns are averaged over blocks of tokens and rounded to 8
    bits (bytes in base 64), so that all together take at most `MOST` bytes, whatever the model.
    """
    P, mean = seen.patterns, seen.attention
    if P is None or mean is None or seen.pattern_values is None:
        return None
    layers, heads = P.shape[:2]
    block = block_of(seen.tokens, layers * heads)
    patterns = in_bytes(blocks(P, block))
    top = np.argsort(-mean, axis=-1, kind="stable")[..., :TOP]

    def listed(values: Array) -> list[list[float]]:
        return [[float(f"{x:.3g}") for x in row] for row in values.reshape(layers * heads, -1)]

    spectrum = None
    if seen.queries is not None:
        spectrum = listed(-np.sort(-np.abs(seen.queries), axis=-1)[..., :VALUES])
    return {
        "layers": layers,
        "heads": heads,
        "tokens": seen.tokens,
        "words": [word[:LETTERS] for word in seen.words],
        "block": block,
        "rows": int(patterns.shape[-1]),
        "patterns": b64encode(patterns.tobytes()).decode(),
        "singular": listed(seen.pattern_values[..., :VALUES]),
        "spectrum": spectrum,  # the largest absolute eigenvalues of W_Q' W_K
        "top": top.reshape(layers * heads, -1).tolist(),  # the tokens that get most attention
        "shares": listed(np.take_along_axis(mean, top, axis=-1)),
    }


def block_of(tokens: int, heads: int) -> int:
    """How many tokens become one row, so that the patterns of so many heads fit.

    >>> block_of(64, 72), block_of(64, 270), block_of(512, 270), block_of(64, 10**6)
    (1, 2, 16, 16)
    """
    rows = max(SMALLEST, isqrt(MOST // max(heads, 1)))
    return -(-tokens // rows)


def blocks(P: Array, block: int) -> Array:
    """Patterns (..., queries, keys) by blocks of tokens: sums over keys, means over queries.

    >>> blocks(np.eye(3), 2)
    array([[1., 0.],
           [0., 1.]])
    """
    starts = np.arange(0, P.shape[-1], block)
    sums = np.add.reduceat(np.add.reduceat(P, starts, axis=-1), starts, axis=-2)
    return np.asarray(sums / np.diff(starts, append=P.shape[-2])[:, None])


def in_bytes(P: Array) -> Array:
    """Numbers from 0 to 1 as bytes."""
    return np.asarray(np.rint(255 * P.clip(0, 1)), dtype=np.uint8)
