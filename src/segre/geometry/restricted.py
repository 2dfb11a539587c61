"""Upper bounds on the rank of the outputs at N inputs, valid for all inputs.

Each is an inequality for the rank of the Jacobian at N inputs, so it shows that too few inputs do
not determine a function. docs/samples.md proves them.

    outputs    the number of output entries
    tokens     N inputs have few tokens: the first layer could be one on their span
    mixing     an output is U X S with one matrix U for all inputs, and S of limited dimension
    rank       such outputs have bounded rank, each and side by side
    scores     S is a function of X^T A X, whose symmetric and antisymmetric parts are bounded
    queries    an output of a lightning stack is C Q X with one matrix Q for all inputs
    cut        the values after a layer stand for everything before it
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from math import prod

from segre.architectures import Architecture
from segre.finding import Bound, Evidence
from segre.geometry.closed_form import closed_form
from segre.polynomial.bounds import bound
from segre.polynomial.spec import Dense, Polynomial
from segre.spec import Network


def at_most(spec: Architecture, inputs: int) -> Bound:
    """The best upper bound on the rank of the Jacobian at the given number of inputs.

    >>> from segre.models import architecture
    >>> at_most(architecture("lightning/d=3,3/a=1/t=3"), 3).value
    11
    """
    outputs = prod(spec.output_shape)
    said = f"{in_words(inputs)} with {outputs} output number{'s' * (outputs != 1)} each"
    every = [_bound(inputs * outputs, "outputs", said)]
    if inputs > 0:
        every += _inequalities(spec, inputs)
    return min(every, key=lambda one: one.value)


def least_inputs(spec: Architecture, dimension: int) -> int:
    """The smallest number of inputs at which the inequalities allow the given rank.

    >>> from segre.models import architecture
    >>> least_inputs(architecture("lightning/d=4,4/a=2/t=1"), 25)
    10
    """
    # the bounds grow with the inputs, and one input adds at least one dimension up to the last
    return bisect_left(range(dimension), dimension, key=lambda n: at_most(spec, n).value)


@singledispatch
def _inequalities(spec: Architecture, inputs: int) -> Iterator[Bound]:  # noqa: ARG001
    yield from ()


@_inequalities.register(Polynomial)
def _of_polynomial(spec: Polynomial, inputs: int) -> Iterator[Bound]:
    if spec.convolutional:
        return
    n, layers = inputs, spec.layers
    # affine maps are seen on the affine span of the inputs, which has one dimension less
    reached = max(1, n - spec.bias)
    if reached < spec.width_in:
        first = Dense(reached, layers[0].width_out)
        inner = bound(replace(spec, layers=(first, *layers[1:]))).value
        yield _bound(inner, "tokens", f"{in_words(n)} span {reached} dimensions")
    for place in range(1, spec.depth):
        width = layers[place].width_in
        after = bound(replace(spec, layers=layers[place:])).value
        moved = width * (min(width, max(n - spec.bias, 0)) + spec.bias)
        value = after + max(n * width - moved, 0)
        said = (
            f"the {width} values after layer {place} at {in_words(n)}, and the {after} dimensions "
        )
        yield _bound(value, "cut", said + "of the later layers, up to a change of basis")


@_inequalities.register(Network)
def _of_stack(spec: Network, inputs: int) -> Iterator[Bound]:
    if not spec.plain:
        yield from _of_mechanisms(spec, inputs)
        return
    n, t, widths = inputs, spec.t, spec.widths
    if n * t < widths[0] and spec.has_closed_form:
        inner = closed_form(_from(spec, 0, n * t)).value
        yield _bound(inner, "tokens", f"{in_words(n)} span {n * t} dimensions")
    heads = list(spec.layers)
    if all(head.heads == 1 for head in heads):
        inner_widths = [head.dv for head in heads if head.dv is not None]
        yield from _of_path(spec, n, min([*widths, *inner_widths]), 1)
    elif spec.depth == 1:
        width = min([*widths, *([heads[0].dv] if heads[0].dv is not None else [])])
        yield from _of_path(spec, n, width, heads[0].heads)
    for place in range(1, spec.depth):
        if spec.has_closed_form:
            width = widths[place]
            after = closed_form(_from(spec, place, width)).value
            value = after + n * t * width - width * min(width, n * t)
            said = f"the tokens after layer {place} at {in_words(n)}, and the {after} dimensions "
            yield _bound(value, "cut", said + "of the later layers, up to a change of basis")


def _of_mechanisms(spec: Network, inputs: int) -> Iterator[Bound]:
    """One layer whose heads mix tokens as they are; a gate of a head only changes the weights."""
    layer, t = spec.layers[0], spec.t
    mechanisms = [group.mechanism for group in layer.groups]
    if spec.depth > 1 or any(one.conv != "none" or one.gate == "element" for one in mechanisms):
        return
    rank = min(layer.width_in, layer.inner, layer.width_out)
    U = rank * (layer.width_in + layer.width_out - rank)
    value = sum(
        group.heads * (U + inputs * (t * t - t * (one.sums_to_one and one.gate == "none")))
        for group, one in zip(layer.groups, mechanisms, strict=True)
    )
    said = f"for each head one {layer.width_out} x {layer.width_in} matrix ({U} dimensions), and "
    yield _bound(value, "mixing", said + f"the mixing weights of the tokens of {in_words(inputs)}")


def _of_path(spec: Network, n: int, rank: int, heads: int) -> Iterator[Bound]:
    """Bounds for a stack that is a sum of `heads` products U X S, one for each head."""
    t, first, last = spec.t, spec.widths[0], spec.widths[-1]
    narrow = min(min(layer.a for layer in spec.layers), t)  # of what passes all layers
    U = rank * (first + last - rank)
    bilinear = spec.mechanism.bilinear
    S = narrow * (2 * t - narrow) if bilinear else t * t - t * spec.mechanism.sums_to_one
    each = U + n * S - bilinear
    said = f"one {last} x {first} matrix of rank at most {rank} ({U} dimensions), and the mixing "
    said += f"weights of the tokens of {in_words(n)} ({S} dimensions each)"
    yield _bound(heads * each, "mixing", said + (f", in each of {heads} heads" * (heads > 1)))
    if heads == 1:
        k = min(rank, n * t)
        said = f"the outputs at {in_words(n)} are one {last} x {n * t} matrix of rank at most {k}"
        yield _bound(k * (last + n * t - k), "rank", said)
        if bilinear:
            k = min(rank, narrow)
            said = f"the outputs at {in_words(n)} are {last} x {t} matrices of rank at most {k}"
            yield _bound(n * k * (last + t - k), "rank", said)
    if spec.depth == 1:
        even = min(n * t * (t + 1), first * (first + 1)) // 2
        odd = min(n * t * (t - 1), first * (first - 1)) // 2
        said = f"one {last} x {first} matrix of rank at most {rank} ({U} dimensions), and scores: "
        said += f"{even} dimensions of symmetric and {odd} of antisymmetric parts"
        value = heads * (U + even + odd - bilinear)
        yield _bound(value, "scores", said + (f", in each of {heads} heads" * (heads > 1)))
    if bilinear:
        a = min(spec.layers[0].a, first)
        rank = min(rank, n * a)
        left = rank * (last + n * a - rank)
        value = heads * (left + a * first - a * a)
        said = (
            f"one {a} x {first} query matrix for {in_words(n)}, up to a change of basis, and its "
        )
        said += f"other factor, which has {left} dimensions"
        yield _bound(value, "queries", said + (f", in each of {heads} heads" * (heads > 1)))


def _from(spec: Network, place: int, width: int) -> Network:
    """The layers from a place on, with inputs of another width."""
    layers = spec.layers[place:]
    return replace(spec, layers=(replace(layers[0], width_in=width), *layers[1:]))


def in_words(count: int) -> str:
    """A number of inputs, in words."""
    return f"{count} input{'s' * (count != 1)}"


def _bound(value: int, kind: str, says: str) -> Bound:
    return Bound(value, Evidence(kind, says))
