"""The dimension of a one-head stack as a formula in its widths, head ranks and tokens.

With U_i = V_i...V_1, the function depends only on M_i = U_{i-1}^T A_i U_{i-1} and L = U_l, and
for lightning attention only up to l scales. Counting dimensions of such tuples bounds the
dimension of the function space from above (the proof is in docs/mathematics.md, section 2).
That the bound is reached is proved by the exact rank, architecture by architecture.
"""

from __future__ import annotations

from functools import singledispatch
from math import comb

from segre.architectures import Architecture
from segre.errors import UnsupportedError
from segre.finding import Bound, Evidence
from segre.geometry.contexts import few_contexts
from segre.geometry.stack_formula import fiber
from segre.models import Source, architecture
from segre.polynomial.bounds import bound
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.theorems.stacks import invariants
from segre.transformer.spec import Transformer


def closed_form(spec: Source) -> Bound:
    """The upper bound on the dimension given by the closed form.

    >>> closed_form("softmax/d=10,10,10/a=2,2/t=3").value
    172
    """
    return _formula(architecture(spec))


@singledispatch
def _formula(net: Architecture) -> Bound:
    raise UnsupportedError(
        f"spec {str(net)!r}: no closed form is known for transformers; leave out "
        "--method, or use --method count"
    )


@_formula.register
def _of_stack(net: Network) -> Bound:
    if not net.plain:
        raise UnsupportedError(
            f"spec {str(net)!r}: for stacks with a mechanism for every head the formula is a "
            "prediction, not a bound; leave out --method, or use --method exact"
        )
    if not net.one_headed:
        raise UnsupportedError(
            f"spec {str(net)!r}: no closed form is known for several heads or a factored value "
            "map; use --method exact"
        )
    value = _count(net)
    statement = (
        f"closed form of a one-head {net.score} stack: the function depends on at most "
        f"{value} dimensions of invariants of the weights"
    )
    return Bound(value, Evidence("closed-form", statement))


@_formula.register
def _by_inequalities(spec: Polynomial) -> Bound:
    found = bound(spec)
    kind = "theorem" if "veronese" in found.rules else "closed-form"
    return Bound(found.value, Evidence(kind, found.words, found.document()))


@singledispatch
def predicted(spec: Architecture) -> int | None:
    """The value of the formula, if there is one; where mechanisms have options it is not a bound.

    >>> predicted(architecture("softmax/d=4,4/a=2/gate=element/t=3"))
    44
    """
    return closed_form(spec).value if spec.has_closed_form else None


@predicted.register
def _by_fiber(spec: Network) -> int | None:
    free = None if spec.plain else fiber(spec)
    if free is not None:
        return spec.parameters - free
    return closed_form(spec).value if spec.has_closed_form else None


def _count(spec: Network) -> int:
    if spec.mechanism.silent(spec.t):  # the network is X -> L X
        rank = min(spec.widths)
        return rank * (spec.widths[-1] + spec.width_in - rank)
    bilinear = spec.mechanism.bilinear
    return invariants(spec, symmetric=bilinear and spec.t == 1) - spec.depth * bilinear


@singledispatch
def ambient(_spec: Architecture) -> Bound | None:
    """A bound by a space that all functions of an architecture lie in, where one is known."""
    return None


ambient.register(Transformer, few_contexts)


@ambient.register
def _lightning_forms(spec: Network) -> Bound | None:
    """Dimension of the space of polynomials for one lightning layer of heads that see the same.

    An output is a sum of products of a quadratic form in one token and a linear form in
    another (if tokens see only themselves: a cubic form), so nothing exceeds that space.
    """
    how = spec.mechanism.on(spec.t)
    same = spec.depth == 1 and all(one.on(spec.t) == how for one in spec.mechanisms)
    fixed = how.gate == how.conv == how.bias == "none" and how.decay != "learned"
    if not same or not fixed or not how.bilinear:
        return None
    d, out = spec.widths
    value = out * (comb(d + 2, 3) if how.alone(spec.t) else d * d * (d + 1) // 2)
    form = "cubic forms" if how.alone(spec.t) else "quadratic times linear forms"
    statement = f"one lightning layer lies in the {value}-dimensional space of {form}"
    return Bound(value, Evidence("ambient", statement))
