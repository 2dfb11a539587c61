"""Stacks without skips: theorems A and A' of softmax attention, L1 and L of lightning attention."""

from __future__ import annotations

from collections.abc import Iterator

from segre.spec import Network
from segre.theorems.theorem import Hypothesis, Theorem

_INVARIANT = "changes that keep every M_i and L"
_SCALES = "scales of scores against values"


def _misfits(spec: Network, score: str, *, one_headed: bool) -> Iterator[str]:
    if not spec.plain:
        yield "heads with options, or of several mechanisms"
    elif spec.score != score:
        yield f"{spec.score} attention"
    if spec.one_headed != one_headed:
        yield "single heads" if spec.one_headed else "several heads, or factored value maps"


def _tokens(name: str, spec: Network, least: int, says: str) -> Hypothesis:
    return Hypothesis(name, says, spec.t, ">=", least)


# --- A: one softmax head in every layer -----------------------------------------------------------


def _softmax_hypotheses(spec: Network) -> tuple[Hypothesis, ...]:
    return (_tokens("A1", spec, 2, "t >= 2"),)


def _softmax_symmetries(spec: Network) -> dict[str, int]:
    """Parameters minus r_l d_l + sum_i s_i (r_{i-1} - r_i) + p_i (2 r_{i-1} - p_i)."""
    d = spec.widths
    r = [d[0]]
    for width in d[1:]:
        r.append(min(r[-1], width))
    p = [min(layer.a, r[i]) for i, layer in enumerate(spec.layers)]
    s = r[-1]
    dimension = r[-1] * d[-1]
    for i in reversed(range(spec.depth)):
        dimension += s * (r[i] - r[i + 1]) + p[i] * (2 * r[i] - p[i])
        s = min(r[i], s + 2 * p[i])
    return {_INVARIANT: spec.parameters - dimension}


# --- A': several softmax heads, equal widths ------------------------------------------------------


def _heads_hypotheses(spec: Network) -> tuple[Hypothesis, ...]:
    d = spec.width_in
    heads = list(spec.layers)
    values = [d if head.dv is None else head.dv for head in heads]
    written = min(d if one.dv is None else one.heads * one.dv for one in heads)
    return (
        _tokens("A'1", spec, 2, "t >= 2"),
        Hypothesis("A'2", "no width is below d = d_0", min(spec.widths), ">=", d),
        Hypothesis("A'3", "no width is above d = d_0", d, ">=", max(spec.widths)),
        Hypothesis("A'4", "every a <= d", d, ">=", max(head.a for head in heads)),
        Hypothesis("A'5", "every v <= d", d, ">=", max(values)),
        Hypothesis("A'6", "the heads of every layer have v_1 + .. + v_H >= d", written, ">=", d),
    )


def _heads_symmetries(spec: Network) -> dict[str, int]:
    heads = list(spec.layers)
    return {
        "bases of queries and keys": sum(head.heads * head.a**2 for head in heads),
        "bases of values": sum(head.heads * (head.dv or 0) ** 2 for head in heads),
        "bases of tokens between layers": (spec.depth - 1) * spec.width_in**2,
    }


# --- L1: one lightning layer ----------------------------------------------------------------------


def _one_layer_hypotheses(spec: Network) -> tuple[Hypothesis, ...]:
    return (_tokens("L1.1", spec, 2, "t >= 2"),)


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
        _tokens("L.1", spec, tokens, "t >= 2, and t >= a + 1 if a < d = d_0"),
        Hypothesis("L.2", "no width is below d_0", min(spec.widths), ">=", d),
        Hypothesis("L.3", "every a >= 2, or d = 1", min(ranks), ">=", min(2, d)),
        Hypothesis("L.4", "min(a, d) is the same in every layer", min(ranks), ">=", max(ranks)),
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
    lambda spec: tuple(_misfits(spec, "softmax", one_headed=True)),
    _softmax_hypotheses,
    _softmax_symmetries,
    ("Ax",),
)
A_PRIME = Theorem(
    "A'",
    "softmax stacks of several heads, equal widths",
    lambda spec: tuple(_misfits(spec, "softmax", one_headed=False)),
    _heads_hypotheses,
    _heads_symmetries,
    ("Ax",),
    section="a-several-heads",
)


def _layers(spec: Network, one: bool) -> tuple[str, ...]:
    misfits = list(_misfits(spec, "lightning", one_headed=True))
    if (spec.depth == 1) != one:
        misfits.append("a single layer" if spec.depth == 1 else "several layers")
    return tuple(misfits)


L1 = Theorem(
    "L1",
    "one lightning layer",
    lambda spec: _layers(spec, one=True),
    _one_layer_hypotheses,
    _one_layer_symmetries,
)
L = Theorem(
    "L",
    "lightning stacks, one head in every layer",
    lambda spec: _layers(spec, one=False),
    _deep_hypotheses,
    _deep_symmetries,
)
