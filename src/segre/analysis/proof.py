"""Can it be checked? A certificate of the architecture, or of small ones of the same design.

The label speaks of the architecture that was asked about. If that is too large to compute, its
certificate applies a theorem. Where none applies it was not run, whatever is proved of small ones.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import replace
from typing import Any

from segre.analysis.part import Part
from segre.analysis.workbench import Workbench
from segre.architectures import Architecture
from segre.certificate import certificate_of, certify
from segre.errors import SegreError, UnsupportedError
from segre.finding import Status, claim_in_words
from segre.geometry.dimension import without_computing
from segre.kernel import Verdict, verify
from segre.models.instances import small_instance
from segre.transformer.spec import Transformer
from segre.values import counted


def what_is_proved(bench: Workbench) -> Part:
    """A certificate, made and then checked by the kernel."""
    spec = bench.spec
    known = without_computing(spec)
    if known is None:
        certificate = certificate_of(bench.proof)
    elif known.theorem is not None:
        certificate = certify(spec, method="theorem")
    else:
        assert isinstance(spec, Transformer)
        return _of_small_ones(bench, spec)
    return _of_itself(bench, certificate, verify(certificate, progress=bench.progress))


def _of_itself(bench: Workbench, certificate: dict[str, Any], verdict: Verdict) -> Part:
    _require_valid(bench.spec, verdict)
    claim = certificate["claim"]
    options = bench.options(seed=bench.seed, memory=bench.memory)
    by_theorem = verdict.kind == "theorem"
    checked = "the hypotheses and the count, not the theorem" if by_theorem else "the computation"
    return Part(
        status=_known_by(claim),
        proved_by=verdict.kind if claim["status"] == "proved" else None,
        lead=f"There is a certificate: {claim_in_words(claim, verdict.theorem)}. Independent code, "
        f"which shares no arithmetic with the prover, checked {checked}: it is valid.",
        how=_contents(claim, verdict),
        command=f"segre certify {bench.argument} -o certificate.json{options}"
        " && segre verify certificate.json",
        data={
            "of": "itself",
            "instances": [_instance(bench.spec, claim, verdict)],
            "certificates": [certificate],
        },
    )


def _contents(claim: dict[str, Any], verdict: Verdict) -> str:
    if verdict.kind == "theorem":
        return (
            f"The certificate applies theorem {verdict.theorem}: it lists the hypotheses with "
            "their numbers and the symmetries. The kernel derives all of them again from the "
            "spec. The proof of the theorem itself, in docs/theorems.md, has to be trusted."
        )
    if claim["status"] == "certain":
        return (
            "The certificate names a point and a minor of the Jacobian there. The kernel computes "
            "it again, and the rank at random points that follow from the spec."
        )
    return (
        "The certificate names a point, a minor of the Jacobian at that point, and the "
        "symmetries. The kernel computes all of it again."
    )


def _known_by(claim: dict[str, Any]) -> Status:
    status: Status = "certain" if claim["status"] == "certain" else "proved"
    return status if claim["lower"] == claim["upper"] else "bounded"


def _of_small_ones(bench: Workbench, spec: Transformer) -> Part:
    """The design's small instance with one layer, and with two."""
    first = small_instance(spec)
    instances, certificates, refused = [], [], []
    small_ones = (first,) if first.layers > 1 else (first, replace(first, layers=2))
    for small in small_ones:
        try:
            certificate = certify(small, bench.seed, progress=bench.progress)
        except SegreError as error:
            refused.append(str(error))
            continue
        verdict = verify(certificate, progress=bench.progress)
        _require_valid(small, verdict)
        instances.append(_instance(small, certificate["claim"], verdict))
        certificates.append(certificate)
    if not instances:
        raise UnsupportedError("; ".join(refused))
    met = sum(one["status"] == "proved" for one in instances)
    return Part(
        status="not run",
        lead="There is no certificate of this model: it is too large to compute, and no theorem "
        f"applies. {_meeting(met, instances)}. "
        "Their certificates were checked by code that shares no arithmetic with the prover.",
        how="The small networks keep every design choice, at sizes near the smallest that show all "
        "of them. This does not prove that the same formulas count the large model.",
        command=f"segre certify {instances[0]['spec']} -o certificate.json"
        f"{bench.options(seed=bench.seed)} && segre verify certificate.json",
        data={"of": "small instances", "instances": instances, "certificates": certificates},
        notes=tuple(refused),
    )


def _meeting(met: int, instances: Sized) -> str:
    """How many of the small networks have no symmetry that segre does not know."""
    count = len(instances)
    if met == count:
        which = "A small network" if count == 1 else f"{count} small networks"
        have = "has" if count == 1 else "have"
        return f"{which} of the same design {have} bounds that meet: no symmetry is missing there"
    return f"Bounds meet for {met} of {count} small networks of the same design"


def _instance(spec: Architecture, claim: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    return {
        "spec": str(spec),
        "name": f"{counted(spec.depth, 'layer')}, width {spec.width}",
        **{key: claim[key] for key in ("parameters", "lower", "upper")},
        "status": _known_by(claim),
        "proved_by": verdict.kind if claim["status"] == "proved" else None,
        "valid": verdict.valid,
        "checks": list(verdict.checks),
    }


def _require_valid(spec: Architecture, verdict: Verdict) -> None:
    if not verdict.valid:
        raise AssertionError(
            f"{spec}: the kernel rejects segre's own certificate ({verdict.reason}); "
            "this is a bug in segre, please report it"
        )
