"""How is a certificate of versions 1 to 5 written in the version of today?

Its point, minor and witnesses stay. Symmetries, which those versions named by kind, are listed as
spaces. Nothing is believed: `segre verify` checks what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segre.certificate import at_random_points, sealed, spaces_of
from segre.errors import CertificateError, UnsupportedError
from segre.geometry.progress import Progress, quiet
from segre.kernel.document import VERSION, RejectionError, Spec, parsed_spec, read, sha256
from segre.kernel.graph import Graph
from segre.kernel.network import graph_of

_BY_THEOREM = 3
_LOWER = {"minor-mod-p": "minor", "ball-minor": "balls"}
_ALTERED = "the file was altered or damaged after it was written"


def convert(source: str | Path | Mapping[str, Any], progress: Progress = quiet) -> dict[str, Any]:
    """The certificate that says the same in the version of today.

    Refused if the upper bound needs a symmetry that is no longer listed, and random points do not
    make the lower bound certain.
    """
    document, fault = read(source, range(1, VERSION))
    body = {key: value for key, value in document.items() if key != "checksum"}
    if fault is not None or document.get("checksum") != sha256(body):
        raise CertificateError(f"certificate: {fault or _ALTERED}")
    try:
        return _converted(document, progress)
    except (KeyError, TypeError, AttributeError, RejectionError) as error:
        version = document["version"]
        raise CertificateError(
            f"certificate: not as version {version} describes it ({error})"
        ) from None


def _converted(document: dict[str, Any], progress: Progress) -> dict[str, Any]:
    spec, claim = parsed_spec(document["spec"]), document["claim"]
    if document["version"] == _BY_THEOREM:
        return _by_theorem(spec, document["theorem"], claim["upper"])
    graph, prime, seed = graph_of(spec), document["prime"], document["seed"]
    sections = {
        "point": {"seed": seed, "prime": prime},
        "lower": {**document["lower"], "kind": _LOWER[document["lower"]["kind"]]},
        "independence": document["independence"],
        "roots": document.get("roots") or None,
    }
    upper, section = _upper(spec, graph, document)
    if upper <= claim["upper"]:
        return sealed(spec, claim["lower"], upper, {**sections, "upper": section})
    certain = sealed(
        spec, claim["lower"], claim["lower"], {**sections, "upper": {"kind": "random"}}
    )
    found = at_random_points(certain, graph, progress)
    if found is None:
        raise UnsupportedError(
            f"the certificate bounds the dimension of {spec} by {claim['upper']} with symmetries "
            f"that version {VERSION} does not list; write a new one with segre certify"
        )
    return sealed(spec, claim["lower"], claim["lower"], {**sections, "upper": found})


def _by_theorem(spec: Spec, theorem: dict[str, Any], number: int) -> dict[str, Any]:
    lower = {"kind": "theorem", "name": theorem["name"], "hypotheses": theorem["hypotheses"]}
    upper = {"kind": "theorem", "symmetries": theorem["symmetries"]}
    nothing = dict.fromkeys(("point", "independence", "roots"))
    return sealed(spec, number, number, {**nothing, "lower": lower, "upper": upper})


def _upper(spec: Spec, graph: Graph, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The upper bound, and its section."""
    given, prime, seed = document["upper"], document["prime"], document["seed"]
    if given["kind"] == "symmetries":
        return spaces_of(spec, graph, prime, seed)
    if given["kind"] != "within":
        return document["claim"]["upper"], given
    other = parsed_spec(given["spec"])
    bound, section = spaces_of(other, graph_of(other), prime, seed)
    return bound, {"kind": "within", "spec": other.document(), "upper": section}
