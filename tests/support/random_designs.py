"""Random designs of transformers, from the choices that the explorer offers."""

import random

import segre
from segre.explore.controls import CONTROLS
from segre.transformer.choices import GATED
from segre.transformer.spec import Transformer


def random_design(seed: int) -> str:
    """Choices of the controls, drawn until they do not contradict each other."""
    rng = random.Random(seed)
    for _ in range(10_000):
        heads, kv = rng.choice([(1, 1), (2, 1), (4, 2), (4, 4)])
        rank = rng.choice([2, 4, 6])
        sizes = {"d": rank * heads + rng.choice([1, 5, 8]), "layers": rng.randint(1, 4)}
        chosen = {c.key: rng.choice(c.values) for c in CONTROLS if c.kind == "choice"}
        flags = {c.key: rng.choice(["true", "false"]) for c in CONTROLS if c.kind == "flag"}
        more = {"heads": heads, "kv": kv, "head": rank, "t": rng.randint(8, 40)}
        more |= {"vocab": rng.choice([0, 90])}
        given = {**sizes, **chosen, **flags, **more}
        if rng.random() < 0.2:
            given |= {"kvrank": rng.choice([4, 8]), "kv": heads, "qknorm": "false"}
        if given["mlp"] in GATED and rng.random() < 0.3:
            given |= {"experts": 4, "active": rng.randint(1, 4), "eff": rng.randint(6, 30)}
        elif given["mlp"] != "none":
            given["ff"] = rng.randint(6, 30)
        if not given["vocab"]:
            given |= {"tied": "false", "output": "hidden"}
        if given["norm"] == "none":
            given |= {"place": "pre", "eps": "0"}
        try:
            inline = "/".join(f"{key}={value}" for key, value in given.items())
            return str(Transformer.parse(f"transformer/{inline}"))
        except segre.SegreError:
            continue
    raise AssertionError("no design was drawn that does not contradict itself")
