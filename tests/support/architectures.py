"""Random architectures for tests, by seed or by hypothesis."""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from segre.errors import SpecError
from segre.spec import Network
from segre.transformer.choices import PIECEWISE
from segre.transformer.spec import Transformer

NOT_COUNTED: tuple[str, ...] = ()  # presets without formulas


def random_stacks(seed: int, count: int) -> Iterator[Network]:
    """One-head stacks: l <= 4, widths 1..6, a 1..4, t 1..4, both kinds."""
    rng = random.Random(seed)
    for _ in range(count):
        depth = rng.randint(1, 4)
        yield Network.parse(
            {
                "kind": rng.choice(["lightning", "softmax"]),
                "d": [rng.randint(1, 6) for _ in range(depth + 1)],
                "a": [rng.randint(1, 4) for _ in range(depth)],
                "t": rng.randint(1, 4),
            }
        )


@st.composite
def networks(draw: Any, widest: int = 5, deepest: int = 3, most_heads: int = 3) -> Network:
    """Small networks with any number of heads and value dimensions."""
    depth = draw(st.integers(1, deepest))

    def per_layer(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=depth, max_size=depth))

    widths = st.integers(1, widest)
    return Network.parse(
        {
            "kind": draw(st.sampled_from(["lightning", "softmax"])),
            "d": draw(st.lists(widths, min_size=depth + 1, max_size=depth + 1)),
            "a": per_layer(st.integers(1, 3)),
            "heads": per_layer(st.integers(1, most_heads)),
            "dv": per_layer(st.none() | st.integers(1, 3)),
            "t": draw(st.integers(1, 4)),
        }
    )


def random_transformers(seed: int, count: int) -> Iterator[Transformer]:
    """Transformers of every design that families have, at sizes where formulas are generic."""
    rng = random.Random(seed)
    found = 0
    while found < count:
        try:
            spec = Transformer.from_mapping(_random_design(rng))
        except SpecError:  # contradictory choices: draw again
            continue
        found += 1
        yield spec


def random_projections(seed: int, count: int) -> Iterator[Transformer]:
    """Narrow embeddings whose outputs are mapped back, of many designs."""
    rng = random.Random(seed)
    found = 0
    while found < count:
        design = _random_design(rng)
        design |= {"project": True, "pos": "learned", "vocab": 23, "embed": design["d"] - 1}
        design |= {"place": rng.choice(["pre", "post"]), "norm": rng.choice(["rms", "layer"])}
        design |= {"outbias": False, "share": False, "final": design["place"] == "pre"}
        design["output"] = rng.choice(["softmax", "logits", "hidden"])
        design["tied"] = design["output"] != "hidden" and rng.random() < 0.5
        for key in ("rescale", "layout", "base"):
            design.pop(key, None)
        try:
            spec = Transformer.from_mapping(design)
        except SpecError:
            continue
        found += 1
        yield spec


def _random_design(rng: random.Random) -> dict[str, Any]:
    pick = rng.choice
    heads = pick([2, 4])
    out: dict[str, Any] = {
        "d": pick([5, 6]),
        "layers": pick([1, 2]),
        "heads": heads,
        "kv": pick([1, 2]),
        "head": 2,
        "t": 3,
        "mlp": pick(["none", "gelu", "gelu-tanh", "silu", "relu", "swiglu", "geglu", "reglu"]),
        "norm": pick(["none", "rms", "rms", "layer"]),
        "pos": pick(["none", "rope", "learned"]),
        "causal": pick([True, False]),
        "share": pick([True, False, False, False]),
    }
    if out["mlp"] != "none":
        out["ff"] = pick([5, 7])
    if out["norm"] == "none":
        out["bias"] = pick(["none", "all"])
    else:
        out["eps"] = pick([0, "1e-5"])
        out["place"] = pick(["pre", "pre", "sandwich"])
        out["bias"] = pick(["none", "qkv", "all"] if out["norm"] == "rms" else ["none", "all"])
    if out["pos"] == "rope":
        out["layout"] = pick(["half", "interleaved"])
        out["rescale"] = pick(["", "linear:4", "yarn:4:64", "llama3:8:1:4:64"])
    if out["causal"]:
        out["window"] = pick([0, 0, 2, [2, 0]])
    out |= {"scale": pick([0, 0, 3]), "bylayer": pick([False, False, True])}
    if rng.random() < 0.2:
        out |= {"kvrank": 3, "qrank": pick([0, 3]), "kv": heads, "bias": "none"}
    elif rng.random() < 0.25 and out["mlp"] not in PIECEWISE:
        out["qknorm"] = True  # a region alone would leave too little freedom for its roots
    if rng.random() < 0.6:
        out |= {"vocab": 23, "tied": pick([True, False]), "outbias": pick([True, False])}
        out["output"] = pick(["softmax", "logits"])
    if out["pos"] == "learned":
        out["offset"] = pick([0, 0, 1, 2])
    if out.get("qknorm"):
        out["qknorm"] = pick([True, "all"])
    if out.get("place") == "sandwich":
        out["place"] = pick(["sandwich", "after"])
    if out["pos"] == "rope" and out["layers"] > 1:
        out["base"] = pick([10_000, 10_000, [100, 0], [100, 16]])
        out["rescale"] = pick([out["rescale"], ["", "linear:3"]])
    if out["bias"] == "all":
        out["bias"] = pick(["all", "all", "attn", "mlp"])
    if rng.random() < 0.25 and out["mlp"] != "none":
        out |= {"parallel": True, "place": "pre", "share": False}
    out["sinks"] = rng.random() < 0.2
    return out


def random_gates(seed: int, count: int) -> Iterator[Transformer]:
    """Transformers with gates, of every design that families have."""
    rng = random.Random(seed)
    found = 0
    while found < count:
        design = _random_design(rng) | {"gate": rng.choice(["head", "element"])}
        if design.get("place", "pre") == "pre" and rng.random() < 0.3:
            design |= {"heads": 1, "kv": 1}
        if rng.random() < 0.25:
            design |= {"attn": "lightning", "feature": rng.choice(["none", "silu"])}
        if rng.random() < 0.3:
            design["mixnorm"] = True
        try:
            spec = Transformer.from_mapping(design)
        except SpecError:
            continue
        found += 1
        yield spec
