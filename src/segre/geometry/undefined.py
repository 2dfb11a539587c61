"""Does an architecture divide 0 by 0, whatever its weights are?

A LayerNorm of one number with eps = 0 does: the number minus its mean is zero. What stands under
a root or below a fraction is a polynomial in the weights, the inputs, and the values of
exponentials and of earlier roots. It is evaluated mod p at random numbers in place of all of these.
If it is not the zero polynomial, it vanishes there with a chance of degree / p for each point, and
p is above 8 million.
"""

from __future__ import annotations

import numpy as np

from segre.architectures import Architecture
from segre.fields.formal import Formal
from segre.geometry.point import Point, drawn_inputs
from segre.network import named_tensors, stages, with_head_axes

_POINTS = 4
_INPUTS = 16


def undefined_stage(spec: Architecture, seed: int = 0) -> str | None:
    """The first stage that divides by zero at all inputs of all points; None if there is none.

    >>> from segre.models import architecture
    >>> undefined_stage(architecture("transformer/d=1/norm=layer/t=2"))
    'attention 1'
    """
    found = {_at(Point.draw(spec, seed, attempt)) for attempt in range(_POINTS)}
    return found.pop() if len(found) == 1 else None


def _at(point: Point) -> str | None:
    spec, salts = point.spec, np.zeros((_INPUTS, point.spec.t), dtype=np.int64)
    tokens = with_head_axes(spec, drawn_inputs(point.field, spec, np.arange(_INPUTS)))
    for stage in stages(spec):
        field = Formal(point.field, salts, free_roots=True)
        tokens = stage.apply(field, named_tensors(stage, point.weights), tokens)
        if any(zero.all(axis=0).any() for zero in field.divided):
            return stage.name
    return None
