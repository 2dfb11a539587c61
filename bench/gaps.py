"""How surely is the dimension of small random designs known, and where is it not?

    python -m bench.gaps                300 transformers, by design feature
    python -m bench.gaps --quick        a few of them
    python -m bench.gaps --count 1000   more of them
    python -m bench.gaps --seconds 600  as many of them as fit into the time
    python -m bench.gaps --list         also those that are not proved

A design may have any key of specs, and most are far from any model (`bench.random_specs`,
`random_design`): one token, few words, width 2, heads wider than the stream. Its bounds are
computed; if they do not meet, so is the rank at random points. The label of each is that of
`segre dim --method random`. A design is open if its bounds do not meet and random points do not
agree with the lower one. Designs without a usable point count as open too. Left out are designs of
more tokens than `segre dim` computes by itself, and such as divide 0 by 0 at all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from bench.harness import Report, arguments, blas_threads
from bench.random_specs import random_design
from segre.errors import SegreError, UnsupportedError
from segre.geometry.dimension import prove, settled, too_large
from segre.transformer.spec import Transformer

LABELS = ("proved", "certain", "likely", "open")
FEATURES: dict[str, Callable[[Transformer], bool]] = {
    "all": lambda s: s.d > 0,
    "t > 1 and d > 2": lambda s: s.t > 1 and s.d > 2,
    "t = 1": lambda s: s.t == 1,
    "d = 2": lambda s: s.d == 2,
    "matrices as inputs": lambda s: not s.discrete,
    "tokens as inputs": lambda s: s.discrete,
    "relu, clamps or experts": lambda s: s.piecewise,
    "neither": lambda s: not s.piecewise,
    "no norms": lambda s: s.norm == "none",
    "LayerNorm": lambda s: s.norm == "layer",
    "post-norm": lambda s: s.place == "post",
    "no residual": lambda s: not s.residual,
    "lightning": lambda s: not s.mechanism.exponentials,
    "latent": lambda s: s.latent,
    "qknorm": lambda s: bool(s.qknorm),
    "experts": lambda s: s.experts > 0,
    "reglu": lambda s: s.mlp == "reglu",
    "bilinear": lambda s: s.mlp == "bilinear",
    "gates": lambda s: s.gate != "none",
    "patches": lambda s: s.patch > 0,
    "embed": lambda s: s.embed > 0,
    "pooler": lambda s: s.pooler,
    "labels": lambda s: s.labels > 0,
    "tied": lambda s: s.tied,
    "shared layers": lambda s: s.share and s.layers > 1,
}


def main() -> None:
    """Draw, prove, look at random points, and count by feature."""
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300, help="number of designs")
    parser.add_argument("--seconds", type=float, help="draw no more after this time")
    parser.add_argument("--list", action="store_true", help="print the designs that are not proved")
    options = parser.parse_args()
    count = 6 if options.quick else options.count
    report = Report("gaps", options)
    blas_threads(1)
    rows: list[dict[str, Any]] = []
    began = perf_counter()
    for seed in range(options.seed, options.seed + count):
        if options.seconds is not None and perf_counter() - began > options.seconds:
            break
        row = _known(random_design(seed))
        rows += [] if row is None else [row]
        if options.list and row is not None and row["label"] != "proved":
            print(f"{row['label']}, {row['lower']} to {row['upper']}: {row['spec']}", flush=True)
    columns = {
        "feature": ("designs", ""),
        "designs": ("drawn", "d"),
        **{label: (label, ".1%") for label in LABELS},
        "seconds": ("seconds each", ".2f"),
        "points": ("of them, random points", ".2f"),
    }
    report.table("How surely dimensions are known", columns, list(_shares(rows)))
    missing = [row for row in rows if row["label"] == "open"]
    report.remark("open", missing, f"{len(missing)} of {len(rows)} designs are open.")
    report.finish()


def _known(spec: Transformer) -> dict[str, Any] | None:
    """What is found of a design; None if it is left out."""
    if too_large(spec):
        return None
    row: dict[str, Any] = {"spec": str(spec), "parameters": spec.parameters}
    began = perf_counter()
    try:
        proof = prove(spec)
        proved = perf_counter()
        found = settled(proof, always=True)
    except UnsupportedError:
        return None
    except SegreError as error:  # no usable point
        took = {"seconds": perf_counter() - began, "points": 0.0}
        return (
            row
            | {"lower": 0, "upper": spec.parameters, "label": "open"}
            | took
            | {"error": str(error)}
        )
    label = found.status if found.number is not None else "open"
    ended = perf_counter()
    took = {"seconds": ended - began, "points": ended - proved}
    return row | {"lower": found.lower, "upper": found.upper, "label": label} | took


def _shares(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    specs = [Transformer.parse(row["spec"]) for row in rows]
    for name, has in FEATURES.items():
        own = [row for row, spec in zip(rows, specs, strict=True) if has(spec)]
        labels = [row["label"] for row in own]
        every = max(1, len(own))
        yield {
            "feature": name,
            "designs": len(own),
            **{label: labels.count(label) / every if own else None for label in LABELS},
            "seconds": sum(row["seconds"] for row in own) / every,
            "points": sum(row["points"] for row in own) / every,
        }


if __name__ == "__main__":
    main()
