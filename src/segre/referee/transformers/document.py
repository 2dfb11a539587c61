"""Is this a certificate of a transformer, and is it well formed? Sections 1, 2 and 6 to 9.

Nothing here computes with the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segre.errors import SpecError
from segre.referee.claims import (
    MANY,
    Claim,
    canonical,
    check_seal,
    read_claim,
    read_prime,
    sha256,
)
from segre.referee.document import KEYS
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import check_fractions, keys, whole
from segre.referee.transformers.content import Certificate, Contexts, Upper, outputs
from segre.referee.transformers.reader import Facts, Reader
from segre.referee.transformers.stages import (
    argument_count,
    minor_mod_p,
    needs_independence,
    root_counts,
    sources,
)
from segre.referee.transformers.weights import Layout
from segre.transformer.spec import Transformer


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, (*KEYS, "roots"), "the certificate")
    check_seal(document)
    spec = _spec(document["spec"])
    if document["digest"] != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    layout = Layout(spec)
    claim = read_claim(document["claim"], layout.parameters)
    prime = read_prime(document["prime"])
    if prime % 4 != 3:
        raise RejectionError(f"prime: {prime} is not 3 mod 4")
    seed = whole(document["seed"], "seed", 0, WORD - 1)
    reader = _Reader(layout, claim, prime)
    lower = reader.lower(document["lower"])
    independence, roots = reader.witnesses(document, lower)
    upper = reader.upper(document["upper"])
    return Certificate(claim, prime, seed, lower, independence, roots, layout, upper)


def _spec(value: Any) -> Transformer:
    if not isinstance(value, dict) or value.get("kind") != "transformer":
        raise RejectionError("spec: certificates of version 2 are of kind 'transformer'")
    check_fractions(value)
    try:
        spec = Transformer.from_mapping(value)
    except SpecError as error:
        raise RejectionError(str(error)) from None
    if canonical(value) != canonical(spec.document()):
        raise RejectionError("spec: not in canonical form (defaults left out)")
    return spec


class _Reader(Reader):
    """Reads the parts of a certificate of a transformer."""

    def __init__(self, layout: Layout, claim: Claim, prime: int) -> None:
        spec = layout.spec
        rows, columns = outputs(spec)
        words, numbers = (WORD - (1 << 41)) // spec.t, WORD // ((spec.patch or spec.d) * spec.t)
        facts = Facts(
            parameters=layout.parameters,
            tokens=spec.t,
            rows=spec.width_in,
            outputs=rows * columns,
            sources=sources(spec),
            real_inputs=words if spec.vocab else numbers,
            modular=minor_mod_p(spec),
            arguments=argument_count(spec) if needs_independence(spec) else None,
            coordinates=spec.d * spec.t,
            roots=root_counts(spec),
        )
        super().__init__(facts, claim, prime)
        self.layout, self.spec = layout, spec

    def upper(self, value: Any) -> Upper | Contexts:
        if isinstance(value, dict) and value.get("kind") == "contexts":
            keys(value, ("kind", "contexts"), "upper")
            return Contexts(whole(value["contexts"], "upper.contexts", 1, MANY))
        if isinstance(value, dict) and value.get("kind") == "within":
            return self._within(value)
        found = self.symmetries(value, "are 'symmetries' and 'contexts'")
        return Upper(found, self.layout)

    def _within(self, value: dict[str, Any]) -> Upper:
        """Section 11: the symmetries of an architecture that has all functions of this one."""
        keys(value, ("kind", "spec", "upper"), "upper")
        spec = self.spec
        other = _spec(value["spec"])
        if not _wider(spec, other):
            raise RejectionError("upper.spec: not one that has all functions of this spec")
        layout = Layout(other)
        claim = replace(self.claim, parameters=layout.parameters)
        found = _Reader(layout, claim, self.prime).upper(value["upper"])
        if not isinstance(found, Upper) or found.layout is not layout:
            raise RejectionError("upper.upper.kind: allowed is 'symmetries'")
        return found


def _wider(spec: Transformer, other: Transformer) -> bool:
    """Whether the second is the first with a freer table of words, as section 11 says."""
    if not spec.vocab or spec.tied or spec.pos == "learned" or spec.types or not spec.firstnorm:
        return False
    plain = {key: value for key, value in spec.document().items() if key != "embnorm"}
    return spec.embnorm and other.document() == plain
