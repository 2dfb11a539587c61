"""Certificates by theorem for tests: random designs of every theorem, and documents of them."""

import random
from collections.abc import Iterator
from typing import Any

from segre.errors import SpecError
from segre.kernel.document import sha256
from segre.spec import Network
from segre.theorems import apply
from segre.transformer.spec import Transformer

STACKS = ("A", "A'", "L1", "L")
TRANSFORMERS = ("B", "C", "D1", "E", "D2", "F1", "F2")
THEOREMS = (*STACKS, *TRANSFORMERS)
Spec = Network | Transformer


def document_of(spec: Spec) -> dict[str, Any] | None:
    """The certificate that the prover's theorem gives; None if none covers the design.

    Where hypotheses do not hold, all the rest is as if they did.
    """
    found = apply(spec)
    if found is None:
        return None
    hypotheses = [
        {"name": h.name, "left": h.left, "relation": h.relation, "right": h.right}
        for h in found.hypotheses
    ]
    counted = [{"name": name, "dimension": n} for name, n in found.symmetries.items() if n]
    n = max(0, spec.parameters - sum(found.symmetries.values()))
    by = {"lower_by": "theorem", "upper_by": "theorem", "status": "proved"}
    claim = {"parameters": spec.parameters, "lower": n, "upper": n, **by}
    head = {"format": "segre-certificate", "version": 6, "spec": spec.document(), "digest": ""}
    lower = {"kind": "theorem", "name": found.theorem.name, "hypotheses": hypotheses}
    upper = {"kind": "theorem", "symmetries": counted}
    nothing = {"point": None, "independence": None, "roots": None}
    return sealed({**head, "claim": claim, **nothing, "lower": lower, "upper": upper})


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """The same with its digest and its checksum made right."""
    body = {key: value for key, value in document.items() if key != "checksum"}
    body["digest"] = sha256(body["spec"])
    return {**body, "checksum": sha256(body)}


def random_designs(theorem: str, seed: int, count: int) -> Iterator[Spec]:
    """Designs that a theorem covers, of all sizes; its hypotheses hold for some of them."""
    rng = random.Random(f"{theorem} {seed}")
    found = 0
    while found < count:
        try:
            if theorem in STACKS:
                spec: Spec = Network.from_mapping(_stack(theorem, rng))
            else:
                spec = Transformer.from_mapping(_transformer(theorem, rng))
        except SpecError:  # contradictory choices: draw again
            continue
        found += 1
        yield spec


def _stack(theorem: str, rng: random.Random) -> dict[str, Any]:
    depth = 1 if theorem == "L1" else rng.randint(2 if theorem == "L" else 1, 5)
    widest = rng.choice([3, 6, 9])
    kind = "softmax" if theorem[0] == "A" else "lightning"
    d = [rng.randint(1, widest) for _ in range(depth + 1)]
    a = [rng.randint(1, widest) for _ in range(depth)]
    if rng.random() < 0.7 and theorem in ("A'", "L"):
        d = [d[0]] * (depth + 1) if theorem == "A'" else [d[0], *(max(d[0], x) for x in d[1:])]
        a = [min(x, d[0]) for x in a] if theorem == "A'" else [rng.randint(1, d[0] + 1)] * depth
    out: dict[str, Any] = {"kind": kind, "d": d, "a": a, "t": rng.randint(1, widest + 2)}
    if theorem == "A'":
        out["heads"] = [rng.randint(1, 5) for _ in range(depth)]
        out["dv"] = [
            rng.choice([None, rng.randint(1, d[0]), d[0] + rng.randint(0, 1)]) for _ in range(depth)
        ]
        if set(out["heads"]) == {1} and set(out["dv"]) == {None}:
            out["heads"][0] = 2
    return out


def _transformer(theorem: str, rng: random.Random) -> dict[str, Any]:
    pick, many = rng.choice, rng.random() < 0.7
    d = rng.randint(1, 12) if rng.random() < 0.8 else 64 * rng.randint(1, 9)
    heads, wide = pick([1, 2, 3, 4, 8]), d > 12
    rotary = theorem in ("B", "C", "D1", "E")
    head = pick([2, 4, 6, 8, 32 if wide else 2, rng.randint(1, d)])
    gated, plain = ["swiglu", "geglu", "geglu-tanh"], ["silu", "gelu", "gelu-tanh"]
    mlps = gated if theorem == "E" else plain if theorem[0] == "F" else gated + plain
    out: dict[str, Any] = {
        "kind": "transformer",
        "d": d,
        "layers": pick([1, 2, 2, 3, 5, 40]),
        "heads": heads,
        "kv": pick([k for k in range(1, heads + 1) if heads % k == 0]),
        "head": head,
        "dv": pick([head, rng.randint(1, d + 1), -(-d // heads)]),
        "ff": pick([rng.randint(1, 3 * d + 1), 4 * d]),
        "mlp": pick(mlps),
        "eps": pick([0, "1e-5", "1/3", "1e-6", 2] if not many else ["1e-5", "1e-6", "1/3", 2]),
        "t": rng.randint(1, 9) if not many else rng.randint(10, 40) * (head + d),
        "scale": pick([0, 0, 3, "1/2"]),
        "bylayer": pick([False, False, True]),
    }
    if theorem != "B":
        out["vocab"] = rng.randint(1, 4 * d + 9) if not many else rng.randint(20, 90) * (d + 9)
        if rng.random() < 0.3:
            out["vocab"] += head**2 * d * heads
    (_rotary_keys if rotary else _learned_keys)(theorem, rng, out)
    return out


def _rotary_keys(theorem: str, rng: random.Random, out: dict[str, Any]) -> None:
    pick, head = rng.choice, out["head"]
    out.update(norm="rms", pos="rope", causal=True, layout=pick(["half", "interleaved"]))
    out["base"] = pick([10_000, 500_000, 2])
    out["rotary"] = head if rng.random() < 0.9 else 2
    out["rescale"] = pick(
        [
            *("", "", "linear:4", "llama3:8:1:4:8192", "llama3:8:1:4.5:28.25", "llama3:2:1:4:25"),
        ]
    )
    if theorem in ("B", "C"):
        out["qknorm"] = rng.random() < 0.4
    if theorem == "B":
        return
    t = out["t"]
    out["window"] = pick([0, 0, t + 5, [t // 2 + 2, 0], [0, t + 3], head + 2, [t + 9, t // 3 + 2]])
    out["output"] = pick(["softmax", "logits"])
    out["embscale"] = pick([True, False])
    out["tied"] = theorem == "E" or rng.random() < 0.5
    if theorem == "D1":
        out["bias"] = "qkv"
    if theorem == "E":
        out.update(place="sandwich", cap=pick([50, 30, "1/3", 50, 0]))
        out["logitcap"] = pick([30, "7.5", 20, 10, 0])


def _learned_keys(theorem: str, rng: random.Random, out: dict[str, Any]) -> None:
    pick, d = rng.choice, out["d"]
    out.update(norm="layer", pos="learned", bias="all", head=pick([out["head"], max(1, d - 1)]))
    out["positions"] = out["t"] + pick([0, 0, 0, 0, 1, 7])
    if theorem == "D2":
        out.update(causal=True, tied=True, output="softmax")
        return
    out.update(place="post", embnorm=True, types=pick([0, 2]))
    if theorem == "F1":
        out.update(tied=True, transform=True, outbias=True, output="softmax")
    else:
        out.update(pooler=rng.random() < 0.5, output="hidden")
