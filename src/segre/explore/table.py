"""All designs of the static page, with the polynomials of their counts, as data for the page.

A count is one polynomial for all designs that share it: counts of one name that agree at a point
of their region are taken for the same, and every design is then checked at sizes that no
polynomial was made from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from segre.explore.answers import TOKENS
from segre.explore.applied import Trees, of_transformer
from segre.explore.formulas import (
    LIMITS,
    REGIONS,
    Counts,
    DisagreementError,
    Sizes,
    fitted,
    named,
    region_of,
    sizes_in,
)
from segre.explore.pool import Pool
from segre.explore.stack_table import GIVEN
from segre.explore.trace import value
from segre.geometry.redundancy import symmetries_counted
from segre.sequence.cost import cost
from segre.theorems import apply
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors
from segre.values import literal

NORMS = (
    ("none", "pre"),
    ("rms", "pre"),
    ("rms", "post"),
    ("rms", "sandwich"),
    ("layer", "pre"),
    ("layer", "post"),
)
MLPS = ("none", "gelu", "swiglu")
ALIKE = {"gelu-tanh": "gelu", "silu": "gelu", "geglu": "swiglu", "geglu-tanh": "swiglu"}
POSITIONS = ("none", "rope", "learned")
ENDS = ("none", "untied", "tied")
BIASES = ("none", "qkv", "attn", "mlp", "all")
# What a design may have beside that, one at a time; the first is what all others have.
VARIANTS: dict[str, dict[str, str]] = {
    "plain": {},
    "bare": {"residual": "false"},
    "lightning": {"attn": "lightning"},
    "window": {"window": GIVEN},
    "qknorm": {"qknorm": "true"},
    "gate": {"gate": "head"},
    "gates": {"gate": "element"},
    "parallel": {"parallel": "true"},
    "both ways": {"causal": "false"},
    "logits": {"output": "logits"},
    "hidden": {"output": "hidden"},
}
USUAL = {
    **{"residual": "true", "attn": "softmax", "window": "0", "qknorm": "false", "gate": "none"},
    **{"parallel": "false", "causal": "true", "output": "softmax", "feature": "none"},
    **{"kvrank": "0", "experts": "0", "sinks": "false"},
}
EPS = "1e-05"
KEYS = ("norm", "place", "mlp", "pos", "ends", "bias", "variant")
PARAMETERS = "parameters"
_EVERY = 10
_WITH_HEADS = ("d", "H", "k", "a", "f", "V", "t")
Design = tuple[str, ...]
# Sizes by which counts are told apart: so odd that different ones do not agree by accident.
_ODD = {"L": 3, "H": 15, "g": 3, "k": 5, "a": 14, "f": 1499, "V": 10007, "t": 307, "w": 101}
_MARKS = {
    "narrower": {"d": 211, **_ODD},
    "equal": {"d": 70, **_ODD},
    "wider": {"d": 53, **_ODD},
}


def designs() -> Iterator[Design]:
    """Every combination of choices that the table has."""
    for (norm, place), mlp, *rest, ends, bias, variant in product(
        NORMS, MLPS, POSITIONS, ENDS, BIASES, VARIANTS
    ):
        few = place == "pre" and bias == "none"
        if variant == "plain":
            wanted = bias not in ("attn", "mlp") or (place == "pre" and norm != "none")
        elif variant in ("bare", "lightning"):
            wanted = bias == "none" and (few or variant == "lightning")
        else:
            wanted = few and norm != "none" and mlp != "none"
        if variant in ("logits", "hidden"):
            wanted = wanted and ends == ("untied" if variant == "hidden" else ends) != "none"
        if wanted and not (bias == "mlp" and mlp == "none"):
            yield (norm, place, mlp, *rest, ends, bias, variant)


def spec_of(design: Design, at: Sizes) -> Transformer:
    """The spec of a design at given sizes."""
    norm, place, mlp, pos, ends, bias, variant = design
    chosen = VARIANTS[variant]
    return Transformer.from_mapping(
        {
            **{"d": at["d"], "layers": at["L"], "heads": at["g"] * at["k"], "kv": at["k"]},
            **{"head": at["a"], "t": at["t"], "norm": norm, "place": place, "mlp": mlp},
            **{"pos": pos, "bias": bias, "causal": True},
            **({"ff": at["f"]} if mlp != "none" else {}),
            **({"eps": EPS} if norm != "none" else {}),
            **({"vocab": at["V"], "tied": ends == "tied"} if ends != "none" else {}),
            **{key: at["w"] if one == GIVEN else literal(one) for key, one in chosen.items()},
        }
    )


def symmetry_counts(spec: Transformer, at: Sizes) -> dict[tuple[str, ...], int]:
    """The symmetries by name, place, piece and condition; sizes in names are left out."""
    out: dict[tuple[str, ...], int] = {}
    for one in symmetries_counted(spec):
        where = re.sub(rf"\blayer {spec.layers}\b", "the last layer", one.where)
        label = (*named(one.name, at), where, one.group, one.holds)
        out[label] = out.get(label, 0) + one.dimension
    return out


def tensor_counts(spec: Transformer) -> dict[tuple[str, ...], int]:
    """Parameters, by the name of their tensor, over all layers."""
    out: dict[tuple[str, ...], int] = {}
    for (part, name), slot in tensors(spec).items():
        label = (PARAMETERS, name if part.isdigit() else f"{part} {name}")
        out[label] = out.get(label, 0) + slot.size
    return out


def cost_counts(spec: Transformer) -> dict[tuple[str, ...], int]:
    """Of softmax without windows, operations and numbers kept on every number of tokens."""
    out: dict[tuple[str, ...], int] = {}
    if spec.attn == "softmax" and not spec.window:
        found = cost(spec, list(TOKENS))
        for tokens in TOKENS:
            out["operations", str(tokens)] = found.total(tokens)
            kept = found.state(tokens)
            out["state", str(tokens)] = -1 if kept is None else kept  # -1: needs all tokens
    return out


def table(choose: Callable[[Design], bool] = lambda _: True) -> dict[str, Any]:
    """The designs as data: polynomials, labels, and which of them each design has by region."""
    rng = random.Random(7)
    symmetries, sizes = Pool(), Pool()
    rows: dict[str, list[int]] = {}
    lists: dict[tuple[Any, ...], int] = {}
    theorems: dict[str, Any] = {}
    for place, design in enumerate(filter(choose, designs())):
        by_region = [_symmetries_of(design, region, symmetries) for region in REGIONS]
        own = _sizes_of(design, sizes)
        at = {**sizes_in(rng.choice(REGIONS), rng), "L": rng.randint(3, 6)}
        other, kept = spec_of(design, at), by_region[REGIONS.index(region_of(at))]
        _check(symmetries.values(kept, at), symmetry_counts(other, at), design, at)
        counts = tensor_counts(other)
        if place % _EVERY == 0:  # operations follow from few of the choices
            counts |= cost_counts(other)
        here = {label: n for label, n in sizes.values(own, at).items() if label in counts}
        _check(here, counts, design, at)
        same = by_region[:1] if by_region.count(by_region[0]) == len(REGIONS) else by_region
        kept_lists = (tuple(own), tuple(map(tuple, same)))
        rows["|".join(design)] = [lists.setdefault(one, len(lists)) for one in kept_lists]
        theorem = of_transformer(spec_of(design, _MARKS[REGIONS[0]]))
        if theorem is not None:
            _check_theorem(theorem, other, at)
            theorems["|".join(design)] = theorem
    _check_alike(rng, choose)
    return {
        "keys": KEYS,
        "alike": ALIKE,
        "variants": VARIANTS,
        "usual": USUAL,
        "limits": LIMITS,
        "symmetries": [symmetries.labels, symmetries.formulas],
        "sizes": [sizes.labels, sizes.formulas],
        "designs": rows,
        "lists": list(lists),
        **_shared(theorems),
        "tokens": TOKENS,
    }


def _symmetries_of(design: Design, region: str, pool: Pool) -> list[int]:
    """The numbers of the polynomials of a design's symmetries in a region."""

    def count(at: Sizes) -> Counts:
        return symmetry_counts(spec_of(design, at), at)

    mark = _MARKS[region]
    here = count(mark)
    numbers = sorted(pool.numbers(here, mark, lambda new: fitted(count, region, new)))
    _check(pool.values(numbers, mark), here, design, mark)
    return numbers


def _sizes_of(design: Design, pool: Pool) -> list[int]:
    """The numbers of the polynomials of a design's parameters and operations."""

    def parameters(at: Sizes) -> Counts:
        return tensor_counts(spec_of(design, at))

    def costs_at(at: Sizes) -> Counts:
        return cost_counts(spec_of(design, at))

    mark, region = _MARKS[REGIONS[0]], REGIONS[0]
    own = pool.numbers(
        parameters(mark),
        mark,
        lambda new: fitted(parameters, region, new, points=45, names=_WITH_HEADS),
    )
    more = pool.numbers(
        costs_at(mark),
        mark,
        lambda new: fitted(costs_at, region, new, points=70, names=_WITH_HEADS),
    )
    return sorted([*own, *more])


def _check(found: Counts, counts: Counts, design: Design, at: Sizes) -> None:
    if dict(found) != {label: n for label, n in counts.items() if n}:
        wrong = {k for k in {*found, *counts} if found.get(k, 0) != counts.get(k, 0)}
        raise DisagreementError(
            f"{design} at {at}: the polynomials of {wrong} are not segre's counts"
        )


def _check_alike(rng: random.Random, choose: Callable[[Design], bool]) -> None:
    """MLPs that are taken for alike have the same counts and theorems, on a sample of designs."""
    every = [design for design in designs() if choose(design)]
    for kind, stands_for in ALIKE.items():
        fitting = [design for design in every if design[2] == stands_for]
        for design in rng.sample(fitting, min(12, len(fitting))):
            at = sizes_in(rng.choice(REGIONS), rng)
            other = spec_of((*design[:2], kind, *design[3:]), at)
            own = spec_of(design, at)
            _check(symmetry_counts(other, at), symmetry_counts(own, at), design, at)
            if _theorem(other) != _theorem(own):
                raise DisagreementError(f"{kind} and {stands_for} have different theorems: {own}")


def _theorem(spec: Transformer) -> str:
    applied = apply(spec)
    return applied.theorem.name if applied is not None else ""


def _check_theorem(theorem: dict[str, Any], spec: Transformer, at: Sizes) -> None:
    """What the page will say of a theorem is what segre says."""
    applied = apply(spec)
    assert applied is not None
    sizes = {**at, "P": spec.parameters}
    given = theorem["hypotheses"]
    found = [(value(one["left"], sizes), value(one["right"], sizes)) for one in given]
    if found != [(one.left, one.right) for one in applied.hypotheses]:
        raise DisagreementError(f"{spec}: the page's theorem {applied.theorem.name} is another")


def _shared(theorems: dict[str, Any]) -> dict[str, Any]:
    """Theorems by design, each once, and their trees."""
    trees = Trees()
    texts: dict[str, tuple[int, Any]] = {}
    by_design = {}
    for design, theorem in theorems.items():
        own = trees.numbered(theorem)
        by_design[design] = texts.setdefault(repr(own), (len(texts), own))[0]
    return {
        "theorems": [one for _, one in texts.values()],
        "trees": trees.every,
        "by_theorem": by_design,
    }
