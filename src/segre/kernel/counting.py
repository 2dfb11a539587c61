"""Which upper bounds follow by counting, without generators? Closed forms, and sums of powers.

>>> from segre.spec import Network
>>> ambient(Network.parse("lightning/d=2,3/a=2/t=2")), forms(3, 4), powers(3, 4, 5)
(18, 15, 14)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from segre.kernel.document import MANY, Certificate, RejectionError, keys
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

# The cases (n, r, m) of Alexander and Hirschowitz in which a dimension is missing.
_DEFECTIVE = {(5, 3, 7), (3, 4, 5), (4, 4, 9), (5, 4, 14)}


def capped_forms(variables: int, degree: int, most: int) -> int:
    """N(v, d), or any number above `most` if it is above."""
    low = min(variables - 1, degree)
    total = variables - 1 + degree
    found = 1
    for chosen in range(low):
        # C(total - low + j, j) for j = 1, 2, ..., which grows by a factor of 2 or more
        found = found * (total - low + chosen + 1) // (chosen + 1)
        if found > most:
            break
    return found


def forms(variables: int, degree: int) -> int:
    """N(v, d), which must not be too large."""
    found = capped_forms(variables, degree, MANY)
    if found > MANY:
        raise RejectionError("upper.steps: a rule needs a number of forms above 10^40")
    return found


def forms_after(variables: int, degree: int, layers: int) -> int:
    """N(v, r^j), which must not be too large."""
    # 2^134 is above 10^40 already, and of one variable there is one form of every degree
    return forms(variables, degree ** min(layers, 134))


def powers(n: int, r: int, m: int) -> int:
    """A(n, r, m): the dimension of the sums of m powers of degree r >= 2 in n variables."""
    if r == 2:
        rank = min(n, m)
        return rank * n - rank * (rank - 1) // 2
    return min(n * m, capped_forms(n, r, n * m)) - ((n, r, m) in _DEFECTIVE)


def closed_form(net: Network) -> int:
    """The dimension of a stack of single heads without factored values."""
    for layer in net.layers:
        if layer.heads != 1 or layer.dv is not None:
            raise RejectionError(
                "upper.kind: closed-form needs one head in every layer and no value dimension"
            )
    depth = net.depth
    d = net.widths
    r = [d[0]]
    for width in d[1:]:
        r.append(min(r[-1], width))
    if net.score == "softmax" and net.t == 1:
        return r[depth] * (d[depth] + d[0] - r[depth])
    # p[i] belongs to layer i; p[0] is never read.
    p = [0] + [min(layer.a, r[i]) for i, layer in enumerate(net.layers)]
    s = [0] * depth + [r[depth]]
    for i in range(depth - 1, 0, -1):
        s[i] = min(r[i], s[i + 1] + 2 * p[i + 1])
    lightning = net.score == "lightning"
    symmetric = lightning and net.t == 1
    upper = r[depth] * d[depth] - (depth if lightning else 0)
    for i in range(1, depth + 1):
        if symmetric:
            m = min(2 * p[i], r[i - 1])
            c = m * r[i - 1] - m * (m - 1) // 2
        else:
            c = p[i] * (2 * r[i - 1] - p[i])
        upper += s[i] * (r[i - 1] - r[i]) + c
        symmetric = symmetric or (lightning and p[i] == 1)
    return upper


def ambient(net: Network) -> int:
    """The number of coefficients of the maps a lightning layer can be."""
    if net.score != "lightning" or net.depth != 1:
        raise RejectionError("upper.kind: ambient needs a single lightning layer")
    before, after = net.widths
    if net.t > 1:
        return after * before * before * (before + 1) // 2
    return after * before * (before + 1) * (before + 2) // 6


def _counted(bound: Callable[[Network], int]) -> Callable[[Network, Any], tuple[int, str]]:
    """A bound for plain stacks that depends on the spec alone."""

    def found(net: Network, upper: Any) -> tuple[int, str]:
        keys(upper, ("kind",), "upper")
        value = bound(net)
        return value, f"By its {upper['kind']} bound the dimension is at most {value}."

    return found


def check(certificate: Certificate, _graph: Any) -> tuple[int, str]:
    """The bound by counting that a certificate names, and a sentence."""
    from segre.kernel import contexts, inequalities

    bounds: dict[str, tuple[type, Callable[[Any, Any], tuple[int, str]]]] = {
        "closed-form": (Network, _counted(closed_form)),
        "ambient": (Network, _counted(ambient)),
        "inequalities": (Polynomial, inequalities.check),
        "contexts": (Transformer, contexts.check),
    }
    spec, upper, kind = certificate.spec, certificate.sections["upper"], certificate.claim.upper_by
    network, bound = bounds[kind]
    if type(spec) is not network or not getattr(spec, "plain", True):
        raise RejectionError(f"upper.kind: {kind!r} is not for such a network")
    return bound(spec, upper)
