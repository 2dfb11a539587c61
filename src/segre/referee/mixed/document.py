"""Is this a certificate of a mixed stack, and is it well formed? Sections H1, H2 and H5 to H8.

Nothing here computes with the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from segre.errors import SpecError, TooLargeError
from segre.referee.claims import (
    MOST_PARAMETERS,
    canonical,
    check_seal,
    read_claim,
    read_prime,
    sha256,
)
from segre.referee.document import KEYS
from segre.referee.meter import meter
from segre.referee.mixed.counts import facts_of
from segre.referee.mixed.weights import Layout, parameter_count
from segre.referee.rejection import RejectionError
from segre.referee.residues import WORD
from segre.referee.shapes import items, keys, quote, whole
from segre.referee.transformers.content import (
    Evidence,
    Symmetries,
)
from segre.referee.transformers.reader import Reader
from segre.spec import Network

_STEPS = {  # of a mechanism, and the values that sections H3 and H4 describe
    "weigh": ("identity", "exp", "taylor"),
    "normalise": ("none", "keys", "both", "centred"),
    "feature": ("none", "square", "exp", "relu", "elu1", "silu"),
    "unit": ("none", "sphere", "layer"),
    "conv": ("none", "full", "depthwise", "shared"),
    "gate": ("none", "head", "element"),
    "bias": ("none", "key", "query", "both"),
}
_SPEC_KEYS = ("version", "kind", "d", "a", "heads", "dv", "t")
_LONGEST_LAYER = 100_000
_SEVERAL = re.compile(r"\*([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class Certificate(Evidence):
    """A certificate whose form is right and whose parts fit together."""

    layout: Layout
    upper: Symmetries

    @property
    def spec(self) -> Network:
        """The architecture."""
        return self.layout.spec


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the form of a certificate, part by part, and return it typed."""
    keys(document, (*KEYS, "roots"), "the certificate")
    check_seal(document)
    spec = _spec(document["spec"])
    if document["digest"] != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    claim = read_claim(document["claim"], parameter_count(spec))
    # The weights of every head are a table, which is needed in any case.
    heads = sum(group.heads for layer in spec.layers for group in layer.groups)
    meter().require_bytes(8 * heads * spec.t * spec.t)
    prime = read_prime(document["prime"])
    if prime % 4 != 3:
        raise RejectionError(f"prime: {prime} is not 3 mod 4")
    seed = whole(document["seed"], "seed", 0, WORD - 1)
    layout = Layout(spec)
    reader = Reader(facts_of(layout), claim, prime)
    lower = reader.lower(document["lower"])
    witnesses = reader.witnesses(document, lower)
    upper = reader.symmetries(document["upper"], "is 'symmetries'")
    return Certificate(claim, prime, seed, lower, *witnesses, layout, upper)


def _spec(value: Any) -> Network:
    if not isinstance(value, dict) or value.get("kind") != "mix":
        raise RejectionError("spec: certificates of version 4 are of kind 'mix'")
    for key in value:
        if key not in _SPEC_KEYS:
            raise RejectionError(f"spec: the key {quote(key)} is not allowed")
    _check_heads(value.get("heads"))
    try:
        spec = Network.parse(value)
    except SpecError as error:
        raise RejectionError(_one_line(str(error))) from None
    for one in spec.mechanisms:
        for step, known in _STEPS.items():
            if (found := getattr(one, step)) not in known:
                raise RejectionError(f"spec: {step}={found} is not known to the referee")
    if canonical(value) != canonical(spec.by_head()):
        raise RejectionError(
            "spec: not in canonical form (one value for each layer, defaults left out)"
        )
    return spec


def _one_line(text: str, longest: int = 300) -> str:
    """A message that may quote what is in the file."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[:longest] + "..."


def _check_heads(value: Any) -> None:
    """Refuse more heads than a certificate can have weights, before any is made."""
    total = 0
    for i, text in enumerate(items(value, "spec: heads")):
        if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_LAYER:
            raise RejectionError(f"spec: heads[{i}]: {quote(text)} does not name mechanisms")
        total += text.count("+") + 1 + sum(map(int, _SEVERAL.findall(text)))
        if total > MOST_PARAMETERS:
            raise TooLargeError(
                f"the certificate is of a network with more than {MOST_PARAMETERS} heads"
            )
