"""A proof of a dimension as a document that anyone can check.

docs/certificate.md defines every field. `segre.kernel` checks it with independent code; what it
does not confirm is not claimed. The same spec and seed give the same bytes.

Certificates of versions 1 to 5 are converted: point, minor and witnesses stay, and symmetries,
which those versions named by kind, are listed as spaces. Nothing is believed: `segre verify` checks
what comes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from flint import nmod_mat

from segre.architectures import Architecture, digest_of
from segre.errors import CertificateError, SegreError, TooLargeError, UnsupportedError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.files import whole_file
from segre.geometry.at_any_size import why_no_theorem
from segre.geometry.balls import BallMinor
from segre.geometry.dimension import Proof, prove, too_large
from segre.geometry.independence import witness_rows
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.point import Point
from segre.geometry.progress import Progress, quiet
from segre.kernel import random
from segre.kernel.document import (
    FORMAT,
    VERSION,
    RejectionError,
    examine,
    parsed_spec,
    read,
    read_spec,
)
from segre.kernel.graph import Graph
from segre.kernel.network import graph_of
from segre.kernel.spaces import accepted
from segre.models import Source, architecture
from segre.polynomial.bounds import bound
from segre.polynomial.spec import Polynomial
from segre.symmetry.document import entries
from segre.theorems import Application, apply
from segre.values import quote

LARGEST_SAMPLED = 2_000  # parameters: random points take as long as the rest
_BY_THEOREM = 3  # the version of a certificate by theorem, of 1 to 5
_LOWER = {"minor-mod-p": "minor", "ball-minor": "balls"}  # as versions 1 to 5 named it
_ALTERED = "the file was altered or damaged after it was written"
By = Literal["auto", "exact", "theorem"]


def certify(
    spec: Source,
    seed: int = 0,
    *,
    method: By = "auto",
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """The certificate of the bounds that segre can prove.

    By `method`, a certificate holds a computation (`exact`) or applies a theorem (`theorem`), never
    both. `auto` computes, unless the network is too large for that and a theorem applies.

    >>> document = certify("lightning/d=2,2/a=1/t=2")
    >>> document["claim"]["lower"], document["claim"]["upper_by"], document["claim"]["status"]
    (6, 'spaces', 'proved')
    >>> certify("llama-3-8b")["claim"]["lower"]
    8016918528
    """
    net = architecture(spec)
    if method not in get_args(By):
        raise SegreError(f"unknown method {method!r}; allowed: {', '.join(get_args(By))}")
    applied = apply(net) if method != "exact" else None
    if method == "theorem" and (applied is None or not applied.holds):
        raise UnsupportedError(f"spec {quote(str(net))}: {why_no_theorem(net, applied)}")
    if applied is not None and applied.holds and (method == "theorem" or too_large(net)):
        return certificate_by_theorem(applied)
    try:
        return certificate_of(prove(net, seed, memory=memory, progress=progress), progress)
    except TooLargeError:
        if method == "exact":
            raise
        given = spec if isinstance(spec, str) else str(net)
        raise TooLargeError(
            f"spec {quote(given)}: {net.parameters:,} parameters are too many for a proof by "
            f"computation (--memory is the limit), and {why_no_theorem(net, applied)}; segre dim "
            "gives an upper bound"
        ) from None


def certificate_of(proof: Proof, progress: Progress = quiet) -> dict[str, Any]:
    """A proof as a certificate, with the best upper bound that the kernel confirms.

    Where the bounds do not meet, random points may show that the lower one is certain.
    """
    net, lower = proof.spec, proof.lower.value
    graph = _graph(net)
    sections = {
        "point": {"seed": proof.point.field.seed, "prime": proof.point.field.p},
        "lower": _minor(proof),
        "independence": _independence(proof),
        "roots": _roots(proof),
    }
    upper, section = min(_uppers(proof, graph), key=lambda one: one[0])
    certain = None
    if upper > lower and net.parameters <= LARGEST_SAMPLED:
        certain = _certain(net, lower, sections, graph, progress)
    return certain or sealed(net, lower, upper, {**sections, "upper": section})


def sealed(
    net: Architecture, lower: int, upper: int, sections: Mapping[str, Any]
) -> dict[str, Any]:
    """A certificate with these sections: what stands before them follows, and the checksum."""
    by = {f"{key}_by": sections[key]["kind"] for key in ("lower", "upper")}
    status = "proved" if lower == upper else "bounds"
    claim = {"parameters": net.parameters, "lower": lower, "upper": upper, **by}
    claim["status"] = "certain" if by["upper_by"] == "random" else status
    spec = net.document()
    head = {"format": FORMAT, "version": VERSION, "spec": spec, "digest": digest_of(spec)}
    document = {**head, "claim": claim, **sections}
    return {**document, "checksum": checksum(document)}


def _uppers(proof: Proof, graph: Graph) -> Iterator[tuple[int, dict[str, Any]]]:
    """Upper bounds that a certificate can give, each with its section."""
    kind, value, net = proof.upper.evidence.kind, proof.upper.value, proof.spec
    if kind == "contexts":
        yield value, {"kind": kind, **proof.upper.evidence.data}
    elif isinstance(net, Polynomial):
        if kind != "symmetries":
            yield value, {"kind": "inequalities", "steps": bound(net).steps}
    elif kind in ("closed-form", "ambient"):
        yield value, {"kind": kind}
    if proof.wider is not None and proof.wider.point.spec.salted:
        other = proof.wider.point.spec
        inner, section = spaces_of(
            other, _graph(other), proof.point.field.p, proof.point.field.seed
        )
        yield inner, {"kind": "within", "spec": other.document(), "upper": section}
    if value > proof.lower.value or kind in ("symmetries", "within"):
        yield spaces_of(net, graph, proof.point.field.p, proof.point.field.seed)


def _graph(net: Architecture) -> Graph:
    """The kernel's own graph of a network."""
    try:
        return graph_of(read_spec(net.document()))
    except RejectionError as reason:
        raise UnsupportedError(f"no certificate: {reason}") from None


def spaces_of(net: Architecture, graph: Graph, prime: int, seed: int) -> tuple[int, dict[str, Any]]:
    """The upper bound by the spaces that the kernel confirms at a point."""
    spec = read_spec(net.document())
    listed, rank = accepted(spec, graph, prime, seed, list(entries(net)))
    return net.parameters - rank, {"kind": "spaces", "spaces": listed, "rank": rank}


def _certain(
    net: Architecture, lower: int, sections: Mapping[str, Any], graph: Graph, progress: Progress
) -> dict[str, Any] | None:
    """The certificate in which random points confirm the lower bound, if they do."""
    certificate = examine(sealed(net, lower, lower, {**sections, "upper": {"kind": "random"}}))
    try:
        every = {**sections, "upper": random.section(certificate, graph)}
        random.check(replace(certificate, sections=every), graph, progress)
    except RejectionError:
        return None
    return sealed(net, lower, lower, every)


def certificate_by_theorem(applied: Application) -> dict[str, Any]:
    """An application of a theorem as a certificate."""
    hypotheses = [
        {"name": one.name, "left": one.left, "relation": one.relation, "right": one.right}
        for one in applied.hypotheses
    ]
    counted = [{"name": name, "dimension": n} for name, n in applied.symmetries.items()]
    given = {"name": applied.theorem.name, "hypotheses": hypotheses, "symmetries": counted}
    return _by_theorem(applied.spec, applied.bound.value, given)


def _by_theorem(net: Architecture, number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    nothing = dict.fromkeys(("point", "independence", "roots"))
    lower = {"kind": "theorem", "name": given["name"], "hypotheses": given["hypotheses"]}
    upper = {"kind": "theorem", "symmetries": given["symmetries"]}
    return sealed(net, number, number, {**nothing, "lower": lower, "upper": upper})


def convert(source: str | Path | Mapping[str, Any], progress: Progress = quiet) -> dict[str, Any]:
    """The certificate that says the same in the version of today.

    Refused if the upper bound needs a symmetry that is no longer listed, and random points do not
    make the lower bound certain.
    """
    document, fault = read(source, range(1, VERSION))
    if fault is not None or document.get("checksum") != checksum(document):
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
        return _by_theorem(spec, claim["upper"], document["theorem"])
    prime, seed, given = document["prime"], document["seed"], document["upper"]
    sections = {
        "point": {"seed": seed, "prime": prime},
        "lower": {**document["lower"], "kind": _LOWER[document["lower"]["kind"]]},
        "independence": document["independence"],
        "roots": document.get("roots") or None,
    }
    upper, graph = claim["upper"], graph_of(spec)
    if given["kind"] == "symmetries":
        upper, given = spaces_of(spec, graph, prime, seed)
    elif given["kind"] == "within":
        other = parsed_spec(given["spec"])
        upper, inner = spaces_of(other, graph_of(other), prime, seed)
        given = {"kind": "within", "spec": other.document(), "upper": inner}
    if upper <= claim["upper"]:
        return sealed(spec, claim["lower"], upper, {**sections, "upper": given})
    certain = _certain(spec, claim["lower"], sections, graph, progress)
    if certain is None:
        raise UnsupportedError(
            f"the certificate bounds the dimension of {spec} by {claim['upper']} with symmetries "
            f"that version {VERSION} does not list; write a new one with segre certify"
        )
    return certain


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a certificate without its checksum."""
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return digest_of(rest)


def write_certificate(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a certificate, the `document`, to `path`: completely or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_certificate(certify("lightning/d=2,2/a=1/t=2"), Path(folder) / "proof.json")
    ...     json.loads((Path(folder) / "proof.json").read_text())["claim"]["upper"]
    6
    """
    with whole_file(path) as temporary:
        text = json.dumps(document, separators=(",", ":"))
        temporary.write_text(text + "\n", encoding="utf-8")


def _minor(proof: Proof) -> dict[str, Any]:
    point, minor = proof.point, proof.minor
    rows = [list(row) for row in minor.rows]
    if isinstance(minor, BallMinor):
        where = {"rows": rows, "columns": minor.columns, "bits": minor.bits, "seed": minor.seed}
        return {"kind": "balls", **where}
    wanted: dict[int, list[int]] = {}
    for n, o in minor.rows:
        wanted.setdefault(n, []).append(o)
    values: dict[tuple[int, int], list[int]] = {}
    for n, outputs in wanted.items():
        found = point.jacobian_rows(point.batch(n, 1))[np.array(outputs)]
        residues = point.field.residues(found[:, np.array(minor.columns)]).tolist()
        values |= {(n, o): row for o, row in zip(outputs, residues, strict=True)}
    return {
        "kind": "minor",
        "rows": rows,
        "columns": minor.columns,
        "determinant": _determinant([values[row] for row in minor.rows], point.field),
        **({"salts": _salts(point, sorted(wanted))} if proof.spec.salted else {}),
    }


def _salts(point: Point, inputs: list[int]) -> dict[str, list[list[int]]]:
    """The salts of inputs, by source and token."""
    return {str(n): point.batch(n, 1).salts[:, 0].tolist() for n in inputs}


def _independence(proof: Proof) -> dict[str, Any] | None:
    found = proof.independence
    if found is None:
        return None
    field = proof.point.field
    rows: Array = field.residues(witness_rows(proof.spec, field, found.points, found.salts).rows)
    salts = [found.salts[point] for point in found.points if point in found.salts]
    return {
        "arguments": found.arguments,
        "coordinates": found.coordinates,
        "points": found.points,
        **({"salts": salts} if proof.spec.salted else {}),
        "determinant": _determinant(rows.tolist(), field),
    }


def _roots(proof: Proof) -> list[dict[str, Any]] | None:
    if isinstance(proof.minor, BallMinor) or not proof.spec.salted:
        return None
    found = [
        {"stage": stage, "root": root, "entry": entry, "input": number, "salts": salts}
        for (stage, root, entry), (number, salts) in sorted(proof.point.roots.seen.items())
    ]
    return found or None


def _determinant(matrix: list[list[int]], field: Prime) -> int:
    entries = [entry for row in matrix for entry in row]
    return int(nmod_mat(len(matrix), len(matrix), entries, field.p).det())
