"""The spaces of tables: constants moved between them, entries that nothing reads, all logits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from segre.fields.interface import Array
from segre.symmetry.constants import Constants, Entries, Forms, Slack, ones
from segre.symmetry.piece import Holds, Piece
from segre.symmetry.space import Bias, Weights, reader, writer
from segre.symmetry.special import Mean, UnseenShift
from segre.symmetry.wiring import has, norm_at, norm_before, stream_places
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes

_POSITIONS = ("embed", "positions")


def table_pieces(spec: Transformer) -> Iterator[Piece]:
    """Rows that are not used, constants moved between tables, and shifts of all logits."""
    if spec.unused_positions:
        yield _unused_positions(spec)
    if spec.discrete:
        yield from _between(spec)
    if spec.patch:
        yield _placed("b_P", "the bias of patches", spec, (int(spec.cls), spec.positions))
    if spec.masked:
        name = "the token of masked patches, which no input has"
        free = Entries(("embed", "mask"))
        yield Piece("unread", name, "embedding", "shifts", "exact", spec.d, free)
    if spec.cls:
        yield _placed("cls", "the class token", spec, (0, 1))
    if logits_may_shift(spec):
        yield from _logit_pieces(spec)


def _between(spec: Transformer) -> Iterator[Piece]:
    tables = [n for n in ("positions", "types") if has(spec, "embed", n)]
    if len(tables) == 2:
        yield _moved(spec, "positions", "types", "exact")
    if tables and (not spec.tied or logits_may_shift(spec)):
        yield _moved(spec, "tokens", tables[0], "softmax" if spec.tied else "exact")
    elif tables and spec.norm == "layer":
        yield from _unseen_shift(spec, tables[0])
    elif has_tied_mean(spec):
        name, part = "one constant in all entries of the tied table", "embedding"
        yield Piece("tied-mean", name, part, "shifts", "softmax", 1, Mean(("embed", "tokens")))


def _moved(spec: Transformer, first: str, second: str, holds: Holds) -> Piece:
    """What is added to one table is taken from another; through a map, if it comes first."""
    e, one, two = spec.embed or spec.d, Bias(("embed", first)), Bias(("embed", second))
    free = Constants(e, (two,), takers=(one,))
    if spec.project:
        free = Constants(e, (one,), (reader("embed", "W_E", bias=two),))
    name = f"a constant moved from all {second} to all {first}"
    return Piece("table-shift", name, "embedding", "shifts", holds, e, free)


def _placed(name: str, what: str, spec: Transformer, columns: tuple[int, int]) -> Piece:
    """A constant in all tokens of a kind, or in all their positions."""
    taker = Bias(_POSITIONS, columns=columns)
    free = Constants(spec.d, (Bias(("embed", name)),), takers=(taker,))
    title = f"a constant moved from the positions to {what}"
    return Piece("table-shift", title, "embedding", "shifts", "exact", spec.d, free)


def _unseen_shift(spec: Transformer, table: str) -> Iterator[Piece]:
    """Before a tied table, a LayerNorm's output has one coordinate that is constant."""
    if not (spec.transform or spec.final) or spec.project:
        return
    name, width = ("normT", spec.embed or spec.d) if spec.transform else ("norm", spec.d)
    site = norm_at(spec, "head", name, width)
    if site.bias is not None and not spec.outbias:
        return

    free = UnseenShift(("embed", table), site)
    title = f"a constant moved from all {table} to all tokens, which cancels in the logits"
    yield Piece("table-shift", title, "embedding", "shifts", "exact", 1, free)


def _unused_positions(spec: Transformer) -> Piece:
    """Positions before the first token, or after the last, change nothing."""
    rows, every = part_shapes(spec, "embed")["positions"]

    used = range(spec.offset, spec.offset + spec.t)
    others = [column for column in range(every) if column not in used]

    def unused(_: Weights) -> Array:
        return np.eye(every)[others]

    name, count = "positions that no token has", rows * spec.unused_positions
    free = Slack(reader(*_POSITIONS), Forms(unused, document={"unused": others}))
    return Piece("unused-positions", name, "embedding", "shifts", "exact", count, free)


def _logit_pieces(spec: Transformer) -> Iterator[Piece]:
    """A constant in all logits cancels in the softmax."""
    words = spec.labels or spec.vocab
    for kind, n, map_, biases in (
        ("U", words, "unembedding", "logits'"),
        ("rel", spec.relation, "map to the pooled token's labels", "pooled token's labels'"),
    ):
        if has(spec, "head", f"W_{kind}"):
            name = f"one vector added to all rows of the {map_}"
            free = Slack(writer("head", f"W_{kind}"), ones(n))
            e = part_shapes(spec, "head")[f"W_{kind}"][1]
            yield Piece("logit-shift", name, "head", "shifts", "softmax", e, free)
        if has(spec, "head", f"b_{kind}"):
            name = f"one constant added to all {biases} biases"
            free = Slack(writer("head", f"b_{kind}"), ones(n))
            yield Piece("bias-shift", name, "head", "norms and biases", "softmax", 1, free)


@lru_cache(maxsize=256)
def embeddings_centred(spec: Transformer) -> bool:
    """Whether nothing reads the mean of an embedding: a LayerNorm comes next."""
    if spec.norm != "layer":
        return False
    if spec.embnorm:
        return True
    if spec.embed or spec.place == "post":
        return False
    place = next(p for p in stream_places(spec) if ("embed", "") in p.producers)
    return all(end[0] != "output" and norm_before(spec, end) for end in place.consumers)


def has_tied_mean(spec: Transformer) -> bool:
    """Whether a constant in all entries of the tied table, the only one, has no effect."""
    alone = not (has(spec, "embed", "positions") or has(spec, "embed", "types"))
    return alone and spec.tied and embeddings_centred(spec) and logits_may_shift(spec)


def logits_may_shift(spec: Transformer) -> bool:
    """Whether a common shift of all logits has no effect."""
    return spec.output == "softmax" and not spec.logitcap
