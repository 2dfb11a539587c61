"""`segre model lineage` and `weights hash` on checkpoints whose history is known.

Tiny trained models of six families with four layers, in float32 and bfloat16, and copies of them
in which layers, tokens, widths or numbers were changed, in place and moved afterwards. A verdict
that names another history is wrong. So is a function hash that a change of one matrix by 1 % leaves
as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from bench.descendants import (
    SCHEMES,
    dequantised,
    moved,
    narrowed,
    relayered,
    stored_as,
    with_tokens_permuted,
)
from bench.faults.tally import Tally
from bench.tiny_models import FAMILIES, Checkpoint, fine_tuned, taken, trained
from segre.checkpoint.content_hash import content_hash
from segre.checkpoint.lineage import lineage, related_checkpoints
from segre.checkpoint.model import Model

LAYERS = 4
TYPES: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
NOISE = 0.01  # of the spread of a matrix
Found = Iterator[tuple[str, bool, str]]  # what was done, whether the answer is right, the answer


def verdict(one: Checkpoint, two: Checkpoint) -> str:
    """The verdict on two checkpoints."""
    with Model.open(one) as a, Model.open(two) as b:
        return related_checkpoints(a, b).verdict


def rebuilt(base: Checkpoint) -> dict[str, Checkpoint]:
    """By verdict: copies with other layers, tokens or widths; bit for bit what they were."""
    return {
        "layers reordered": relayered(base, [0, 2, 1, 3]),
        "layers dropped": relayered(base, [0, 2, 3]),
        "layers duplicated": relayered(base, [0, 1, 1, 2, 2, 3]),
        "tokens permuted": with_tokens_permuted(base),
        "width pruned": narrowed(base),
    }


def structures(base: Checkpoint, apart: Checkpoint, *, quick: bool) -> Found:
    """Layers, tokens and widths; also of a model that was trained apart."""
    for dtype in list(TYPES)[-1:] if quick else TYPES:
        first = stored_as(base, TYPES[dtype])
        for number, (want, other) in enumerate(rebuilt(base).items()):
            copy = stored_as(other, TYPES[dtype])
            copies = {"": copy, ", then moved": moved(copy, number)}
            for how, two in list(copies.items())[number % 2 :: 2] if quick else copies.items():
                found = verdict(first, two)
                yield f"{want}{how}", found == want, f"{found} ({dtype})"
    if not quick:
        for what, other in {"": apart, **rebuilt(apart)}.items():
            found = verdict(base, other)
            yield f"trained apart{what and ', '}{what}", found == "unrelated", found


def quantisations(base: Checkpoint, *, quick: bool) -> Found:
    """All schemes, in all types; then moved, which leaves what noise would leave."""
    types = {**TYPES, "float16": np.float16}
    for number, scheme in enumerate(SCHEMES):
        for place, dtype in enumerate(types):
            if quick and (number % 5 or place != 1):
                continue
            found = verdict(base, dequantised(base, scheme, types[dtype]))
            yield f"quantised, stored in {dtype}", found == "quantised", f"{found} ({scheme})"
    for scheme in () if quick else ("int8, rows", "int4, groups of 32", "NF4, groups of 64"):
        found = verdict(base, moved(dequantised(base, scheme, np.float32), 3))
        yield "quantised, then moved", found in ("noise added", "quantised"), found


def origins(model: Any, base: Checkpoint, family: str, *, quick: bool) -> Found:
    """A model and two fine-tunes of it; and copies, whose distance is what rounding did."""
    one, two = (fine_tuned(model, family, 20, language=i) for i in (1, 2))
    for dtype in list(TYPES)[-1:] if quick else TYPES:
        copies = [stored_as(x, TYPES[dtype]) for x in (base, one, two)]
        thirds = (("", copies[2]), (", moved", moved(copies[2], 7)))
        for how, third in thirds[1:] if quick else thirds:
            pairs = lineage(copies[0], copies[1], third).pairs
            said = [pair.verdict for pair in pairs]
            good = {*said} <= {"fine-tuned", "common origin"}
            yield f"two fine-tunes and their origin{how}", good, ", ".join(said)
            yield f"the two fine-tunes{how}, called {said[2]}", good, said[2]
        with Model.open(copies[0]) as a, Model.open(moved(copies[0], 8)) as b:
            pair = lineage(a, b).pairs[0]
        exact = dtype == "float32"
        good = pair.verdict == f"same {'function' if exact else 'up to rounding'}, moved"
        good &= (pair.distance < 1e-5) == exact
        yield f"moved, {dtype}", good, f"{pair.verdict}, {pair.distance:.2g}"


def hashes(base: Checkpoint, seed: int, *, quick: bool) -> Found:
    """One matrix after the other, with noise; its copy moved has the hash that it had."""
    arrays, config = base
    rng = np.random.default_rng(seed)
    first = content_hash(base)
    names = [name for name, x in arrays.items() if x.ndim == 2]
    for name in names[::12] if quick else names:
        x = arrays[name]
        noisy = x + NOISE * x.std() * rng.standard_normal(x.shape)
        found = content_hash(({**arrays, name: noisy.astype(x.dtype)}, config))
        yield "hash, one matrix with 1 % noise", found.value != first.value, f"equal ({name})"
    again = content_hash(moved(base, seed))
    good = again.compare(first).verdict == "same function"
    yield "hash, moved", good, again.compare(first).reason


def tally(quick: bool) -> list[Tally]:
    """All kinds of changes of models of all families."""
    import torch

    torch.set_num_threads(1)
    right: dict[str, Counter[bool]] = {}
    wrong: dict[str, list[str]] = {}
    for family in FAMILIES[1:2] if quick else FAMILIES:
        steps = 60 if quick else 200
        model = trained(family, 0, steps, LAYERS)
        base = taken(model)
        apart = base if quick else taken(trained(family, 1, steps, LAYERS))
        for found in (
            structures(base, apart, quick=quick),
            quantisations(base, quick=quick),
            origins(model, base, family, quick=quick),
            hashes(base, FAMILIES.index(family), quick=quick),
        ):
            for what, good, said in found:
                right.setdefault(what, Counter())[good] += 1
                wrong.setdefault(what, []).extend([] if good else [f"{family}: {said}"])
    return [
        Tally(what, count.total(), count[False], "; ".join(wrong[what][:3]) or "all right")
        for what, count in sorted(right.items())
    ]
