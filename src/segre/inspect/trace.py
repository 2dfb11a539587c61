"""Which input token made this output? Four ways side by side, from one recorded pass.

Rollout multiplies patterns and knows no values. Relevance weighs patterns by gradients. The frozen
operator is the model with its patterns, gates and roots held as they were: it is affine in the
tokens, and its terms add up to the output. Paths split these terms by the number of heads on the
way. The gradient is the true derivative, which is another matrix than the operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.checkpoint.inputs import shortened
from segre.checkpoint.runnable import open_model
from segre.collapse.passes import Pass
from segre.collapse.record import record
from segre.collapse.variants import FULL
from segre.errors import SpecError, TooLargeError, UnsupportedError
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.inspect.diagnose import LENGTH, require_finite, words_of
from segre.inspect.recorded import Recorded, gradients, recorded
from segre.json_data import stated
from segre.models import Source
from segre.shown import Tabular
from segre.transformer.forward import at_length
from segre.values import quote

WAYS = {
    "rollout": "attention rollout: patterns only",
    "relevance": "relevance: patterns weighted by gradients (Chefer et al.)",
    "operator": "frozen operator: terms that sum to the output, together with constants",
    "gradient": "gradient times input: the exact derivative",
}
_TARGET = re.compile(r"(-?\d+)(?::(\d+))?")


@dataclass(frozen=True)
class Trace(Unbounded, Tabular):
    """The contribution of every input token to one output."""

    model: Mapping[str, Any]
    inputs: str
    ids: tuple[int, ...]
    words: tuple[str, ...]  # tokens as texts, if they are known
    position: int  # of the output, from 0
    output: int | None  # the token whose logit is the target; None: the hidden state
    output_text: str
    target: float  # its value: the logit, or 1 for the whole hidden state
    scores: Mapping[str, Array]  # by way: (n,)
    lengths: Array  # (5, n): terms of the operator by heads on the way: 0, 1, 2, 3, more
    constant: float  # the operator's constant: what no token made
    error: float  # of the operator's sum, relative to the target
    operator: Array | None = field(default=None, repr=False)  # the whole of it, if asked for
    status: ClassVar[Status] = "measured"

    @property
    def value(self) -> int:
        """The token with the largest term of the operator."""
        return int(np.abs(self.scores["operator"]).argmax())

    @property
    def how(self) -> str:
        """How it is known."""
        return f"one recorded pass; terms sum to the output up to {self.error:.1e}"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        place = {"position": self.position, "token": self.output, "text": self.output_text}
        return {
            **self.model,
            "inputs": {"kind": self.inputs, "tokens": list(self.ids), "texts": list(self.words)},
            "target": {**place, "value": self.target},
            **stated(self, "scores lengths constant error"),
        }


def trace(
    source: Source,
    *,
    text: str | Path | None = None,
    target: str = "-1",
    length: int = LENGTH,
    seed: int = 0,
    whole: bool = False,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Trace:
    """The contribution of every token of a text to an output.

    `source` is a model directory, or an architecture, which then gets random weights. `target` is a
    position, counted from 0 or from the end (-1), optionally with the id of the token whose logit
    to trace ("12:345"); by default the likeliest token. For a model without logits the target is
    the hidden state at the position. `whole` keeps the operator itself, an (n d) x (n d) matrix.

    >>> found = trace("gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16", length=6)
    >>> found.position, found.error < 1e-9
    (5, True)
    >>> terms = found.scores["operator"].sum() + found.constant
    >>> bool(abs(terms - found.target) < 1e-9)
    True
    """
    model = open_model(source, seed)
    given = shortened(model, text, 1, length, seed)
    ids = given.batches[0][0]
    seen = recorded(model, ids, words_of(model, ids), progress=progress)
    require_finite(seen)
    if seen.patterns is None:
        raise UnsupportedError(
            f"model {quote(model.name)}: its attention has no patterns, which trace needs"
        )
    position, output = _target(target, seen)
    done = record(model, ids, FULL, memory=memory)
    covector, fixed, value = _functional(seen, position, output)
    terms = (done.pull(covector) * done.X).sum(axis=-1)
    constant = fixed + float((covector * done.constant).sum())
    back = gradients(seen, _seed(seen, position, output), np.float64)
    texts = () if output is None else words_of(model, [output])
    patterns = list(seen.patterns)
    return Trace(
        model.document(),
        given.kind,
        tuple(int(number) for number in ids),
        seen.words,
        position,
        output,
        texts[0] if texts else "",
        value,
        {
            "rollout": rollout(patterns)[position],
            "relevance": normalised(relevance(patterns, back.patterns))[position],
            "operator": terms,
            "gradient": (back.streams[0] * seen.streams[0]).sum(axis=-1),
        },
        by_length(done, covector),
        constant,
        abs(float(terms.sum()) + constant - value) / max(abs(value), 1e-300),
        dense(done, memory) if whole else None,
    )


def _target(text: str, seen: Recorded) -> tuple[int, int | None]:
    """The position, and the token whose logit is traced."""
    found = _TARGET.fullmatch(text)
    if found is None:
        raise SpecError(
            f"--target {quote(text)} is not allowed; allowed: a position such as 12 or -1, "
            "optionally with the id of a token, such as 12:345"
        )
    n = seen.tokens
    position = int(found[1])
    if not -n <= position < n:
        raise SpecError(f"--target {quote(text)}: the input has only {n} tokens")
    position %= n
    if not _has_logits(seen):
        if found[2] is not None:
            raise SpecError(
                f"--target {quote(text)}: the model has no logits; give only a position"
            )
        return position, None
    token = int(seen.outputs[:, position].argmax()) if found[2] is None else int(found[2])
    if token >= len(seen.outputs):
        raise SpecError(
            f"--target {quote(text)}: the vocabulary has only {len(seen.outputs)} tokens"
        )
    return position, token


def _has_logits(seen: Recorded) -> bool:
    """Whether the outputs are plain logits of the last stream: a norm and a matrix."""
    spec = seen.spec
    odd = spec.transform or spec.project or spec.logitcap or spec.labels or spec.pooler
    return spec.output == "logits" and not odd


def _functional(seen: Recorded, position: int, output: int | None) -> tuple[Array, float, float]:
    """The target as a covector of the last stream and a constant, roots fixed; and its value."""
    spec = at_length(seen.spec, seen.tokens)
    last = seen.streams[-1] if seen.last is None else seen.last
    out = np.zeros_like(last)
    fixed = 0.0
    if output is None:
        row = last[position] / max(float((last[position] ** 2).sum()), 1e-300)
        value = 1.0
    else:
        w = seen.model.part("head")
        if spec.tied:
            row = seen.model.columns("tokens", np.array([output]))[:, 0]
        else:
            row = w["W_U"][output]
        fixed = float(w["b_U"][output, 0]) if "b_U" in w else 0.0
        value = float(seen.outputs[output, position])
    if spec.final:
        x = seen.streams[-1][position]
        w = seen.model.part("head", ["norm.gain", "norm.bias"])
        centred = x - x.mean() if spec.norm == "layer" else x
        root = float(np.sqrt((centred**2).mean() + float(spec.eps)))
        if "norm.bias" in w:
            fixed += float(row @ w["norm.bias"][:, 0])
        row = row * (w["norm.gain"][:, 0] if "norm.gain" in w else 1.0) / root
        row = row - row.mean() if spec.norm == "layer" else row
    out[position] = row
    return out, fixed, value


def _seed(seen: Recorded, position: int, output: int | None) -> Array:
    """The derivative of the target by the outputs; of a hidden state, along itself."""
    seed = np.zeros_like(seen.outputs)
    if output is not None:
        seed[output, position] = 1
        return seed
    if seen.spec.output == "hidden":
        column = seen.outputs[:, position]
        seed[:, position] = column / max(float((column**2).sum()), 1e-300)
        return seed
    seed[:, min(position, seed.shape[1] - 1)] = 1 / len(seed)  # of labels and transforms
    return seed


def rollout(patterns: Sequence[Array]) -> Array:
    """(n, n): the product of (I + mean pattern) / 2 over the layers; rows sum to one.

    >>> rollout([np.full((2, 3, 3), 1 / 3)])[0].round(3).tolist()
    [0.667, 0.167, 0.167]
    """
    n = patterns[0].shape[-1]
    out = np.eye(n)
    for P in patterns:
        out = (np.eye(n) + P.mean(axis=0)) / 2 @ out
    return np.asarray(out)


def relevance(patterns: Sequence[Array], gradients: Sequence[Array]) -> Array:
    """(n, n): Chefer's rule R <- R + mean_h (dA * A)^+ R, from R = I."""
    R = np.eye(patterns[0].shape[-1])
    for P, G in zip(patterns, gradients, strict=True):
        R = R + np.maximum(G * P, 0).mean(axis=0) @ R
    return R


def normalised(R: Array) -> Array:
    """Rows of R - I, divided by their sums; a row of zeros stays one.

    >>> normalised(np.array([[1.0, 0.0], [3.0, 2.0]])).tolist()
    [[0.0, 0.0], [0.75, 0.25]]
    """
    rest = R - np.eye(len(R))
    total = rest.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(rest, total, out=np.zeros_like(rest), where=total != 0))


def by_length(done: Pass, target: Array, most: int = 3) -> Array:
    """(most + 2, n): terms of every token by the number of heads on the way, the last: more."""
    terms = np.zeros((most + 1, *target.shape))
    terms[0] = target
    for layer in reversed(done.layers):
        after = layer.pull_finish(terms)
        through = layer.pull_heads(after[:-1])
        past = np.zeros_like(after) if layer.past is None else layer.past.pull(after)
        terms = np.concatenate([past[:1], past[1:] + through])
    split = (terms * done.X).sum(axis=-1)
    whole = (done.pull(target) * done.X).sum(axis=-1)
    return np.concatenate([split, (whole - split.sum(axis=0))[None]])


def dense(done: Pass, memory: int) -> Array:
    """The whole operator, (n d, n d): rows are numbers of the output, columns of the input."""
    n, d = done.X.shape
    size = 8 * (n * d) ** 2
    if 3 * size > memory:
        raise TooLargeError(
            f"dense: {n} tokens of width {d} have an operator of {n * d:,} x {n * d:,}, which "
            f"needs {3 * size / 2**30:,.1f} GiB; use fewer tokens, or raise --memory"
        )
    return np.concatenate(list(_rows(done, n, d)))


def _rows(done: Pass, n: int, d: int) -> Iterator[Array]:
    for token in range(n):
        units = np.zeros((d, n, d))
        units[np.arange(d), token, np.arange(d)] = 1
        yield done.pull(units).reshape(d, n * d)
