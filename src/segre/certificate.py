"""A proof of a dimension as a document that anyone can check again.

docs/certificate.md defines every field; `segre.referee` checks the document with code of
its own. The same spec and seed give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flint import nmod_mat

from segre.errors import UnluckyError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.files import whole_file
from segre.geometry.dimension import Proof, prove
from segre.geometry.independence import witness_rows
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.rank import Progress, quiet
from segre.spec import Network

FORMAT = "segre-certificate"
VERSION = 1


def certify(
    spec: str | Path | Mapping[str, Any] | Network,
    seed: int = 0,
    *,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """The certificate of the bounds that segre can prove.

    >>> document = certify("lightning/d=2,2/a=1/t=2")
    >>> document["claim"]
    {'parameters': 8, 'lower': 6, 'upper': 6, 'status': 'proved'}
    """
    proof = prove(Network.parse(spec), seed, memory=memory, progress=progress)
    if proof.lower.evidence.kind != "minor-mod-p":
        raise UnluckyError(
            f"spec {str(proof.spec)!r}: {proof.lower.evidence.statement}; nothing to certify"
        )
    document = {
        "format": FORMAT,
        "version": VERSION,
        "spec": proof.spec.document(),
        "digest": proof.spec.digest,
        "claim": {
            "parameters": proof.spec.parameters,
            "lower": proof.lower.value,
            "upper": proof.upper.value,
            "status": "proved" if proof.lower.value == proof.upper.value else "lower-bound",
        },
        "prime": proof.point.field.p,
        "seed": proof.point.field.seed,
        "lower": _minor(proof),
        "independence": _independence(proof),
        "upper": _upper(proof),
    }
    return {**document, "checksum": checksum(document)}


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a certificate without its checksum."""
    rest = {key: value for key, value in document.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_certificate(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a certificate; the file is there whole or not at all."""
    with whole_file(path) as temporary:
        text = json.dumps(document, separators=(",", ":"))
        temporary.write_text(text + "\n", encoding="utf-8")


def _minor(proof: Proof) -> dict[str, Any]:
    point, minor = proof.point, proof.minor
    wanted: dict[int, list[int]] = {}
    for n, o in minor.rows:
        wanted.setdefault(n, []).append(o)
    values: dict[tuple[int, int], list[int]] = {}
    for n, outputs in wanted.items():
        rows = point.field.residues(point.jacobian_rows(n, 1)[outputs][:, minor.columns])
        values |= {(n, o): row for o, row in zip(outputs, rows.tolist(), strict=True)}
    matrix = [values[row] for row in minor.rows]
    return {
        "kind": "minor-mod-p",
        "rows": [list(row) for row in minor.rows],
        "columns": minor.columns,
        "determinant": _determinant(matrix, point.field),
    }


def _independence(proof: Proof) -> dict[str, Any] | None:
    found = proof.independence
    if found is None:
        return None
    field = proof.point.field
    rows: Array = field.residues(witness_rows(proof.spec, field, found.points))
    return {
        "arguments": found.arguments,
        "coordinates": found.coordinates,
        "points": found.points,
        "determinant": _determinant(rows.tolist(), field),
    }


def _upper(proof: Proof) -> dict[str, Any]:
    kind = proof.upper.evidence.kind
    if kind != "symmetries" or proof.symmetry is None:
        return {"kind": kind}
    return {
        "kind": kind,
        "pieces": [
            {"kind": p.kind, "layer": p.layer, "head": p.head, "dimension": p.dimension}
            for p in proof.symmetry.pieces
        ],
        "rank": proof.symmetry.rank,
    }


def _determinant(matrix: list[list[int]], field: Prime) -> int:
    entries = [entry for row in matrix for entry in row]
    return int(nmod_mat(len(matrix), len(matrix), entries, field.p).det())
