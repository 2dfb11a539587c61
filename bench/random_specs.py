"""Random small architectures and weights, by seed: any combination of features that specs allow."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np

from segre.errors import SpecError
from segre.network import LayerWeights
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.weights import Weights

MLPS = (
    *("none", "gelu", "gelu-tanh", "gelu-quick", "silu", "relu", "relu2"),
    *("swiglu", "geglu", "geglu-tanh", "geglu-quick", "reglu", "bilinear", "clamped"),
)
RESCALES = (
    "linear:2",
    "yarn:4:16",
    "yarn:2:64:fast=4:attention=1.5",
    "llama3:8:1:4:64",
    "dynamic:2:2",
)
NORM_BIASES = ("norm", "mlp-norm")
DENSE: tuple[Any, ...] = (1, [0, 1])
SPECIAL = ("generic", "zero", "zero values", "sparse", "ones")


def random_stack(seed: int) -> Network:
    """A stack of up to three layers with any number of heads and value dimensions."""
    chance = random.Random(seed)
    depth = chance.randint(1, 3)

    def each(values: list[Any], count: int = depth) -> list[Any]:
        return [chance.choice(values) for _ in range(count)]

    return Network.parse(
        {
            "kind": chance.choice(["lightning", "softmax"]),
            "d": each([1, 2, 3, 4], depth + 1),
            "a": each([1, 2, 3]),
            "heads": each([1, 1, 2, 3]),
            "dv": each([None, None, 1, 2]),
            "t": chance.randint(1, 3),
        }
    )


def random_weights(spec: Network, seed: int) -> tuple[str, Weights]:
    """Weights of a stack, of a kind on which normal forms may stumble; and the kind's name."""
    chance = random.Random(seed)
    kind = chance.choice(SPECIAL)
    drawn = Weights.random(spec, seed=seed, exact=chance.random() < 0.5)
    vector = drawn.vector
    if kind == "zero":
        vector = vector * 0
    elif kind == "sparse":
        kept = [x if chance.random() < 0.4 else x * 0 for x in vector]
        vector = np.array(kept, dtype=vector.dtype)
    elif kind == "ones":
        vector = vector * 0 + 1
    elif kind == "zero values":
        layers = [LayerWeights(w.W_K, w.W_Q, w.W_V * 0, w.W_O) for w in drawn.layers]
        return kind, Weights.of_layers(spec, layers)
    return kind, Weights(spec, vector)


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
        given["router"] = pick(["sigmoid", "softmax", "softmax-raw", "sigmoid-raw"])
    if given["vocab"]:
        flags = ("embnorm", "embscale", "transform", "outbias", "pooler")
        given |= {flag: pick([False, False, True]) for flag in flags}
        given |= {"tied": pick([False, True]), "types": pick([0, 0, 2])}
        given |= {"embed": pick([0, 0, 2, 3]), "logitcap": pick([0, 0, 20])}
        given["output"] = pick(["softmax", "softmax", "logits", "hidden"])
    if pick([False, True]):
        given["final"] = pick([False, True])
    if given["qknorm"]:
        given["qknorm"] = pick([True, "all"])
    if given["place"] == "sandwich":
        given["place"] = pick(["sandwich", "after"])
    if given["pos"] == "rope" and given["layers"] > 1:
        given["base"] = pick([10_000, 10_000, [16, 0], [100, 16]])
        given["rescale"] = pick([given["rescale"], given["rescale"], ["", "linear:3"]])
    if given["bias"] == "all":
        given["bias"] = pick(["all", "all", "attn", "mlp"])
    if pick([False, False, False, True]):
        given |= {"parallel": True, "place": "pre", "residual": True, "share": False}
    if "experts" in given and given["norm"] == "rms" and pick([False, True]):
        given |= {"expbias": True, "shared": 0}
    if given["mlp"] == "clamped":
        given["limit"] = "0.5"
    given["sinks"] = pick([False, False, False, True]) and given["attn"] == "softmax"
    if given["vocab"] and pick([False, False, True]):
        given |= {"tied": False, "transform": False, "logitcap": 0, "labels": pick([2, 3])}
        given["read"] = "first" if given["pooler"] else pick(["all", "first", "last"])
    elif given["vocab"] and given["transform"] and given["pooler"]:
        given["relation"] = 2
    return given


CORE_MLPS = (
    *("none", "none", "gelu", "gelu-tanh", "silu", "relu", "swiglu", "swiglu"),
    *("geglu", "reglu", "bilinear"),
)


def random_core(seed: int) -> Transformer:
    """A small transformer of the designs that most models have, among them degenerate sizes.

    Two thirds have one layer and nearly all fewer than 200 weights, so that hundreds are done in
    minutes. Widths may be too small for a head, vocabularies for the weights, and t may be 1.
    """
    chance = random.Random(f"core {seed}")
    while True:
        try:
            return Transformer.from_mapping(_core(chance.choice))
        except SpecError:
            continue


def _core(pick: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "d": pick([2, 3, 3, 4, 4, 5]),
        "layers": pick([1, 1, 2]),
        "heads": pick([1, 2, 2]),
        "head": pick([1, 2, 2, 3]),
        "dv": pick([0, 0, 1, 2]),
        "mlp": pick(CORE_MLPS),
        "norm": pick(["none", "rms", "layer"]),
        "gain": pick([True, True, True, False]),
        "pos": pick(["none", "rope", "learned"]),
        "bias": pick(["none", "none", "qkv", "all"]),
        "causal": pick([True, False]),
        "attn": pick(["softmax"] * 3 + ["lightning"]),
        "share": pick([False] * 5 + [True]),
        "residual": pick([True] * 5 + [False]),
        "t": pick([1, 2, 2, 3, 3]),
    }
    given["kv"] = pick([given["heads"], 1])
    given["ff"] = pick([2, 3, 4]) if given["mlp"] != "none" else 0
    if given["norm"] != "none":
        given |= {"place": pick(["pre", "pre", "post", "sandwich"]), "eps": pick([0, "1e-5"])}
    if given["pos"] == "rope":
        given["head"] = given["rotary"] = 2
    if given["pos"] == "learned":
        given["positions"] = given["t"] + pick([0, 0, 1])
    kind = pick(["plain"] * 4 + ["latent", "qknorm"])
    if kind == "latent":
        given |= {"attn": "softmax", "kv": given["heads"], "bias": "none"}
        given |= {"kvrank": pick([2, 3]), "qrank": pick([0, 2, 3])}
    elif kind == "qknorm":
        given |= {"attn": "softmax", "qknorm": True}
    if given["mlp"] in ("swiglu", "geglu", "bilinear") and pick([True, False]):
        given |= {"experts": pick([2, 3]), "active": pick([1, 2]), "eff": pick([1, 2]), "ff": 0}
        given |= {"router": pick(["sigmoid", "softmax"]), "shared": pick([0, 0, 2])}
    if pick([True, False]):
        given |= {"vocab": pick([3, 5, 7, 11]), "tied": pick([False, True])}
        given |= {"outbias": pick([False, False, True]), "output": pick(["softmax", "logits"])}
        given["embnorm"] = given["norm"] != "none" and pick([False, False, True])
    return given


def random_design(seed: int) -> Transformer:
    """A small transformer that may have any key of specs, among them degenerate sizes.

    One head, heads as wide as the stream or wider, width 2, one hidden unit, 1 to 20 tokens, very
    few words, ranks, patches, class tokens, gates, decays: most are far from any model.
    """
    chance = random.Random(f"design {seed}")
    while True:
        given = _sizes_and_choices(chance)
        given |= _themes(chance, given)[chance.choice(THEMES)]
        if given["mlp"] == "clamped":
            given["limit"] = "0.5"
        with suppress(SpecError):
            return Transformer.from_mapping(given)


THEMES = (
    *("plain", "plain", "plain", "words", "words", "words", "experts", "latent", "normed queries"),
    *("gated", "decay", "patches", "labels", "projected", "first norm", "skip", "transform"),
)


def _sizes_and_choices(chance: random.Random) -> dict[str, Any]:
    """Choices that go with most others."""
    pick = chance.choice
    d, norm, mlp = pick([2, 3, 3, 4, 4, 5]), pick(["none", "rms", "layer", "layer"]), pick(MLPS)
    given: dict[str, Any] = {
        **{"d": d, "heads": pick([1, 1, 2, 2, 3]), "head": pick([1, 2, 2, 3, d, d, d + 1])},
        **{"layers": pick([1, 1, 1, 2]), "kv": pick([0, 0, 1]), "dv": pick([0, 0, 0, 1, 2, d + 1])},
        **{"mlp": mlp, "norm": norm, "pos": pick(["none", "rope", "learned"])},
        **{"bias": pick(["none", "none", "qkv", "attn", "mlp", "all", "all", *NORM_BIASES])},
        **{"causal": pick([True, False]), "residual": pick([True, True, True, False])},
        **{"attn": pick(["softmax"] * 5 + ["lightning"]), "share": pick([False] * 7 + [True])},
        **{"scale": pick([0, 0, 0, 1, "2.5"]), "t": pick([1, 2, 2, 2, 3, 3, 4, 6, 17, 20])},
    }
    if mlp != "none":
        given |= {"ff": pick([1, 1, 2, 3, 5]), "parallel": pick([False] * 7 + [True])}
    if norm != "none":
        given |= {"place": pick(["pre", "pre", "post", "sandwich", "after"])}
        given |= {"gain": pick([True] * 4 + [False]), "eps": pick([0, "1e-5", "0.1"])}
        given["final"] = pick([True, False])
    if given["pos"] == "rope":
        given |= {"rotary": pick([0, 0, 2]), "layout": pick(["half", "interleaved"])}
        given |= {"base": pick([10_000] * 4 + [16, [16, 0], [100, 16]])}
        given["rescale"] = pick(["", "", "", *RESCALES])
    if given["pos"] == "learned":
        given["offset"] = pick([0, 0, 0, 1])
        given["positions"] = given["t"] + given["offset"] + pick([0, 0, 1, 2])
    if given["causal"]:
        given["window"] = pick([0, 0, 0, 2, [2, 0], [0, 2]])
    if given["attn"] == "softmax":
        given |= {"sinks": pick([False] * 5 + [True]), "cap": pick([0] * 5 + [30])}
        given["bylayer"] = pick([False] * 5 + [True])
    return given


def _themes(chance: random.Random, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Choices that need others, with what they need."""
    pick, d = chance.choice, given["d"]
    one_way = {"attn": "softmax", "kv": 0, "cap": 0}
    learned = {"pos": "learned", "positions": 0, "rotary": 0, "rescale": "", "base": 10_000}
    normed = {"norm": pick(["rms", "layer"]), "eps": pick([0, "1e-5", "0.1"])}
    words: dict[str, Any] = {
        **{"vocab": pick([2, 3, 4, 5, 7, 11]), "tied": pick([True, False, False])},
        **{"output": pick(["softmax", "softmax", "logits", "hidden"]), "types": pick([0, 0, 1, 2])},
        **{"outbias": pick([False, False, True]), "logitcap": pick([0, 0, 0, 20])},
        **{"embscale": pick([False, False, True]), "embnorm": pick([False, False, True])},
        **{"embed": pick([0, 0, 0, 1, 2, 3, d]), "pooler": pick([False, False, False, True])},
    }
    few = words | {"tied": False, "outbias": False, "logitcap": 0, "embscale": False, "types": 0}
    labels = {"labels": pick([1, 2, 3]), "read": pick(["all", "first", "last"]), "relation": 0}
    ends = normed | {"place": "pre", "final": True}
    gated_mlp = {"mlp": pick(["swiglu", "geglu", "reglu", "bilinear", "clamped"])}
    gates = {"gate": pick(["head", "element"])}
    lightning = {"attn": "lightning", "sinks": False, "cap": 0, "bylayer": False}
    return {
        "plain": {},
        "words": words,
        "experts": gated_mlp
        | {"experts": pick([2, 3, 4]), "active": pick([1, 2]), "eff": pick([1, 2])}
        | {"router": pick(["sigmoid", "softmax", "softmax-raw", "sigmoid-raw"]), "ff": 0}
        | pick(
            [
                {},
                {"shared": 2, "sharedgate": pick([True, False])},
                {"ff": 2, "dense": pick(DENSE)},
            ]
        )
        | pick([{}, {"groups": 2, "within": 1, "experts": 4, "router": "sigmoid"}])
        | pick([{}, {"expbias": True, "norm": "rms", "shared": 0, "sharedgate": False}]),
        "latent": one_way
        | {"kvrank": pick([1, 2, 3, d]), "qrank": pick([0, 1, 2, d]), "bias": "none"}
        | ({"rotary": 2} if given["pos"] == "rope" else {}),
        "normed queries": normed | one_way | {"qknorm": pick([True, "all"])},
        "gated": normed | gates | pick([{}, {"mixnorm": True, "gate": "element"}]),
        "decay": normed
        | lightning
        | {"gate": "element", "head": 2, "dv": 2, "causal": True, "pos": "none", "window": 0}
        | {"rotary": 0, "rescale": "", "base": 10_000, "positions": 0, "offset": 0}
        | {"decay": pick(["slopes", "none"]), "feature": pick(["silu", "none"])}
        | pick([{}, {"mixnorm": True, "mixeps": pick([0, "1e-3"])}]),
        "patches": ends
        | learned
        | {"patch": pick([1, 2, 3, 5]), "cls": pick([True, False]), "masked": pick([True, False])}
        | {"offset": 0, "residual": True, "causal": False, "parallel": False, "share": False}
        | pick(
            [{}, {"layerscale": True, "bias": "all"}, labels | {"output": "logits", "read": "all"}]
        ),
        "labels": few | ends | labels | {"output": pick(["logits", "softmax"]), "pooler": False},
        "projected": few
        | learned
        | ends
        | {"embed": pick([1, max(1, d - 1)]), "project": True, "residual": True, "share": False}
        | {"embnorm": False, "pooler": False, "tied": pick([True, False]), "output": "logits"},
        "first norm": few
        | ends
        | {"embnorm": True, "embed": 0, "bias": "none", "share": False, "parallel": False}
        | {"residual": True, "firstnorm": False},
        "skip": {"norm": "rms", "place": "post", "final": False, "bias": "none", "residual": True}
        | {"skip": pick(["1/2", 2]), "parallel": False},
        "transform": words
        | ends
        | {"transform": True, "mlp": "gelu", "ff": 2, "output": "logits", "pooler": False}
        | pick([{}, {"pooler": True, "relation": 2, "causal": False}])
        | pick([{}, labels | {"headnorm": False, "tied": False, "logitcap": 0, "pooler": False}]),
    }
