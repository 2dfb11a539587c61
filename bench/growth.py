"""How the cost of `dimension` grows: seconds and memory for softmax stacks of equal widths.

Every measurement is made in a fresh process, so that its peak memory is its own. The peer is
what one would do without exact arithmetic: the singular values of the same network's Jacobian
in float64 (`method="estimate"`), where it takes less than a minute. Both have one BLAS thread
unless told otherwise: threads that wait for each other make times depend on the neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from typing import Any, Literal

import numpy as np

from bench.harness import Report, arguments, blas_threads, measured_apart, peak_memory, timed
from segre import Finding, dimension

HEAD_RANK, TOKENS = 2, 3
PATIENCE = 60  # seconds for the peer
LARGE = 500  # parameters from which the fixed cost of a call matters little
COLUMNS = {
    "layers": ("l", ""),
    "d": ("d", ""),
    "parameters": ("parameters", ""),
    "dimension": ("dimension", ""),
    "status": ("status", ""),
    "seconds": ("segre s", ".4f"),
    "peak": ("segre MiB", ",.0f"),
    "peer_dimension": ("float64 says", ""),
    "peer_seconds": ("float64 s", ".4f"),
    "peer_peak": ("float64 MiB", ",.0f"),
    "ratio": ("float64 / segre s", ".2f"),
}


def measure(spec: str, method: Literal["auto", "estimate"], seed: int) -> dict[str, Any]:
    """One measurement, in this process."""
    dimension("softmax/d=2,2/a=1/t=2", method)  # warm-up
    start = peak_memory()
    found: list[Finding] = []
    seconds: list[float] = []
    while not seconds or (len(seconds) < 5 and sum(seconds) < 1):
        seconds += timed(lambda: found.append(dimension(spec, method, seed)))
    return {
        "parameters": found[0].parameters,
        "dimension": found[0].estimate if method == "estimate" else found[0].value,
        "status": found[0].status,
        "seconds": median(seconds),
        "peak": peak_memory(),
        "start": start,
    }


def compare(layers: int, d: int, seed: int, threads: int) -> dict[str, Any]:
    spec = f"softmax/d={d}/layers={layers}/a={HEAD_RANK}/t={TOKENS}"
    options = ("--seed", seed, "--threads", threads, "--alone", spec)
    own = measured_apart("growth", *options, "auto")
    assert own is not None
    peer = measured_apart("growth", *options, "estimate", timeout=PATIENCE)
    return {
        "layers": layers,
        "d": d,
        **own,
        "peer_dimension": peer and peer["dimension"],
        "peer_seconds": peer and peer["seconds"],
        "peer_peak": peer and peer["peak"],
        "ratio": peer and peer["seconds"] / own["seconds"],
    }


def exponent(rows: Sequence[dict[str, Any]], seconds: str) -> float | None:
    """The slope of log seconds against log parameters, by least squares."""
    known = [(row["parameters"], row[seconds]) for row in rows if row[seconds] is not None]
    if len({parameters for parameters, _ in known}) < 2:
        return None
    x, y = np.log(np.array(known, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads for both (default: 1)")
    parser.add_argument(
        "--alone",
        nargs=2,
        metavar=("SPEC", "METHOD"),
        help="make one measurement and print it as JSON",
    )
    options = parser.parse_args(argv)
    if options.alone:
        spec, method = options.alone
        with blas_threads(options.threads):
            print(json.dumps(measure(spec, method, options.seed)))
        return
    report = Report("growth", options)
    depths, widths = ((1, 2), (3, 4)) if options.quick else ((1, 2, 4, 6), (4, 8, 12, 16, 24, 32))
    rows = [compare(layers, d, options.seed, options.threads) for layers in depths for d in widths]
    report.table(
        f"softmax, a={HEAD_RANK}, t={TOKENS}: d equal widths, l layers; BLAS threads: "
        f"{options.threads}",
        COLUMNS,
        rows,
    )
    start = median(row["start"] for row in rows)
    report.remark("start", start, f"{start:.0f} MiB of memory are Python with segre loaded")
    large = [row for row in rows if row["parameters"] >= LARGE]
    for name, key in (("segre", "seconds"), ("float64", "peer_seconds")):
        slopes = [exponent(rows, key), exponent(large, key)]
        whole, upper = ("-" if slope is None else f"{slope:.2f}" for slope in slopes)
        report.remark(
            f"{name}_exponents",
            slopes,
            f"{name}: seconds grow like parameters^{whole} (from {LARGE} parameters on: ^{upper})",
        )
    report.finish()


if __name__ == "__main__":
    main()
