"""In what share of small random designs do the bounds of the dimension meet, and where do they not?

    python -m bench.gaps               300 transformers and 100 stacks, by design feature
    python -m bench.gaps --quick       a few of them
    python -m bench.gaps --count 1000  more of them
    python -m bench.gaps --list        also those whose bounds do not meet

A transformer is drawn by `bench.random_specs.random_core`, some of them degenerate: one token, few
words, width 2, heads wider than the stream. A stack is drawn by `random_stack`. Nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.harness import Report, arguments, blas_threads
from bench.random_specs import random_core, random_stack
from segre.architectures import Architecture
from segre.errors import SegreError
from segre.geometry.dimension import prove
from segre.transformer.spec import Transformer

FEATURES: dict[str, Callable[[Transformer], bool]] = {
    "all transformers": lambda s: s.d > 0,
    "t > 1 and d > 2": lambda s: s.t > 1 and s.d > 2,
    "t = 1": lambda s: s.t == 1,
    "d = 2": lambda s: s.d == 2,
    "matrices as inputs": lambda s: not s.discrete,
    "tokens as inputs": lambda s: s.discrete,
    "tied": lambda s: s.tied,
    "outbias": lambda s: s.outbias,
    "embnorm": lambda s: s.embnorm,
    "lightning": lambda s: not s.mechanism.exponentials,
    "lightning, groups": lambda s: not s.mechanism.exponentials and s.group > 1,
    "latent": lambda s: s.latent,
    "latent, qrank": lambda s: s.qrank > 0,
    "qknorm": lambda s: bool(s.qknorm),
    "experts": lambda s: s.experts > 0,
    "experts, one active": lambda s: s.experts > 0 and s.active == 1,
    "relu": lambda s: s.mlp in ("relu", "reglu"),
    "bilinear": lambda s: s.mlp == "bilinear",
    "LayerNorm": lambda s: s.norm == "layer",
    "post-norm": lambda s: s.place == "post",
    "no residual": lambda s: not s.residual,
    "shared layers": lambda s: s.share and s.layers > 1,
    "biases of q, k, v only": lambda s: s.bias == "qkv",
}


def main() -> None:
    """Draw, prove, and count by feature."""
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--count",
        type=int,
        default=300,
        help="number of transformers, and three times the number of stacks",
    )
    parser.add_argument("--list", action="store_true", help="print the designs that are not proved")
    options = parser.parse_args()
    count = 12 if options.quick else options.count
    report = Report("gaps", options)
    blas_threads(1)
    seeds = range(options.seed, options.seed + count)
    transformers = [_proved(random_core(seed)) for seed in seeds]
    stacks = [_proved(random_stack(seed)) for seed in seeds[: max(4, count // 3)]]
    rows = list(_shares(transformers, stacks))
    columns = {
        "feature": ("designs", ""),
        "designs": ("drawn", "d"),
        "proved": ("proved", "d"),
        "share": ("share", ".0%"),
        "gap": ("mean gap of the rest", ".1f"),
    }
    report.table("Bounds that meet", columns, rows)
    missing = [row for row in (*transformers, *stacks) if row["lower"] != row["upper"]]
    for row in missing if options.list else []:
        print(f"{row['lower']} to {row['upper']} of {row['parameters']}: {row['spec']}")
    report.remark("unproved", missing, f"{len(missing)} designs are not proved.")
    report.finish()


def _proved(spec: Architecture) -> dict[str, Any]:
    row: dict[str, Any] = {"spec": str(spec), "parameters": spec.parameters}
    try:
        proof = prove(spec)
        return row | {"lower": proof.lower.value, "upper": proof.upper.value}
    except SegreError as error:  # no usable point
        return row | {"lower": 0, "upper": spec.parameters, "error": str(error)}


def _shares(
    transformers: list[dict[str, Any]], stacks: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    specs = [Transformer.parse(row["spec"]) for row in transformers]
    for name, has in FEATURES.items():
        yield _share(name, [row for row, s in zip(transformers, specs, strict=True) if has(s)])
    for kind in ("lightning", "softmax"):
        yield _share(f"{kind} stacks", [row for row in stacks if row["spec"].startswith(kind)])


def _share(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    gaps = [row["upper"] - row["lower"] for row in rows]
    met, open_gaps = gaps.count(0), [gap for gap in gaps if gap]
    return {
        "feature": name,
        "designs": len(rows),
        "proved": met,
        "share": met / len(rows) if rows else None,
        "gap": sum(open_gaps) / len(open_gaps) if open_gaps else None,
    }


if __name__ == "__main__":
    main()
