"""Is a polynomial network defective: of smaller dimension than counting suggests?"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from segre.architectures import Architecture
from segre.finding import Finding
from segre.polynomial.bounds import expected
from segre.polynomial.spec import Polynomial


@singledispatch
def _expected(_spec: Architecture) -> int | None:
    """What counting suggests, where it is a usual thing to compare with."""
    return None


_expected.register(Polynomial, expected)


def with_defect(found: Finding) -> Finding:
    """The same finding, with a note on how much the dimension falls short, if it does."""
    suggested = _expected(found.spec)
    missing = 0 if suggested is None or found.upper is None else suggested - found.upper
    if missing <= 0:
        return found
    least = "" if found.value is not None else "at least "
    note = (
        "defective: the expected dimension (parameters minus scales, or the ambient dimension) "
        f"is {suggested:,}; the defect is {least}{missing:,}"
    )
    return replace(found, notes=(*found.notes, note))
