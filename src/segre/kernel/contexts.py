"""How many functions of few token sequences are there?"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby, product
from math import gcd
from typing import Any

from segre.kernel.document import MANY, RejectionError, keys, whole
from segre.kernel.meter import RESIDUES, afford, meter
from segre.transformer.spec import Transformer

MOST_SEQUENCES = 4096

Context = tuple[Hashable, ...]


def check(spec: Transformer, upper: Any) -> tuple[int, str]:
    """The bound that a certificate claims by contexts, and a sentence."""
    keys(upper, ("kind", "contexts"), "upper")
    count = whole(upper["contexts"], "upper.contexts", 1, MANY)
    bound = few_contexts(spec, count)
    columns = f"{count} columns" if count > 1 else "1 column"
    return bound, (
        f"Every output is one of {columns}, by the tokens that it sees: the dimension is at "
        f"most {bound}."
    )


def few_contexts(spec: Transformer, claimed: int) -> int:
    """The bound `contexts` of section 6; the number of contexts must be the claimed one."""
    letters = spec.vocab * max(spec.types, 1)
    if not spec.vocab or spec.pooler or letters**spec.t > MOST_SEQUENCES:
        raise RejectionError(
            f"upper.kind: contexts needs a vocabulary, no pooler, and at most {MOST_SEQUENCES} "
            "sequences"
        )
    afford(letters**spec.t * spec.layers * spec.t**2 * 20 * RESIDUES.step)
    meter().require_bytes(letters**spec.t * spec.t * (200 + 100 * spec.t))
    place = range(spec.t) if spec.pos == "learned" else [0] * spec.t
    every: list[list[Context]] = [
        list(zip(letters_of, place, strict=True))
        for letters_of in product(range(letters), repeat=spec.t)
    ]
    for layer in range(1, spec.layers + 1):
        known: dict[Context, int] = {}  # of this layer alone: contexts are long
        every = [
            [(known.setdefault(_seen(spec, layer, now, c), len(known)),) for c in range(spec.t)]
            for now in every
        ]
    shown = {"first": slice(1), "last": slice(-1, None)}.get(spec.read, slice(None))
    found = {context for now in every for context in now[shown]}
    if len(found) != claimed:
        raise RejectionError(f"upper.contexts: {claimed}, but there are {len(found)}")
    return _bound(spec, claimed)


def _seen(spec: Transformer, layer: int, now: list[Context], c: int) -> Context:
    """The context of token c after a layer."""
    spec = spec.at(layer)
    window = spec.window[(layer - 1) % len(spec.window)] if spec.window else 0
    keys = [
        k
        for k in range(spec.t)
        if (k <= c or not spec.causal) and (not window or abs(k - c) < window)
    ]
    shared = spec.attn == "softmax" and not spec.sinks
    skip = now[c] if spec.residual else ()
    if shared and all(now[k] == now[keys[0]] for k in keys):
        return (layer, "same", skip, now[keys[0]])
    turns = spec.rotary_dim > 0 or spec.decay != "none"
    heard = sorted((now[k], k - c if turns else 0) for k in keys)
    numbers = [(key, len(list(group))) for key, group in groupby(heard)]
    factor = gcd(*(n for _, n in numbers)) if shared else 1
    return (layer, "mixed", skip, now[c], tuple((key, n // factor) for key, n in numbers))


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the columns before the unembedding are, normed or not."""

    rank: int  # r
    sphere: bool
    added: int  # d or 2 d, by a gain and a bias, if they are the output
    bias: bool

    @classmethod
    def of(cls, spec: Transformer) -> _Columns:
        """The columns that a spec has before its unembedding."""
        if spec.project:
            return cls(spec.embed, False, 0, False)
        normed = (spec.final or spec.place == "post" or spec.transform) and spec.headnorm
        centred = normed and spec.norm == "layer"
        biased = centred and spec.gain and spec.bias in ("norm", "mlp-norm", "all")
        m = spec.embed if spec.transform and spec.embed and not spec.labels else spec.d
        added = (spec.gain + biased) * spec.d if normed else 0
        return cls(m - 1 if centred else m, normed and spec.eps == 0, added, biased)


def _bound(spec: Transformer, N: int) -> int:
    """The smallest of the three bounds by the ranks and spheres of columns."""
    of = _Columns.of(spec)
    r = of.rank
    if spec.output == "hidden":
        width = spec.embed if spec.project else spec.d
        return min(N * width, N * (r - 1 if of.sphere else r) + of.added)
    words = spec.labels or spec.vocab
    columns = words - 1 if spec.output == "softmax" else words
    rows = words if spec.logitcap else columns
    b = 1 if spec.outbias or of.bias else 0
    k = min(r, rows, N - b)
    numbers = [N * columns, k * (rows + N - b - k) + b * rows]
    if of.sphere:
        s = max(0, r - rows - N)
        numbers.append(N * (r - 1) + rows * (r + b) - r * (r - 1) // 2 + s * (s - 1) // 2)
    return min(numbers)
