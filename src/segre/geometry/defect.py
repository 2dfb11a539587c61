"""Is a polynomial network defective: of smaller dimension than counting suggests?"""

from __future__ import annotations

from dataclasses import replace

from segre.finding import Finding
from segre.polynomial.bounds import expected
from segre.polynomial.spec import Polynomial


def with_defect(found: Finding) -> Finding:
    """The same finding, with a note on how much the dimension falls short, if it does."""
    if not isinstance(found.spec, Polynomial) or found.upper is None:
        return found
    missing = expected(found.spec) - found.upper
    if missing <= 0:
        return found
    least = "" if found.value is not None else "at least "
    note = (
        "defective: the expected dimension (parameters minus scales, or the ambient dimension) "
        f"is {expected(found.spec):,}; the defect is {least}{missing:,}"
    )
    return replace(found, notes=(*found.notes, note))
