"""Dimensions and degrees of polynomial networks, beside sympy and Macaulay2.

    python -m bench.polynomial           all of them; sympy needs minutes
    python -m bench.polynomial --quick   the small ones

Dimensions: segre proves both bounds. The peers are given the outputs as nested expressions; they
expand them, differentiate the coefficients symbolically by all weights, and take the rank of the
Jacobian at a random point mod p, which is a lower bound. Degrees: all three compute a Groebner
basis of the same system mod the same prime, the points of the function variety on a random linear
space, and count its standard monomials.

Seconds of CPU time; of Macaulay2 its own clock, without its start. Macaulay2 is left out if there
is no M2 on the path (Debian: apt-get install macaulay2).
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import sympy

from bench.harness import Report, arguments, blas_threads
from segre.fields.prime import Prime
from segre.geometry.dimension import dimension
from segre.network import forward
from segre.polynomial.spec import Polynomial
from segre.variety.chart import Symbols
from segre.variety.counting import slice_equations
from segre.variety.groebner import Limits
from segre.variety.points import solutions

DIMENSIONS = (
    "poly/3-5-2/degree=3",
    "poly/5-7-1/degree=3",
    "poly/4-6-3/degree=3",
    "poly/3-3-3-2/degree=2",
    "cnn/k=4,4,3/degree=2",
)
DEGREES = (
    "cnn/k=2,2/degree=2",
    "cnn/k=3,2/degree=2",
    "cnn/k=3,3/degree=2",
    "cnn/k=4,2/degree=2",
    "cnn/k=2,2,2/degree=2",
    "poly/3-2-1/degree=2",
)
FIELD = Prime()
SECONDS = 600


def main() -> None:
    """Time them."""
    options = arguments(__doc__).parse_args()
    report = Report("polynomial", options)
    blas_threads(1)
    few = 2 if options.quick else None
    columns = {
        "spec": ("network", ""),
        "answer": ("answer", "d"),
        "segre": ("segre, s", ".4f"),
        "sympy": ("sympy, s", ".3f"),
        "ratio": ("ratio", ",.0f"),
        "macaulay2": ("Macaulay2, s", ".3f"),
        "ratio2": ("ratio", ",.1f"),
    }
    if not shutil.which("M2"):
        report.remark("macaulay2", None, "there is no M2 here: Macaulay2 is left out")
    for title, specs, row in (
        ("Dimensions", DIMENSIONS, _dimension),
        ("Degrees", DEGREES, _degree),
    ):
        rows = [_with_ratios(row(text)) for text in specs[:few]]
        report.table(title, columns, rows)
        least = min(one["ratio"] for one in rows)
        report.remark(title, rows, f"{title}: at least {least:,.0f} times as fast as sympy")
    report.finish()


def _with_ratios(row: dict[str, Any]) -> dict[str, Any]:
    other = row["macaulay2"]
    ratio2 = None if other is None else other / row["segre"]
    return {**row, "ratio": row["sympy"] / row["segre"], "ratio2": ratio2}


@dataclass(frozen=True)
class Text:
    """An expression as text, made by the forward map."""

    text: str

    def __add__(self, other: Text) -> Text:
        return Text(f"({self.text}+{other.text})")

    def __mul__(self, other: Text | int) -> Text:
        if isinstance(other, int):
            return Text(f"{self.text}*{other}")
        return Text(f"({self.text})^2" if self == other else f"{self.text}*{other.text}")

    def __rmul__(self, other: int) -> Text:
        return Text(f"{other}*{self.text}")


def _outputs(spec: Polynomial) -> tuple[list[str], list[str], list[str]]:
    """Names of the weights and of the inputs, and the outputs as nested expressions."""
    weights = [f"w{i}" for i in range(spec.parameters)]
    inputs = [f"x{i}" for i in range(spec.width_in)]
    W, X = np.empty(len(weights), dtype=object), np.empty((1, len(inputs), 1), dtype=object)
    W[:] = [Text(name) for name in weights]
    X[0, :, 0] = [Text(name) for name in inputs]
    found = forward(Symbols(), spec, W, X).reshape(-1)
    return weights, inputs, [one.text for one in found]


def _dimension(text: str) -> dict[str, Any]:
    """The dimension by all of them."""
    spec = Polynomial.parse(text)
    found = dimension(text).value
    assert found is not None
    weights, inputs, outputs = _outputs(spec)
    generator = random.Random(0)
    point = [generator.randrange(1, FIELD.p) for _ in weights]
    seconds, rank = _timed(lambda: _sympy_rank(weights, inputs, outputs, point))
    assert rank == found
    program = (
        f"S = ZZ/{FIELD.p}[{','.join(weights)}]; R = S[{','.join(inputs)}]; t = cpuTime();"
        f"F = {{{','.join(outputs)}}};"
        "C = flatten apply(F, f -> flatten entries sub(last coefficients f, S));"
        f"r = rank sub(jacobian matrix{{C}}, matrix{{{{{','.join(map(str, point))}}}}} ** S);"
    )
    return {
        "spec": text,
        "answer": found,
        "segre": min(_timed(lambda: dimension(text))[0] for _ in range(5)),
        "sympy": seconds,
        "macaulay2": _macaulay2(program, "r", found),
    }


def _sympy_rank(weights: list[str], inputs: list[str], outputs: list[str], point: list[int]) -> int:
    W, X = sympy.symbols(weights), sympy.symbols(inputs)
    found = [sympy.Poly(sympy.sympify(one), *X) for one in outputs]
    J = sympy.Matrix([value for one in found for value in one.coeffs()]).jacobian(W)
    value = sympy.lambdify(W, J.tolist(), "math")(*point)
    rows = [[int(entry) % FIELD.p for entry in row] for row in value]
    matrix = sympy.polys.matrices.DomainMatrix.from_list(rows, sympy.GF(FIELD.p))
    return int(matrix.rank())


def _degree(text: str) -> dict[str, Any]:
    """The number of solutions of one system by all of them."""
    spec = Polynomial.parse(text)
    size = dimension(text).value
    assert size is not None
    found, equations = slice_equations(spec, size, FIELD)
    names = [str(one) for one in found.variables]
    polys = [str(one) for one in equations]

    def count() -> int:
        return solutions(equations, range(size), FIELD, Limits(SECONDS, 8 << 30)).count

    own = [_timed(count) for _ in range(5)]
    answer = own[0][1]
    seconds, peer = _timed(lambda: _sympy_count(names, polys))
    assert peer == answer
    program = (
        f"R = ZZ/{FIELD.p}[{','.join(names)}]; I = ideal({','.join(polys)}); t = cpuTime();"
        "r = numgens source basis (R/I);"
    )
    return {
        "spec": text,
        "answer": answer,
        "segre": min(one for one, _ in own),
        "sympy": seconds,
        "macaulay2": _macaulay2(program, "r", answer),
    }


def _sympy_count(names: list[str], polys: list[str]) -> int:
    """The number of standard monomials of sympy's Groebner basis."""
    given = [sympy.sympify(one) for one in polys]
    basis = sympy.groebner(given, *sympy.symbols(names), modulus=FIELD.p, order="grevlex")
    leads = [one.monoms(order="grevlex")[0] for one in basis.polys]
    seen, queue = set(), [(0,) * len(names)]
    while queue:
        exponents = queue.pop()
        divided = any(all(a <= b for a, b in zip(m, exponents, strict=True)) for m in leads)
        if exponents in seen or divided:
            continue
        seen.add(exponents)
        queue += [tuple(e + (i == j) for j, e in enumerate(exponents)) for i in range(len(names))]
    return len(seen)


def _macaulay2(program: str, name: str, wanted: int) -> float | None:
    """Seconds by Macaulay2's clock, after its answer was compared; None without Macaulay2."""
    if not shutil.which("M2"):
        return None
    with TemporaryDirectory() as folder:
        script = Path(folder) / "program.m2"
        script.write_text(f"{program} print({name}, cpuTime() - t);\n")
        done = subprocess.run(
            ["M2", "--script", str(script)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    match = re.search(r"\((\d+), ([-\d.e]+)\)", done.stdout)
    assert match is not None, done.stdout + done.stderr
    assert int(match[1]) == wanted
    return float(match[2])


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    found = action()
    return process_time() - start, found


if __name__ == "__main__":
    main()
