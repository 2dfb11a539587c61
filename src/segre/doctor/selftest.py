"""Does the arithmetic work here? A proof and a rank, each checked by independent code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from segre.doctor.packages import State

SAMPLE = "softmax/d=3,3,3/a=2/t=2"


@dataclass(frozen=True)
class Check:
    """One check, and its outcome."""

    words: str
    state: State


def self_test() -> Iterator[Check]:
    """Run all checks; a failure is reported, not raised."""
    for name, test in (("proof", _prove_and_verify), ("rank mod p", _compare_ranks)):
        try:
            yield Check(test(), "ok")
        except Exception as error:  # whatever it is, it is the answer
            message = " ".join(str(error).split())
            yield Check(f"{name}: {type(error).__name__}: {message}", "broken")


def _prove_and_verify() -> str:
    from segre.certificate import certify
    from segre.kernel import verify

    verdict = verify(certify(SAMPLE))
    if not verdict.valid:
        raise ArithmeticError(f"the referee rejects the proof for {SAMPLE}: {verdict.reason}")
    number = verdict.claim["upper"]
    return f"proved that {SAMPLE} has dimension {number}, and the referee accepts the proof"


def _compare_ranks() -> str:
    import numpy as np
    from flint import nmod_mat

    from segre.fields import Prime, rank

    field, size, true = Prime(), 60, 40
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, field.p, (size, true)), rng.integers(0, field.p, (true, size))
    matrix = field.residues(field.matmul(field.constant(left), field.constant(right)))
    ours, theirs = rank(matrix, field), nmod_mat(matrix.tolist(), field.p).rank()
    if not ours == theirs == true:
        raise ArithmeticError(
            f"segre finds {ours}, FLINT finds {theirs}, the correct rank is {true}"
        )
    return f"rank mod {field.p} of a {size} x {size} matrix is {true}, and FLINT agrees"
