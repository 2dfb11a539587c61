"""The verdict of the referee, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segre.finding import proved
from segre.referee.verdict import Verdict
from segre.report.text import printed, say


@printed.register
def print_verdict(verdict: Verdict) -> None:
    """Every check and what the checks prove, or the first check that fails."""
    if not verdict.valid:
        say(f"invalid: {verdict.reason}")
        return
    for sentence in verdict.checks:
        say(f"  ok  {sentence}")
    say(f"valid: {claim_in_words(verdict.claim, verdict.theorem)}")


def claim_in_words(claim: Mapping[str, Any], theorem: str | None) -> str:
    """What a certificate claims, and what proves it."""
    if claim["status"] == "proved":
        known = proved(theorem)
        return f"dimension {claim['upper']:,} of {claim['parameters']:,} parameters, {known}"
    return (
        f"{claim['lower']:,} <= dimension <= {claim['upper']:,} of {claim['parameters']:,} "
        "parameters, both bounds proved by computation"
    )
