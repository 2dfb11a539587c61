"""Number systems with one interface: residues mod p, float64, certified balls, duals of each."""

from segre.fields.ball import Ball
from segre.fields.dual import Dual, DualArray
from segre.fields.interface import Array, Field
from segre.fields.prime import PRIMES, Prime
from segre.fields.rank import Echelon, rank
from segre.fields.real import Real

__all__ = [
    "PRIMES",
    "Array",
    "Ball",
    "Dual",
    "DualArray",
    "Echelon",
    "Field",
    "Prime",
    "Real",
    "rank",
]
