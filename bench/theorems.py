"""What does a dimension by theorem cost, beside the exact rank of the same architecture?

    python -m bench.theorems           every preset that a theorem covers, and growing stacks
    python -m bench.theorems --quick   a few of them

Milliseconds of CPU time, the least of several calls: to find the dimension, to make the
certificate, and to check it. Stacks are computed exactly, too, as far as that takes seconds; the
ratio is the cost of not knowing the theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

from bench.harness import Report, arguments, blas_threads
from segre.architectures import Architecture
from segre.certificate import certify
from segre.discovery import catalog
from segre.geometry.dimension import dimension
from segre.kernel import verify
from segre.models import architecture
from segre.theorems import apply

_WIDTHS = (10, 20, 40)
_LONG = ("softmax/d=100,100/a=2/t=3", "softmax/d=" + ",".join(["4096"] * 33) + "/a=128/t=2048")


def main() -> None:
    """Time them."""
    options = arguments(__doc__).parse_args()
    report = Report("theorems", options)
    blas_threads(1)
    presets = [entry.name for entry in catalog().presets if _covered(entry.spec)]
    rows = [_row(name) for name in (presets[:3] if options.quick else presets)]
    rows += [_row(text) for text in _LONG]
    columns = {
        "name": ("model", ""),
        "theorem": ("theorem", ""),
        "parameters": ("parameters", ",d"),
        "dimension": ("dimension", ",d"),
        "find": ("find, ms", ".2f"),
        "certify": ("certify, ms", ".2f"),
        "verify": ("verify, ms", ".2f"),
    }
    report.table("Dimensions by theorem", columns, rows)
    slowest = max(row["find"] for row in rows)
    report.remark("slowest", slowest, f"slowest: {slowest:.1f} ms")
    for width in _WIDTHS[: 1 if options.quick else None]:
        text = f"softmax/d={width},{width},{width}/a=2/t=3"
        theorem, exact = (_least(text, method) for method in ("theorem", "exact"))
        ratio = exact / theorem
        report.remark(text, ratio, f"{text}: the exact rank takes {ratio:,.0f} times as long")
    report.finish()


def _covered(spec: Architecture) -> bool:
    applied = apply(spec)
    return applied is not None and applied.holds


def _row(name: str) -> dict[str, Any]:
    found = dimension(name, "theorem")
    assert found.theorem is not None
    document = certify(name, method="theorem")
    assert verify(document).valid
    return {
        "name": name if len(name) < 40 else f"{name[:37]}...",
        "theorem": found.theorem["name"],
        "parameters": found.parameters,
        "dimension": found.value,
        "find": _least(name, "theorem"),
        "certify": _fastest(lambda: certify(name, method="theorem")),
        "verify": _fastest(lambda: verify(document)),
    }


def _least(text: str, method: Any) -> float:
    spec = architecture(text)
    return _fastest(lambda: dimension(spec, method), 3 if method == "exact" else 5)


def _fastest(action: Callable[[], Any], calls: int = 5) -> float:
    times = []
    for _ in range(calls):
        began = process_time()
        action()
        times.append(1000 * (process_time() - began))
    return min(times)


if __name__ == "__main__":
    main()
