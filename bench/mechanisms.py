"""Does a mechanism make the dimension dearer? Each against softmax of the same sizes.

`segre dim` of one-head stacks with every mechanism, as process times of one thread, in turns with
plain softmax, which is computed in the same way (`--method exact`). Medians; ratios are to softmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import process_time

from bench.harness import Report, arguments, blas_threads
from segre import dimension

MECHANISMS = (
    *("double", "gapless", "fast", "fast:unit=none", "lightning:decay=0.9", "lightning:causal"),
    *("lightning:decay=learned", "lightning:decay=slopes", "lightning:normalise=keys"),
    *("lightning:feature=square", "linear:feature=exp", "linear:feature=silu", "softmax:window=1"),
    *(
        "softmax:gate=head",
        "softmax:gate=element",
        "softmax:conv=full:kernel=2",
        "softmax:bias=both",
    ),
)
SIZES = ("d=12,12/a=4", "d=16,16/a=8", "d=8,8,8/a=4")
TARGET = 2.0  # of the time of softmax
COLUMNS = {
    "size": ("size", ""),
    "mechanism": ("mechanism", ""),
    "parameters": ("parameters", ",d"),
    "dimension": ("dimension", ",d"),
    "seconds": ("CPU seconds", ".3f"),
    "ratio": ("of softmax", ".2f"),
}


def seconds(spec: str) -> tuple[float, int, int]:
    start = process_time()
    found = dimension(spec, "exact")
    assert found.value is not None, spec
    return process_time() - start, found.value, found.parameters


def compare(size: str, mechanism: str, repeats: int) -> dict[str, object]:
    """One mechanism and softmax, in turns."""
    spec, plain = f"mix/{size}/heads={mechanism}/t=3", f"softmax/{size}/t=3"
    pairs = [(seconds(spec), seconds(plain)) for _ in range(repeats)]
    own, base = (median(pair[k][0] for pair in pairs) for k in (0, 1))
    (_, value, parameters), _ = pairs[0]
    return {
        "size": size,
        "mechanism": mechanism,
        "parameters": parameters,
        "dimension": value,
        "seconds": own,
        "ratio": own / base,
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(__doc__).parse_args(argv)
    report = Report("mechanisms", options)
    sizes, repeats = (["d=6,6/a=3"], 1) if options.quick else (SIZES, 5)
    with blas_threads(1):
        seconds("softmax/d=2,2/a=1/t=2")
        rows = [compare(size, one, repeats) for size in sizes for one in MECHANISMS]
    report.table("dimension, computed, of stacks on 3 tokens", COLUMNS, rows)
    ratios = [float(str(row["ratio"])) for row in rows]
    slow = sum(ratio > TARGET for ratio in ratios)
    report.remark(
        "ratios",
        ratios,
        f"{median(ratios):.2f} times softmax in the median, {max(ratios):.2f} at most; above "
        f"{TARGET:g}: {slow} of {len(ratios)}",
    )
    report.finish()


if __name__ == "__main__":
    main()
