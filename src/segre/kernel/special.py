"""Which families need a lemma of their own? Specials, by name; docs/soundness.md proves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from segre.kernel import mixing
from segre.kernel.document import RejectionError, keys, text
from segre.kernel.forms import Facts, Matrix
from segre.kernel.linear import annihilator
from segre.spec import Network
from segre.transformer.spec import Transformer


def special(facts: Facts, entry: dict[str, Any], where: str) -> Matrix:
    """The generators of a special entry, as rows."""
    if isinstance(facts.spec, Network):
        return mixing.tangents(facts, facts.spec, entry, where)
    keys(entry, ("free", "name"), where)
    name = text(entry["name"], f"{where}.name", ("common-form", "outside-shift"))
    if not isinstance(facts.spec, Transformer):
        raise RejectionError(f"{where}: no {name!r} in such a network")
    return (_common_form if name == "common-form" else _outside_shift)(facts, facts.spec)


class _Rows:
    """The weights as matrices, and tangents as rows."""

    def __init__(self, facts: Facts) -> None:
        self.facts, self.prime, self.times = facts, facts.prime, facts.product

    def weight(self, part: str, name: str) -> Matrix:
        """A tensor as a matrix: all leading axes are rows."""
        array = self.facts.weights[part, name]
        return array.reshape(-1, array.shape[-1])

    def row(self, parts: dict[tuple[str, str], Matrix]) -> Matrix:
        """A tangent vector."""
        result = np.zeros(self.facts.graph.parameters, np.int64)
        for place, part in parts.items():
            tensor = self.facts.graph.tensors[place]
            result[tensor.offset : tensor.offset + tensor.size] = part.reshape(-1) % self.prime
        return result


def _common_form(facts: Facts, spec: Transformer) -> Matrix:
    """A form that is constant on what the last norm gives, along 1 at the embedding."""
    shared = spec.share and spec.layers > 1 and spec.place == "post" and spec.norm == "layer"
    mapped = spec.vocab > 0 and spec.embed > 0 and not spec.project
    if not (shared and mapped and spec.bias == "all" and spec.gain and not spec.kvrank):
        raise RejectionError("only of layers that are shared, with post norms and all biases")
    here, last = _Rows(facts), "post1" if spec.mlp == "none" else "post2"
    d = spec.d
    ones = np.ones((d, 1), np.int64)
    m = facts.vector(((("1", f"{last}.gain"), -1),), d)[None]
    kappa = int(here.times(m, here.weight("1", f"{last}.bias"))[0, 0])
    tangent = {
        ("embed", "W_E"): here.times(ones, here.times(m, here.weight("embed", "W_E"))),
        ("embed", "b_E"): here.times(ones, here.times(m, here.weight("embed", "b_E")) - kappa),
    }
    for letter in "QKVG" if spec.gate != "none" else "QKV":
        read = here.times(here.weight("1", f"W_{letter}"), ones)
        tangent["1", f"W_{letter}"] = -here.times(read, m)
        tangent["1", f"b_{letter}"] = read * kappa
    return here.row(tangent)[None]


def _outside_shift(facts: Facts, spec: Transformer) -> Matrix:
    """A constant where no patch and no position lies: the first attention takes it away."""
    if not spec.patch or spec.bias not in ("attn", "all") or spec.qknorm:
        raise RejectionError("only of patches, with a bias of what attention writes")
    here, d, layer = _Rows(facts), spec.d, spec.norm == "layer"
    Y = _filled(here, spec)
    others = [c for c in range(Y.shape[1]) if not (spec.cls and c == spec.patch)]
    if Y.shape[1] > d - layer or len(others) >= d - layer:
        return np.zeros((0, facts.graph.parameters), np.int64)
    held = np.concatenate([Y[:, others], np.ones((d, int(layer)), np.int64)], 1)
    after = np.array([int(c >= spec.patch) for c in range(Y.shape[1])])
    form, gain = _form(here, Y, after), facts.vector(_gain(facts, 1), d)
    inverse = facts.field.inverse(gain)
    rows = []
    for u in _orthogonal(here, held.T):
        u = u[:, None]
        M = here.times(u, form)
        if spec.cls:
            M = M - _longer(here, spec, Y, u)
        positions = np.zeros((d, spec.positions), np.int64)
        positions[:, : spec.t] = u
        scale = ((("1", "scale1"), -1),) if spec.layerscale else ()
        written = -u * facts.vector(scale, d)[:, None]
        tangent = {("embed", "positions"): positions, ("1", "b_O"): written}
        turned = gain[:, None] * (M % here.prime) % here.prime * inverse % here.prime
        for letter in "QKVG" if spec.gate != "none" else "QKV":
            moved = -here.times(here.weight("1", f"W_{letter}"), turned)
            tangent["1", f"W_{letter}"] = moved
            if ("1", "norm1.bias") in facts.weights and ("1", f"b_{letter}") in facts.weights:
                beta = here.weight("1", "norm1.bias")
                tangent["1", f"b_{letter}"] = -here.times(moved, beta)
        rows.append(here.row(tangent))
    return np.array(rows, np.int64).reshape(-1, facts.graph.parameters)


def _gain(facts: Facts, number: int) -> Any:
    place = "1", f"norm{number}.gain"
    return ((place, 1),) if place in facts.weights else ()


def _filled(here: _Rows, spec: Transformer) -> Matrix:
    """Columns that span all tokens before layer 1, without their means if the norm is `layer`."""
    constants = np.repeat(here.weight("embed", "b_P"), spec.t, 1)
    if spec.cls:
        constants[:, :1] = here.weight("embed", "cls")
    constants = constants + here.weight("embed", "positions")[:, : spec.t]
    Y = np.concatenate([here.weight("embed", "W_P"), constants], 1) % here.prime
    if spec.norm == "layer":
        Y = (Y - Y.sum(0) % here.prime * pow(spec.d, -1, here.prime)) % here.prime
    return Y


def _orthogonal(here: _Rows, A: Matrix) -> Matrix:
    """The vectors that are orthogonal to the rows of a matrix of full rank."""
    found = annihilator(A % here.prime, here.prime)
    if A.shape[1] - len(found) < min(A.shape):
        raise RejectionError("what tokens and positions fill has no full rank at this point")
    return found


def _form(here: _Rows, Y: Matrix, values: Matrix) -> Matrix:
    """A row f with f Y = values."""
    found = _orthogonal(here, np.concatenate([Y, -values[None]]).T)
    one = next(row for row in found if row[-1])
    share = pow(int(one[-1]), -1, here.prime)
    form: Matrix = one[:-1] * share % here.prime
    return form[None]


def _longer(here: _Rows, spec: Transformer, Y: Matrix, u: Matrix) -> Matrix:
    """What the class token y grows by, on y alone: u^T y / (y^T y + d eps) times y."""
    y = Y[:, spec.patch : spec.patch + 1]
    alone = _form(here, Y, np.array([int(c == spec.patch) for c in range(Y.shape[1])]))
    eps = here.facts.number(spec.eps * spec.d)
    length = int(here.times(y.T, y)[0, 0]) + eps
    share = int(here.times(u.T, y)[0, 0]) * pow(length, -1, here.prime) % here.prime
    longer: Matrix = here.times(y, alone) * share % here.prime
    return longer
