"""Which graph has a spec? That of a stack, of a transformer or of a polynomial network."""

from __future__ import annotations

from segre.kernel.document import Spec
from segre.kernel.graph import Graph
from segre.kernel.polynomial import polynomial
from segre.kernel.stack import stack
from segre.kernel.transformer import transformer
from segre.polynomial.spec import Polynomial
from segre.transformer.spec import Transformer


def graph_of(spec: Spec) -> Graph:
    """The network of a spec."""
    if isinstance(spec, Transformer):
        return transformer(spec)
    return polynomial(spec) if isinstance(spec, Polynomial) else stack(spec)
