"""Rank over F_p of random n x n matrices: segre against FLINT, and against a float64 dgemm.

All on one thread and with the same prime. FLINT (python-flint's nmod_mat.rank) is timed with
the conversion from the NumPy array, which a user of NumPy has to pay, and without. The dgemm
is a plain float64 product of the same size, the speed limit of an exact rank made of float64
products: the rates compared are 2/3 n^3 over the seconds of the rank and 2 n^3 over those of
the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from flint import nmod_mat

from bench.harness import Report, arguments, blas_threads, timed
from segre.fields import Prime, rank
from segre.fields.interface import Array

FLINT_TARGET = (2000, 8.0)  # times as fast as FLINT with its conversion, at this n
DGEMM_TARGET = (4000, 0.60)  # of the dgemm rate, at this n
COLUMNS = {
    "n": ("n", ""),
    "rank": ("rank", ""),
    "segre_seconds": ("segre s", ".4f"),
    "convert_seconds": ("FLINT convert s", ".3f"),
    "flint_seconds": ("FLINT rank s", ".3f"),
    "over_flint": ("FLINT / segre", ".1f"),
    "over_flint_alone": ("without convert", ".1f"),
    "segre_rate": ("segre GF/s", ".1f"),
    "dgemm_rate": ("dgemm GF/s", ".1f"),
    "of_dgemm": ("segre / dgemm", ".0%"),
    "target": ("target", ""),
}


def random_matrix(n: int, r: int, field: Prime, seed: int) -> Array:
    """A random matrix of residues 0..p-1: of rank r < n a product, of rank n without structure."""
    rng = np.random.default_rng(seed)
    if r == n:
        return rng.integers(0, field.p, (n, n))
    left, right = rng.integers(0, field.p, (n, r)), rng.integers(0, field.p, (r, n))
    return field.residues(field.matmul(field.constant(left), field.constant(right)))


def compare(n: int, r: int, repeats: int, seed: int) -> dict[str, Any]:
    field = Prime()
    matrix = random_matrix(n, r, field, seed)
    converted = nmod_mat(matrix.tolist(), field.p)
    if not rank(matrix, field) == converted.rank() == r:
        raise SystemExit(f"n = {n}: the ranks do not agree with each other and with {r}")
    left, right = np.random.default_rng(seed).standard_normal((2, n, n))
    product = np.empty((n, n))

    def dgemm() -> float:
        return min(timed(lambda: np.matmul(left, right, out=product), 2))

    segre_seconds, convert_seconds, flint_seconds = [], [], []
    dgemm_seconds = [dgemm()]
    for _ in range(repeats):  # in turns, so that all see the same clock and neighbours
        segre_seconds += timed(lambda: rank(matrix, field))
        dgemm_seconds.append(dgemm())
        convert_seconds += timed(lambda: nmod_mat(matrix.tolist(), field.p))
        flint_seconds += timed(converted.rank)
    seconds, convert, flint = map(min, (segre_seconds, convert_seconds, flint_seconds))
    segre_rate = 2 / 3 * n**3 / seconds / 1e9
    dgemm_rate = 2 * n**3 / median(dgemm_seconds) / 1e9
    over_flint, of_dgemm = (convert + flint) / seconds, segre_rate / dgemm_rate
    return {
        "n": n,
        "rank": r,
        "segre_seconds": seconds,
        "convert_seconds": convert,
        "flint_seconds": flint,
        "over_flint": over_flint,
        "over_flint_alone": flint / seconds,
        "segre_rate": segre_rate,
        "dgemm_rate": dgemm_rate,
        "of_dgemm": of_dgemm,
        "target": _target(n, over_flint, of_dgemm),
    }


def _target(n: int, over_flint: float, of_dgemm: float) -> str | None:
    if n == FLINT_TARGET[0]:
        return f"FLINT x {FLINT_TARGET[1]:.0f}: {_verdict(over_flint >= FLINT_TARGET[1])}"
    if n == DGEMM_TARGET[0]:
        return f"dgemm {DGEMM_TARGET[1]:.0%}: {_verdict(of_dgemm >= DGEMM_TARGET[1])}"
    return None


def _verdict(met: bool) -> str:
    return "met" if met else "missed"


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    with blas_threads(1):
        report = Report("rank", options)
        rows = [
            compare(n, r, 3, options.seed)
            for n in ([100, 200] if options.quick else [500, 1000, 2000, 4000])
            for r in (n, 4 * n // 5)
        ]
    report.table(
        f"rank mod {Prime().p}, one thread (segre and FLINT best of 3, dgemm median of 4 pairs)",
        COLUMNS,
        rows,
    )
    report.finish()


if __name__ == "__main__":
    main()
