"""A proof of a dimension as a document that anyone can check.

docs/certificate.md and the pages that continue it define every field of certificates that hold a
computation, docs/certificate-theorems.md those of certificates that apply a theorem.
`segre.referee` checks both with independent code. The same spec and seed give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from flint import nmod_mat

from segre.architectures import Architecture, digest_of
from segre.errors import SegreError, TooLargeError, UnluckyError, UnsupportedError
from segre.fields.interface import Array
from segre.fields.prime import Prime
from segre.files import whole_file
from segre.geometry.at_any_size import why_no_theorem
from segre.geometry.balls import BallMinor
from segre.geometry.closed_form import ambient
from segre.geometry.dimension import Proof, prove, too_large
from segre.geometry.independence import witness_rows
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.point import Point
from segre.geometry.progress import Progress, quiet
from segre.geometry.rank import SymmetryRank
from segre.models import Source, architecture
from segre.polynomial.bounds import bound
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.symmetry.stack_mixing import FACTORED
from segre.theorems import Application, apply
from segre.values import quote

FORMAT = "segre-certificate"
VERSION = 1
SALTED_VERSION = 2
THEOREM_VERSION = 3
MIXED_VERSION = 4
POLYNOMIAL_VERSION = 5
KINDS_OF_VERSION_1 = (
    "between",
    "unread",
    "unreached",
    "silent-scores",
    "pooled-heads",
    "query-key",
    "skew-scores",
    "value-output",
    "scale",
    "mix-heads",
    "mix-some-heads",
)
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
    >>> document["claim"]
    {'parameters': 8, 'lower': 6, 'upper': 6, 'status': 'proved'}
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
        return certificate_of(prove(net, seed, memory=memory, progress=progress))
    except TooLargeError:
        if method == "exact":
            raise
        given = spec if isinstance(spec, str) else str(net)
        raise TooLargeError(
            f"spec {quote(given)}: {net.parameters:,} parameters are too many for a proof by "
            f"computation (--memory is the limit), and {why_no_theorem(net, applied)}; segre dim "
            "gives an upper bound"
        ) from None


def certificate_of(proof: Proof) -> dict[str, Any]:
    """A proof as a certificate."""
    proof = _checkable(proof)
    net = proof.spec
    version, spec = _form(net, proof)
    salted = version in (SALTED_VERSION, MIXED_VERSION)
    if isinstance(proof.minor, BallMinor) and not net.salted:
        raise UnluckyError(
            f"spec {str(net)!r}: certificates of stacks need a minor mod p, and none was proved "
            "independent at this point; try another --seed"
        )
    document = {
        "format": FORMAT,
        "version": version,
        "spec": spec,
        "digest": digest_of(spec),
        "claim": {
            "parameters": net.parameters,
            "lower": proof.lower.value,
            "upper": proof.upper.value,
            "status": "proved" if proof.lower.value == proof.upper.value else "lower-bound",
        },
        "prime": proof.point.field.p,
        "seed": proof.point.field.seed,
        "lower": _minor(proof, salted),
        "independence": _independence(proof),
        **({"roots": _roots(proof)} if salted else {}),
        "upper": _upper(proof, salted),
    }
    return {**document, "checksum": checksum(document)}


def _checkable(proof: Proof) -> Proof:
    """The proof, with the best upper bound that a version describes; of a stack, 1 if possible.

    That a transformer is a plain stack, whose symmetries bound it, is in no version.
    """
    net, symmetry, used = proof.spec, proof.symmetry, proof.upper.evidence.kind
    if used == "within" and symmetry is not None and proof.wider is not None:
        if proof.wider.point.spec.salted:
            return proof
        return replace(proof, upper=symmetry.bound(net.parameters), wider=None)
    if not isinstance(net, Network) or symmetry is None:
        return proof
    whole = ambient(net)
    kept = tuple(piece for piece in symmetry.pieces if piece.kind != FACTORED)  # counted last
    bounds = [replace(symmetry, pieces=kept).bound(net.parameters)]
    bounds += [whole] if whole is not None and net.plain else []
    bounds += [proof.upper] if used not in ("symmetries", "ambient") else []
    upper = min(reversed(bounds), key=lambda one: one.value)
    return replace(proof, symmetry=replace(symmetry, pieces=kept), upper=upper)


@singledispatch
def _form(net: Architecture, _proof: Proof) -> tuple[int, dict[str, Any]]:
    """The version, and the spec as that version writes it."""
    return SALTED_VERSION, net.document()


@_form.register
def _of_polynomial(net: Polynomial, _proof: Proof) -> tuple[int, dict[str, Any]]:
    return POLYNOMIAL_VERSION, net.document()


@_form.register
def _of_stack(net: Network, proof: Proof) -> tuple[int, dict[str, Any]]:
    """A plain stack has version 1, unless its bound uses a symmetry that only version 4 has."""
    used = proof.symmetry.pieces if proof.symmetry and _by_symmetries(proof) else ()
    if net.plain and all(piece.kind in KINDS_OF_VERSION_1 for piece in used):
        return VERSION, net.document()
    return MIXED_VERSION, net.by_head()


def _by_symmetries(proof: Proof) -> bool:
    return proof.upper.evidence.kind == "symmetries"


def certificate_by_theorem(applied: Application) -> dict[str, Any]:
    """An application of a theorem as a certificate."""
    net, bound = applied.spec, applied.bound.value
    document = {
        "format": FORMAT,
        "version": THEOREM_VERSION,
        "spec": net.document(),
        "digest": net.digest,
        "claim": {
            "parameters": net.parameters,
            "lower": bound,
            "upper": bound,
            "status": "proved",
        },
        "theorem": {
            "name": applied.theorem.name,
            "hypotheses": [
                {"name": one.name, "left": one.left, "relation": one.relation, "right": one.right}
                for one in applied.hypotheses
            ],
            "symmetries": [
                {"name": name, "dimension": count} for name, count in applied.symmetries.items()
            ],
        },
    }
    return {**document, "checksum": checksum(document)}


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


def _minor(proof: Proof, salted: bool) -> dict[str, Any]:
    point, minor = proof.point, proof.minor
    rows = [list(row) for row in minor.rows]
    if isinstance(minor, BallMinor):
        return {
            "kind": "ball-minor",
            "rows": rows,
            "columns": minor.columns,
            "bits": minor.bits,
            "seed": minor.seed,
        }
    wanted: dict[int, list[int]] = {}
    for n, o in minor.rows:
        wanted.setdefault(n, []).append(o)
    values: dict[tuple[int, int], list[int]] = {}
    for n, outputs in wanted.items():
        found = point.jacobian_rows(point.batch(n, 1))[np.array(outputs)]
        residues = point.field.residues(found[:, np.array(minor.columns)]).tolist()
        values |= {(n, o): row for o, row in zip(outputs, residues, strict=True)}
    matrix = [values[row] for row in minor.rows]
    return {
        "kind": "minor-mod-p",
        "rows": rows,
        "columns": minor.columns,
        "determinant": _determinant(matrix, point.field),
        **({"salts": _salts(point, sorted(wanted))} if salted else {}),
    }


def _salts(point: Point, inputs: list[int]) -> dict[str, list[list[int]]]:
    """The salts of inputs, by source and token."""
    found = {}
    for n in inputs:
        found[str(n)] = point.batch(n, 1).salts[:, 0].tolist()
    return found


def _symmetries(point: Point, symmetry: SymmetryRank) -> dict[str, Any]:
    """Their rank, the salts of the inputs where they are checked, and whether roots are drawn."""
    counted = {"kind": "symmetries", "rank": symmetry.rank}
    if symmetry.rooted:
        return {**counted, "salts": _salts(point, [0, 1])}
    batch = point.inputs_with_free_roots
    salts = {str(n): batch.salts[:, n].tolist() for n in (0, 1)}
    assert not isinstance(batch.fields, Prime)
    drawn = {"roots": "drawn"} if any(field.took_roots for field in batch.fields) else {}
    return {**counted, **drawn, "salts": salts}


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
    if isinstance(proof.minor, BallMinor):
        return None
    return [
        {"stage": stage, "root": root, "entry": entry, "input": number, "salts": salts}
        for (stage, root, entry), (number, salts) in sorted(proof.point.roots.seen.items())
    ]


def _upper(proof: Proof, salted: bool) -> dict[str, Any]:
    kind = proof.upper.evidence.kind
    if kind == "contexts":
        return {"kind": kind, **proof.upper.evidence.data}
    if kind == "within":
        assert proof.wider is not None
        other = proof.wider.point
        inner = _symmetries(other, proof.wider.symmetry)
        return {"kind": kind, "spec": other.spec.document(), "upper": inner}
    if isinstance(proof.spec, Polynomial) and kind != "symmetries":
        return {"kind": "inequalities", "steps": bound(proof.spec).steps}
    if kind != "symmetries" or proof.symmetry is None:
        return {"kind": kind}
    if salted:
        return _symmetries(proof.point, proof.symmetry)
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
