"""The verdict of the referee, in a notebook."""

from __future__ import annotations

from segre.referee.verdict import Verdict
from segre.report.cards import carded
from segre.report.cards.card import Card
from segre.report.page.blocks import Items, Tile
from segre.report.proofs import claim_in_words


@carded.register
def card_of_verdict(verdict: Verdict) -> Card:
    """Whether a certificate is valid: what was checked, or the first reason why it is not."""
    word = "valid" if verdict.valid else "invalid"
    said = claim_in_words(verdict.claim, verdict.theorem) if verdict.valid else verdict.reason
    by_theorem = verdict.kind == "theorem"
    checked = "hypotheses and count, not the theorem, checked" if by_theorem else "checked"
    return Card(
        title="Is the certificate valid?",
        tiles=(Tile("certificate", word, verdict.status, f"{checked} by the referee"),),
        lead=f"{said[:1].upper()}{said[1:]}.",
        blocks=(Items("The referee checked", verdict.checks),) if verdict.checks else (),
    )
