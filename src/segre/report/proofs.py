"""The verdict of the referee on a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segre.finding import BITS, proved
from segre.kernel.verify import Verdict
from segre.report.blocks import Block, Facts, Items, Say, Tile, Title, elsewhere, terminal
from segre.report.views import view


@view.register
def of_verdict(verdict: Verdict) -> Iterator[Block]:
    """Every check and what the checks prove, or the first check that fails."""
    yield Title("Is the certificate valid?", terminal=False)
    word = "valid" if verdict.valid else "invalid"
    yield elsewhere(Facts((Tile("certificate", word, verdict.status, _checked(verdict)),)))
    if not verdict.valid:
        yield Say(f"invalid: {verdict.reason}", wrap=False)
        return
    yield terminal(*(Say(f"  ok  {sentence}", wrap=False) for sentence in verdict.checks))
    yield Say(f"valid: {claim_in_words(verdict.claim, verdict.theorem)}", wrap=False)
    yield elsewhere(Items("The referee checked", verdict.checks))


def _checked(verdict: Verdict) -> str:
    by_theorem = verdict.kind == "theorem"
    return f"{'hypotheses and count, not the theorem, ' * by_theorem}checked by the referee"


def claim_in_words(claim: Mapping[str, Any], theorem: str | None) -> str:
    """What a certificate claims, and what proves it."""
    if claim["status"] != "bounds":
        certain = f"certain (error < 2^-{BITS}, by random points)"
        known = certain if claim["status"] == "certain" else proved(theorem)
        return f"dimension {claim['upper']:,} of {claim['parameters']:,} parameters, {known}"
    return (
        f"{claim['lower']:,} <= dimension <= {claim['upper']:,} of {claim['parameters']:,} "
        "parameters, both bounds proved by computation"
    )
