"""Which families need a lemma of their own? Specials, by name; docs/soundness.md proves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from segre.kernel import mixing
from segre.kernel.document import RejectionError, keys, text
from segre.kernel.forms import Facts, Matrix
from segre.kernel.graph import Place
from segre.kernel.linear import annihilator, left_inverse
from segre.spec import Network
from segre.transformer.spec import Transformer


def special(facts: Facts, entry: dict[str, Any], where: str) -> Matrix:
    """The generators of a special entry, as rows."""
    if (found := _SPECIALS.get(type(facts.spec))) is None:
        raise RejectionError(f"{where}: there are no specials of such a network")
    return found(facts, facts.spec, entry, where)


def _of_transformer(facts: Facts, spec: Transformer, entry: dict[str, Any], where: str) -> Matrix:
    keys(entry, ("free", "name"), where)
    name = text(entry["name"], f"{where}.name", ("common-form", "outside-shift"))
    return (_common_form if name == "common-form" else _outside_shift)(facts, spec)


def _weight(facts: Facts, part: str, name: str) -> Matrix:
    """A tensor as a matrix: all leading axes are rows."""
    array = facts.weights[part, name]
    return array.reshape(-1, array.shape[-1])


_SPECIALS: dict[type, Callable[[Facts, Any, dict[str, Any], str], Matrix]] = {
    Network: mixing.tangents,
    Transformer: _of_transformer,
}


def _readers(spec: Transformer) -> str:
    """The letters of what reads the stream in attention."""
    return "QKVG" if spec.gate != "none" else "QKV"


def _common_form(facts: Facts, spec: Transformer) -> Matrix:
    """A form that is constant on what the last norm gives, along 1 at the embedding."""
    shared = spec.share and spec.layers > 1 and spec.place == "post" and spec.norm == "layer"
    mapped = spec.vocab > 0 and spec.embed > 0 and not spec.project
    if not (shared and mapped and spec.bias == "all" and spec.gain and not spec.kvrank):
        raise RejectionError("only of layers that are shared, with post norms and all biases")
    last, times = "post1" if spec.mlp == "none" else "post2", facts.product
    ones = np.ones((spec.d, 1), np.int64)
    m = facts.vector(((("1", f"{last}.gain"), -1),), spec.d)[None]
    kappa = int(times(m, _weight(facts, "1", f"{last}.bias"))[0, 0])
    tangent: dict[Place, Matrix] = {
        ("embed", "W_E"): times(ones, m, _weight(facts, "embed", "W_E")),
        ("embed", "b_E"): times(ones, times(m, _weight(facts, "embed", "b_E")) - kappa),
    }
    for letter in _readers(spec):
        read = times(_weight(facts, "1", f"W_{letter}"), ones)
        tangent["1", f"W_{letter}"] = -times(read, m)
        tangent["1", f"b_{letter}"] = read * kappa
    return facts.row(tangent)[None]


def _outside_shift(facts: Facts, spec: Transformer) -> Matrix:
    """A constant where no patch and no position lies: the first attention takes it away."""
    if not spec.patch or spec.bias not in ("attn", "all") or spec.qknorm:
        raise RejectionError("only of patches, with a bias of what attention writes")
    d, layer, prime, times = spec.d, spec.norm == "layer", facts.prime, facts.product
    Y, first = _filled(facts, spec), spec.patch
    others = np.arange(Y.shape[1]) != (first if spec.cls else -1)
    if Y.shape[1] > d - layer or others.sum() >= d - layer:
        return np.zeros((0, facts.graph.parameters), np.int64)
    held = np.concatenate([Y[:, others], np.ones((d, int(layer)), np.int64)], 1)
    free, inverse = annihilator(held.T, prime), left_inverse(Y, prime)
    if len(free) + held.shape[1] > d:
        raise RejectionError("what tokens and positions fill has no full rank at this point")
    form = inverse[first:].sum(0, keepdims=True)  # 0 on what patches write, 1 on constants
    gain = facts.vector(_power(facts, "norm1.gain", 1), d)[:, None]
    back = facts.vector(_power(facts, "norm1.gain", -1), d)
    scale = facts.vector(_power(facts, "scale1", -1), d)[:, None]
    rows = []
    for u in free[:, :, None]:
        M = times(u, form)
        if spec.cls:  # what the class token y grows by, on y alone
            y, eps = Y[:, first : first + 1], facts.number(spec.eps * d)
            share = times(u.T, y) * facts.field.inverse((times(y.T, y) + eps) % prime)
            M = M - times(y, share, inverse[first : first + 1])
        positions = np.zeros((d, spec.positions), np.int64)
        positions[:, : spec.t] = u
        tangent: dict[Place, Matrix] = {("embed", "positions"): positions, ("1", "b_O"): -u * scale}
        turned = gain * (M % prime) % prime * back % prime
        for letter in _readers(spec):
            moved = -times(_weight(facts, "1", f"W_{letter}"), turned)
            tangent["1", f"W_{letter}"] = moved
            if ("1", "norm1.bias") in facts.weights and ("1", f"b_{letter}") in facts.weights:
                tangent["1", f"b_{letter}"] = -times(moved, _weight(facts, "1", "norm1.bias"))
        rows.append(facts.row(tangent))
    return np.array(rows, np.int64).reshape(-1, facts.graph.parameters)


def _power(facts: Facts, name: str, power: int) -> tuple[tuple[Place, int], ...]:
    """The direction of a vector of layer 1, if it is there."""
    return ((("1", name), power),) if ("1", name) in facts.weights else ()


def _filled(facts: Facts, spec: Transformer) -> Matrix:
    """Columns that span all tokens before layer 1, without their means if the norm is `layer`."""
    constants = np.repeat(_weight(facts, "embed", "b_P"), spec.t, 1)
    if spec.cls:
        constants[:, :1] = _weight(facts, "embed", "cls")
    constants = constants + _weight(facts, "embed", "positions")[:, : spec.t]
    Y = np.concatenate([_weight(facts, "embed", "W_P"), constants], 1) % facts.prime
    if spec.norm == "layer":
        Y = (Y - Y.sum(0) % facts.prime * pow(spec.d, -1, facts.prime)) % facts.prime
    return Y
