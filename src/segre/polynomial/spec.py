"""Networks with monomial activations, as data: linear maps with x -> x^r between them.

`poly/3-5-2/degree=3` is a dense network with widths 3, 5, 2. `cnn/k=3,2/degree=2` is a
convolutional network with one filter per layer; its input has length `n`, by default the size of
its receptive field. Degree 1 gives linear networks. With `bias=true` every layer adds biases: one
per unit of a dense layer, one per filter of a convolution.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from segre.architectures import Layered
from segre.errors import SpecError
from segre.spec import DEEPEST, VERSION, layerwise, widths_of
from segre.values import choice, flag, quote, read_inline, require_keys, show, whole

DENSE, CONVOLUTIONAL = KINDS = ("poly", "cnn")
KEYS = {
    DENSE: ("d", "layers", "degree", "bias"),
    CONVOLUTIONAL: ("k", "layers", "stride", "n", "degree", "bias"),
}
HIGHEST_DEGREE = 1000


@dataclass(frozen=True, slots=True)
class Dense:
    """x -> W x, with W of shape width_out x width_in."""

    width_in: int
    width_out: int

    @property
    def units(self) -> int:
        """Number of outputs with separate weights."""
        return self.width_out

    @property
    def weights(self) -> int:
        """Number of weights without biases."""
        return self.width_in * self.width_out


@dataclass(frozen=True, slots=True)
class Convolution:
    """(x_j) -> (sum over m of w_m x_{stride j + m}), with a filter of length `kernel`."""

    width_in: int
    kernel: int
    stride: int

    @property
    def width_out(self) -> int:
        """Length of its output."""
        return (self.width_in - self.kernel) // self.stride + 1

    @property
    def units(self) -> int:
        """One: all outputs have the same filter."""
        return 1

    @property
    def weights(self) -> int:
        """Number of weights without the bias."""
        return self.kernel


@dataclass(frozen=True)
class Polynomial(Layered):
    """Layers with the activation x -> x^degree between them, none after the last.

    >>> net = Polynomial.parse("cnn/k=3,2,2/degree=2/stride=1,2,1")
    >>> net.widths, net.parameters, str(net)
    ((6, 4, 2, 1), 7, 'cnn/k=3,2,2/stride=1,2,1/degree=2')
    """

    layers: tuple[Dense | Convolution, ...]
    degree: int
    bias: bool = False

    t: ClassVar[int] = 1  # an input is one vector
    head_axes: ClassVar[int] = 0
    exponentials: ClassVar[bool] = False
    piecewise: ClassVar[bool] = False
    regions: ClassVar[tuple[str, ...]] = ()
    gated_elements: ClassVar[bool] = False
    salted: ClassVar[bool] = False
    salts_searched: ClassVar[bool] = False
    salts_mix: ClassVar[bool] = False
    first_token_alone: ClassVar[bool] = False
    has_closed_form: ClassVar[bool] = True  # an upper bound, which most networks reach

    @property
    def kind(self) -> str:
        """`poly` or `cnn`."""
        return DENSE if isinstance(self.layers[0], Dense) else CONVOLUTIONAL

    @property
    def convolutional(self) -> bool:
        """Whether its layers are convolutions."""
        return self.kind == CONVOLUTIONAL

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """Its layers, if they are convolutions."""
        return tuple(layer for layer in self.layers if isinstance(layer, Convolution))

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output."""
        return self.widths[-1], 1

    @property
    def total_degree(self) -> int:
        """Degree of the outputs as polynomials in the input."""
        return int(self.degree ** (self.depth - 1))

    @cached_property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return sum(layer.weights + self.bias * layer.units for layer in self.layers)

    def document(self) -> dict[str, Any]:
        """The canonical mapping. Inverse of `from_mapping`."""
        found: dict[str, Any] = {"version": VERSION, "kind": self.kind}
        if self.convolutional:
            found["k"] = [layer.kernel for layer in self.convolutions]
            found["stride"] = [layer.stride for layer in self.convolutions]
            found["n"] = self.width_in
        else:
            found["d"] = list(self.widths)
        return {**found, "degree": self.degree, **({"bias": True} if self.bias else {})}

    def __str__(self) -> str:
        """The shortest inline string that reads back as this network."""
        parts = [self.kind]
        if self.convolutional:
            kernels = [layer.kernel for layer in self.convolutions]
            strides = [layer.stride for layer in self.convolutions]
            parts.append("k=" + ",".join(map(show, kernels)))
            if set(strides) != {1}:
                parts.append("stride=" + ",".join(map(show, strides)))
            if self.width_in != receptive_field(kernels, strides):
                parts.append(f"n={self.width_in}")
        else:
            parts.append("-".join(map(str, self.widths)))
        return "/".join([*parts, f"degree={self.degree}", *["bias=true"] * self.bias])

    @classmethod
    def parse(cls, source: str | Mapping[str, Any] | Polynomial) -> Polynomial:
        """Read a network from an inline string or a mapping."""
        if isinstance(source, cls):
            return source
        given = source if isinstance(source, Mapping) else inline(str(source))
        return cls.from_mapping(given, str(source))

    from_inline = parse

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], quoted: str | None = None) -> Polynomial:
        """Read a network from keys and values; `quoted` is how errors name it."""
        try:
            return _build(given)
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {quote(name)}: {error}") from None


def inline(text: str) -> dict[str, Any]:
    """The keys and values of an inline spec; widths may be written as 3-5-2.

    >>> inline("poly/3-5-2/degree=3")
    {'kind': 'poly', 'd': [3, 5, 2], 'degree': 3}
    """
    kind, _, rest = text.partition("/")
    first, slash, others = rest.partition("/")
    if kind == DENSE and "=" not in first:
        text = f"{kind}/d={first.replace('-', ',')}{slash}{others}"
    return read_inline(text, KEYS.get(kind, KEYS[DENSE]))


def receptive_field(kernels: list[int], strides: list[int]) -> int:
    """Number of input entries that one output depends on.

    >>> receptive_field([3, 2], [2, 1])
    5
    """
    length, step = 1, 1
    for kernel, stride in zip(kernels, strides, strict=True):
        length += (kernel - 1) * step
        step *= stride
    return length


def _build(given: Mapping[str, Any]) -> Polynomial:
    kind = choice("kind", given.get("kind"), KINDS)
    require_keys(given, KEYS[kind], VERSION)
    if "degree" not in given:
        raise SpecError(
            "degree is missing; give the exponent of the activation, for example degree=2"
        )
    degree = whole("degree", given["degree"], HIGHEST_DEGREE)
    bias = flag("bias", given.get("bias", False))
    layers = _convolutions(given) if kind == CONVOLUTIONAL else _dense(given)
    return Polynomial(layers, degree, bias)


def _dense(given: Mapping[str, Any]) -> tuple[Dense, ...]:
    if "d" not in given:
        raise SpecError("d is missing; give the widths, for example poly/3-5-2/degree=3")
    widths = widths_of(given)
    return tuple(Dense(*pair) for pair in pairwise(widths))


def _convolutions(given: Mapping[str, Any]) -> tuple[Convolution, ...]:
    if "k" not in given:
        raise SpecError("k is missing; give the filter lengths, for example cnn/k=3,2/degree=2")
    k = given["k"]
    depth = len(k) if isinstance(k, list | tuple) else 1
    depth = whole("layers", given.get("layers", max(depth, 1)), DEEPEST)
    kernels = [whole("k", value) for value in layerwise("k", k, depth)]
    strides = [whole("stride", one) for one in layerwise("stride", given.get("stride", 1), depth)]
    least = receptive_field(kernels, strides)
    width = whole("n", given.get("n", least))
    if width < least:
        raise SpecError(
            f"n={width} is shorter than the receptive field {least} of these filters; "
            f"allowed: n from {least}"
        )
    layers = []
    for kernel, stride in zip(kernels, strides, strict=True):
        layers.append(Convolution(width, kernel, stride))
        width = layers[-1].width_out
    return tuple(layers)
