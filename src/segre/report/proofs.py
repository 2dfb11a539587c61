"""The verdict of the kernel on a certificate."""

from __future__ import annotations

from collections.abc import Iterator

from segre.kernel.verify import Verdict
from segre.report.blocks import Block, Items, Say, Tile, Title, elsewhere, terminal, tiles
from segre.report.views import view
from segre.result import claim_in_words


@view.register
def of_verdict(verdict: Verdict) -> Iterator[Block]:
    """Every check and what the checks prove, or the first check that fails."""
    yield Title("Is the certificate valid?", terminal=False)
    word = "valid" if verdict.valid else "invalid"
    yield tiles(Tile("certificate", word, verdict.status, _checked(verdict)))
    if not verdict.valid:
        yield Say(f"invalid: {verdict.reason}", wrap=False)
        return
    yield terminal(*(Say(f"  ok  {sentence}", wrap=False) for sentence in verdict.checks))
    yield Say(f"valid: {claim_in_words(verdict.claim, verdict.theorem)}", wrap=False)
    yield elsewhere(Items("The referee checked", verdict.checks))


def _checked(verdict: Verdict) -> str:
    by_theorem = verdict.kind == "theorem"
    return f"{'hypotheses and count, not the theorem, ' * by_theorem}checked by the referee"
