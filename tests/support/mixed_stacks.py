"""Random stacks with a mechanism for every head."""

import random

from segre.errors import SpecError
from segre.spec import Network


def random_mechanism(draw: random.Random, t: int, a: int) -> str:
    """Any combination of options that is allowed, most of the time."""
    name = draw.choice(["softmax", "lightning", "linear", "fast", "double", "gapless"])
    options = []
    if name == "fast":
        options.append(
            f"unit={draw.choice(['none', 'none', 'layer' if a > 1 else 'none', 'sphere'])}"
        )
        options.append(f"order={draw.choice([1, 2, 2, 3])}")
    if name == "linear" or (name == "lightning" and draw.random() < 0.4):
        options.append(f"feature={draw.choice(['square', 'exp', 'silu', 'none', 'elu1', 'relu'])}")
    if name == "lightning" and draw.random() < 0.25:
        options.append("normalise=keys")
    masked = name != "gapless" and draw.random() < 0.5
    if masked:
        options.append(
            draw.choice(
                [
                    *("causal", "decay=0.9", "decay=1/2", "decay=learned", "decay=slopes"),
                    *(f"window={draw.randint(0, 2)}", f"local={draw.randint(1, 3)}"),
                ]
            )
        )
    elif t > 2 and draw.random() < 0.2:
        options += [f"conv={draw.choice(['full', 'shared', 'depthwise'])}", "kernel=2"]
    if draw.random() < 0.25:
        options.append(f"gate={draw.choice(['head', 'element'])}")
    if draw.random() < 0.15:
        options.append(f"bias={draw.choice(['key', 'query', 'both'])}")
    return ":".join([name, *options])


def random_mixed_stack(seed: int, most: int = 150) -> Network:
    """A small one."""
    draw = random.Random(seed)
    while True:
        depth, t = draw.choice([1, 1, 2]), draw.randint(2, 4)
        widths = [draw.randint(2, 4) for _ in range(depth + 1)]
        ranks = [draw.randint(1, 3) for _ in range(depth)]
        heads = [
            "+".join(random_mechanism(draw, t, a) for _ in range(draw.choice([1, 1, 2])))
            for a in ranks
        ]
        dv = [draw.choice([None, None, 2, 3])] * depth
        given = {"kind": "mix", "d": widths, "a": ranks, "heads": heads, "dv": dv, "t": t}
        try:
            spec = Network.parse(given)
        except SpecError:
            continue
        if spec.parameters <= most:
            return spec
