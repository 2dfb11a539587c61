"""Which families need a lemma of their own? Specials, by name; docs/soundness.md proves them."""

from __future__ import annotations

from typing import Any

from segre.kernel import mixing
from segre.kernel.document import RejectionError, text
from segre.kernel.forms import Facts, Matrix
from segre.spec import Network


def special(facts: Facts, entry: dict[str, Any], where: str) -> Matrix:
    """The generators of a special entry, as rows."""
    name = text(entry.get("name"), f"{where}.name", mixing.NAMES)
    if isinstance(facts.spec, Network):
        return mixing.tangents(facts, facts.spec, entry, where)
    raise RejectionError(f"{where}: no {name!r} in such a network")
