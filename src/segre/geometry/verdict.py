"""Are two small networks the same function? The verdict, and inputs that tell polynomials apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from segre.fields.draw import Stream
from segre.fields.interface import Array
from segre.fields.prime import PRIMES, Prime
from segre.finding import Status, Unbounded
from segre.geometry.normal_form import Difference
from segre.network import forward
from segre.weights import PolynomialWeights, Weights

Verdict = Literal["same", "different", "undecided"]
INPUTS = 8  # at which outputs are compared


@dataclass(frozen=True)
class Comparison(Unbounded):
    """The verdict on two networks, and its evidence."""

    verdict: Verdict
    proved: bool
    reason: str
    normal_form_residual: float | None = None
    output_residual: float | None = None
    condition: float | None = None
    first_difference: Difference | None = None

    @property
    def value(self) -> Verdict:
        """The verdict."""
        return self.verdict

    @property
    def same(self) -> bool:
        """Whether the two are the same function."""
        return self.verdict == "same"

    @property
    def status(self) -> Status:
        """Proved for fractions; floats are measured."""
        return "proved" if self.proved else "measured"

    @property
    def how(self) -> str:
        """The evidence for the verdict."""
        return self.reason

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        first = self.first_difference
        return {
            "verdict": self.verdict,
            "proved": self.proved,
            "reason": self.reason,
            "normal_form_residual": self.normal_form_residual,
            "output_residual": self.output_residual,
            "condition": self.condition,
            "first_difference": None if first is None else first.invariant,
        }


def differ_mod_p(
    one: Weights | PolynomialWeights, two: Weights | PolynomialWeights, seed: int
) -> str | None:
    """An output that differs mod p, in words, for networks that compute polynomials."""
    for p in PRIMES:
        field = Prime(p, seed)
        try:
            vectors = [_reduced(w.vector, field) for w in (one, two)]
        except ZeroDivisionError:  # p divides a denominator
            continue
        X = field.draw(Stream.INPUTS, 0, (INPUTS, one.spec.widths[0], one.spec.t))
        outputs = [
            field.residues(forward(field, w.spec, v, X))
            for w, v in zip((one, two), vectors, strict=True)
        ]
        unequal = np.argwhere(outputs[0] != outputs[1])
        if len(unequal):
            n, row, column = unequal[0].tolist()
            return (
                f"output ({row}, {column}) differs mod {p} at input {n} of seed {seed}, so the "
                "polynomials differ"
            )
    return None


def _reduced(vector: Array, field: Prime) -> Array:
    p = field.p
    residues = [int(x.p) % p * pow(int(x.q), -1, p) % p if int(x.q) % p else _bad() for x in vector]
    return field.constant(np.array(residues))


def _bad() -> int:
    raise ZeroDivisionError
