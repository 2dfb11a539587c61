"""Stacks without skips: theorems A and A' of softmax attention, L1 and L of lightning attention."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from segre.spec import Network
from segre.theorems.theorem import Hypothesis, Theorem

_INVARIANT = "changes that keep every M_i and L"
_SCALES = "scales of scores against values"


def _misfits(
    score: str, *, one_headed: bool = True, one_layer: bool | None = None
) -> Callable[[Network], tuple[str, ...]]:
    """What does not fit stacks of a kind of attention."""

    def found(spec: Network) -> tuple[str, ...]:
        several = "single heads" if spec.one_headed else "several heads, or factored value maps"
        deep = "a single layer" if spec.depth == 1 else "several layers"
        wrong = {
            "heads with options, or of several mechanisms": not spec.plain,
            f"{spec.score} attention": spec.plain and spec.score != score,
            several: spec.one_headed != one_headed,
            deep: one_layer is not None and (spec.depth == 1) != one_layer,
        }
        return tuple(name for name, misfit in wrong.items() if misfit)

    return found


def _tokens(name: str, least: int, says: str, spec: Network) -> Hypothesis:
    return Hypothesis(name, says, spec.t, ">=", least)


def _two_tokens(name: str) -> Callable[[Network], tuple[Hypothesis, ...]]:
    return lambda spec: (_tokens(name, 2, "t >= 2", spec),)


def invariants(spec: Network, *, symmetric: bool = False) -> int:
    """Dimensions of (M_1, ..., M_l, L) of a stack with one head in every layer.

    They are r_l d_l + sum_i s_i (r_{i-1} - r_i) + p_i (2 r_{i-1} - p_i). Here r_i is the rank of
    U_i, p_i that of M_i, and s_i counts dimensions of the image of U_i that later layers read. Of
    M_i that are `symmetric`, and after a lightning layer of rank one, whose tokens are all
    parallel, only the symmetric parts count.
    """
    d = spec.widths
    r = list(accumulate(d, min))
    p = [min(layer.a, r[i]) for i, layer in enumerate(spec.layers)]
    s, total = r[-1], r[-1] * d[-1]
    for i in reversed(range(spec.depth)):
        total += s * (r[i] - r[i + 1])
        s = min(r[i], s + 2 * p[i])
    for n, rank in zip(r, p, strict=False):
        m = min(2 * rank, n)
        total += m * n - m * (m - 1) // 2 if symmetric else rank * (2 * n - rank)
        symmetric |= spec.mechanism.bilinear and rank == 1
    return total


# --- A: one softmax head in every layer -----------------------------------------------------------


def _softmax_symmetries(spec: Network) -> dict[str, int]:
    return {_INVARIANT: spec.parameters - invariants(spec)}


# --- A': several softmax heads, equal widths ------------------------------------------------------


def _heads_hypotheses(spec: Network) -> tuple[Hypothesis, ...]:
    d = spec.width_in
    heads = list(spec.layers)
    values = [d if head.dv is None else head.dv for head in heads]
    written = min(d if one.dv is None else one.heads * one.dv for one in heads)
    return (
        _tokens("1", 2, "t >= 2", spec),
        Hypothesis("2", "no width is below d = d_0", min(spec.widths), ">=", d),
        Hypothesis("3", "no width is above d = d_0", d, ">=", max(spec.widths)),
        Hypothesis("4", "every a <= d", d, ">=", max(head.a for head in heads)),
        Hypothesis("5", "every v <= d", d, ">=", max(values)),
        Hypothesis("6", "the heads of every layer have v_1 + .. + v_H >= d", written, ">=", d),
    )


def _heads_symmetries(spec: Network) -> dict[str, int]:
    heads = list(spec.layers)
    return {
        "bases of queries and keys": sum(head.heads * head.a**2 for head in heads),
        "bases of values": sum(head.heads * (head.dv or 0) ** 2 for head in heads),
        "bases of tokens between layers": (spec.depth - 1) * spec.width_in**2,
    }


# --- L1: one lightning layer ----------------------------------------------------------------------


def _one_layer_symmetries(spec: Network) -> dict[str, int]:
    """Parameters minus d d' + p (2d - p) - 1."""
    d, a = spec.width_in, spec.layers[0].a
    p = min(a, d)
    return {_INVARIANT: 2 * a * d - p * (2 * d - p), _SCALES: 1}


# --- L: deep lightning stacks ---------------------------------------------------------------------


def _deep_hypotheses(spec: Network) -> tuple[Hypothesis, ...]:
    d = spec.width_in
    ranks = [min(layer.a, d) for layer in spec.layers]
    tokens = 2 if min(ranks) == d else min(ranks) + 1
    return (
        _tokens(".1", tokens, "t >= 2, and t >= a + 1 if a < d = d_0", spec),
        Hypothesis(".2", "no width is below d_0", min(spec.widths), ">=", d),
        Hypothesis(".3", "every a >= 2, or d = 1", min(ranks), ">=", min(2, d)),
        Hypothesis(".4", "min(a, d) is the same in every layer", min(ranks), ">=", max(ranks)),
    )


def _deep_symmetries(spec: Network) -> dict[str, int]:
    """Parameters minus d d_l + sum_i p (2d - p) - l."""
    d = spec.width_in
    ranks = [min(layer.a, d) for layer in spec.layers]
    invariants = d * spec.widths[-1] + sum(p * (2 * d - p) for p in ranks)
    return {_INVARIANT: spec.parameters - invariants, _SCALES: spec.depth}


A = Theorem(
    "A",
    "softmax stacks, one head in every layer",
    _misfits("softmax"),
    _two_tokens("1"),
    _softmax_symmetries,
    ("Ax",),
)
A_PRIME = Theorem(
    "A'",
    "softmax stacks of several heads, equal widths",
    _misfits("softmax", one_headed=False),
    _heads_hypotheses,
    _heads_symmetries,
    ("Ax",),
    section="a-several-heads",
)


L1 = Theorem(
    "L1",
    "one lightning layer",
    _misfits("lightning", one_layer=True),
    _two_tokens(".1"),
    _one_layer_symmetries,
)
L = Theorem(
    "L",
    "lightning stacks, one head in every layer",
    _misfits("lightning", one_layer=False),
    _deep_hypotheses,
    _deep_symmetries,
)
