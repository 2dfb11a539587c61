"""Which upper bounds follow from the shape alone? Sections 7.4 and 7.5 of the document.

>>> from segre.spec import Network
>>> ambient(Network.parse("lightning/d=2,3/a=2/t=2"))
18
"""

from __future__ import annotations

from segre.referee.rejection import RejectionError
from segre.spec import Network


def closed_form(net: Network) -> int:
    """The dimension of a stack of single heads without factored values, section 7.4."""
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
    """The number of coefficients of the maps a lightning layer can be, section 7.5."""
    if net.score != "lightning" or net.depth != 1:
        raise RejectionError("upper.kind: ambient needs a single lightning layer")
    before, after = net.widths
    if net.t > 1:
        return after * before * before * (before + 1) // 2
    return after * before * (before + 1) * (before + 2) // 6
