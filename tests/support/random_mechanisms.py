"""Stacks with a random mechanism for every head."""

from __future__ import annotations

import random
from collections.abc import Iterator

from segre.errors import SpecError
from segre.spec import Network

NAMES = ("softmax", "lightning", "linear", "fast", "double", "gapless")
FEATURES = ("none", "square", "exp", "silu", "relu", "elu1")
DECAYS = ("0.9", "0.5", "1", "learned", "slopes", "slope(3/2)", "slope(1;0.25)")


def mechanism(chance: random.Random, t: int, a: int) -> str:
    """A mechanism with a few options."""
    name = chance.choice(NAMES)
    options = []

    def maybe(share: float, key: str, *values: object) -> None:
        if chance.random() < share:
            options.append(f"{key}={chance.choice(values)}")

    if name == "fast":
        maybe(0.4, "order", 1, 3)
    maybe(0.15, "normalise", "none", "keys", "both", *["centred"] * (name == "gapless"))
    maybe(0.6 if name == "linear" else 0.2, "feature", *FEATURES[:4], *FEATURES)
    if name == "fast" and a == 1:
        options.append("unit=none")
    else:
        maybe(0.5 if name == "fast" else 0.15, "unit", "none", "sphere", *["layer"] * (a > 1))
    maybe(0.2, "bias", "key", "query", "both")
    kind = chance.random()
    if name != "gapless" and kind < 0.45:
        if chance.random() < 0.4:
            options.append("causal")
        else:
            maybe(0.5, "decay", *DECAYS)
        maybe(0.4, "window", 0, 1, 2)
        maybe(0.15, "local", 1, 2, 3)
    elif t > 1 and kind > 0.8:
        options.append("conv=" + chance.choice(("full", "depthwise", "shared")))
        maybe(0.8, "kernel", 1, 2)
        maybe(0.2, "stride", 2)
    maybe(0.2, "gate", "head", "element")
    return ":".join([name, *options])


def stack(chance: random.Random) -> str:
    """A spec, which may be refused."""
    depth, t = chance.choice((1, 1, 2, 2, 3)), chance.choice((1, 2, 2, 3, 3, 4))
    d = [chance.randint(1, 3) for _ in range(depth + 1)]
    a = [chance.randint(1, 3) for _ in range(depth)]
    heads = []
    for i in range(depth):
        kinds = [mechanism(chance, t, a[i]) for _ in range(chance.choice((1, 1, 2)))]
        heads.append("+".join(one + chance.choice(("", "", "*2", "*3")) for one in kinds))
    dv = ",".join(str(chance.randint(1, 2)) for _ in range(depth))
    inner = f"/dv={dv}" if chance.random() < 0.4 else ""
    sizes = f"d={','.join(map(str, d))}/a={','.join(map(str, a))}"
    return f"mix/{sizes}/heads={','.join(heads)}{inner}/t={t}"


def writes_zeros(net: Network) -> bool:
    """Whether a layer before the last writes only zeros, which no other layer can divide."""
    return any(
        all(g.mechanism.normalise == "centred" and g.mechanism.keys(net.t) == 1 for g in one.groups)
        for one in net.layers[:-1]
    )


def random_mixed(seed: int, count: int, most: int) -> Iterator[Network]:
    """So many stacks of at most so many parameters, none of them plain."""
    chance = random.Random(seed)
    while count:
        try:
            net = Network.parse(stack(chance))
        except SpecError:
            continue
        if net.parameters <= most and not net.plain and not writes_zeros(net):
            count -= 1
            yield net
