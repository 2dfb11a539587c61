"""Salts at which all radicands of a transformer have roots mod p."""

from __future__ import annotations

import random

from flint import nmod_mat

from segre.referee.transformers.forward import record
from segre.referee.transformers.modular import NoRootError
from segre.referee.transformers.recording import Recording
from segre.referee.transformers.stages import roots, sources, stages
from segre.referee.transformers.tangents import Point
from segre.transformer.spec import Transformer


def rooted(
    point: Point, number: int, tries: int = 200
) -> tuple[Recording, nmod_mat, list[list[int]]] | None:
    """An input at which the network has a value: salts are redrawn where a root is missing."""
    spec, chance = point.spec, random.Random(number)
    salts = [[0] * spec.t for _ in range(sources(spec))]
    for _ in range(tries):
        X = point.input(number, salts)
        try:
            return record(spec, point.field, point.matrices, X, salts), X, salts
        except NoRootError as error:
            stage, token = error.place.stage, error.place.entry % spec.t
            own = stages(spec)[stage]
            last = error.place.root == len(roots(spec, own)) - 1
            after = last and spec.place != "pre" and own.kind in ("attention", "mlp")
            source = stage + after
            if chance.random() < 0.15:
                source = chance.randrange(source + 1)
            while source > 0 and not _drawn(spec, stages(spec)[source - 1].kind, token):
                source -= 1
            salts[source][token] = chance.randrange(1 << 20)
    return None


def _drawn(spec: Transformer, kind: str, token: int) -> bool:
    """Whether the salt of a token changes what a stage of this kind writes."""
    if kind == "attention":
        return spec.attn == "softmax" and spec.t > 1 and not (spec.causal and token == 0)
    return (kind == "mlp" and spec.mlp != "bilinear") or (kind == "head" and spec.transform)
