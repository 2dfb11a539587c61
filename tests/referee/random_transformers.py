"""Random transformers, and salts at which all their radicands have roots mod p."""

from __future__ import annotations

import random
from typing import Any

from flint import nmod_mat

from segre.errors import SpecError
from segre.referee.transformers.forward import Recording, record
from segre.referee.transformers.modular import NoRootError
from segre.referee.transformers.stages import roots, sources, stages
from segre.referee.transformers.tangents import Point
from segre.referee.transformers.witness import inputs_at
from segre.transformer.spec import Transformer

MLPS = (
    *"none gelu gelu-tanh gelu-quick silu relu relu2".split(),  # noqa: SIM905
    *"swiglu geglu geglu-tanh geglu-quick reglu bilinear".split(),  # noqa: SIM905
)


RESCALES = (
    "linear:2",
    "yarn:4:16",
    "yarn:2:64:fast=4:attention=1.5",
    "llama3:8:1:4:64",
    "dynamic:2:2",
)


def random_transformer(seed: int) -> Transformer:
    """Any combination of features that the reader of specs allows, small."""
    chance = random.Random(seed)
    while True:
        try:
            return Transformer.from_mapping(_features(chance.choice))
        except SpecError:
            continue


def _features(pick: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "d": pick([2, 3, 4]),
        "layers": pick([1, 1, 2, 2, 3]),
        "heads": pick([1, 2, 2, 4]),
        "head": pick([1, 2, 2, 3, 4]),
        "kv": pick([0, 1, 2]),
        "dv": pick([0, 0, 1, 2, 5]),
        "mlp": pick(MLPS),
        "norm": pick(["none", "rms", "layer", "layer"]),
        "place": pick(["pre", "post", "sandwich"]),
        "gain": pick([True, True, False]),
        "eps": pick([0, 0, "1e-5"]),
        "pos": pick(["none", "rope", "learned"]),
        "layout": pick(["half", "interleaved"]),
        "bias": pick(["none", "qkv", "all", "all"]),
        "causal": pick([True, False]),
        "residual": pick([True, True, False]),
        "qknorm": pick([False, False, True]),
        "vocab": pick([0, 3, 4, 5]),
        "attn": pick(["softmax"] * 4 + ["lightning"]),
        "cap": pick([0, 0, 0, 30]),
        "share": pick([False, False, True]),
        "t": pick([1, 2, 2, 2, 3, 3]),
    }
    if given["mlp"] != "none":
        given["ff"] = pick([1, 2, 3])
    if pick([False, False, True]):
        plain = {"kv": 0, "cap": 0, "qknorm": False, "bias": "none", "attn": "softmax"}
        given |= plain | {"kvrank": pick([1, 2, 3]), "qrank": pick([0, 2])}
    if given["pos"] == "rope":
        given["rotary"] = pick([0, 2]) if "kvrank" not in given else pick([2, 4])
        given["rescale"] = pick(["", "", *RESCALES])
    if given["causal"]:
        given["window"] = pick([0, 0, 2, [2, 0], [0, 2]])
    given |= {"scale": pick([0, 0, 1, "2.5"]), "bylayer": pick([False, False, True])}
    if given["pos"] == "learned":
        given["positions"] = given["t"] + pick([0, 1])
    if pick([False, False, False, True]):
        given |= {"experts": pick([2, 3]), "active": pick([1, 2]), "eff": pick([1, 2])}
        given |= {"shared": pick([0, 2]), "dense": pick([0, 0, 1])}
    if given["vocab"]:
        flags = ("embnorm", "embscale", "transform", "outbias", "pooler")
        given |= {flag: pick([False, False, True]) for flag in flags}
        given |= {"tied": pick([False, True]), "types": pick([0, 0, 2])}
        given |= {"embed": pick([0, 0, 2, 3]), "logitcap": pick([0, 0, 20])}
        given["output"] = pick(["softmax", "softmax", "logits", "hidden"])
    if pick([False, True]):
        given["final"] = pick([False, True])
    return given


def rooted(
    point: Point, number: int, tries: int = 200
) -> tuple[Recording, nmod_mat, list[list[int]]] | None:
    """An input at which the network has a value: salts are redrawn where a root is missing."""
    spec, chance = point.spec, random.Random(number)
    salts = [[0] * spec.t for _ in range(sources(spec))]
    for _ in range(tries):
        X = inputs_at(point, number, salts)
        try:
            return record(spec, point.field, point.matrices, X, salts), X, salts
        except NoRootError as error:
            stage, token = error.place.stage, error.place.entry % spec.t
            kind = stages(spec)[stage].kind
            last = error.place.root == len(roots(spec, kind)) - 1
            after = last and spec.place != "pre" and kind in ("attention", "mlp")
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
