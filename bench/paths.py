"""How the cost of sums over paths grows with layers and heads, against listing the paths.

`path_sums` has the sums of all paths by length, from one pass over the layers. The peer lists all
paths, depth first, so that paths with a common beginning share its products; it is given up beyond
a million paths (`-`). Both are float64 on one BLAS thread, and have to agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from bench.harness import Report, arguments, blas_threads, timed
from segre.collapse.passes import Pass
from segre.collapse.paths import PathSums, path_sums
from segre.collapse.stack import FloatNetwork
from segre.fields.interface import Array

TOKENS, WIDTH, HEAD = 32, 64, 8
MOST_PATHS = 1_000_000
COLUMNS = {
    "layers": ("layers", ""),
    "heads": ("heads", ""),
    "paths": ("paths", ".3g"),
    "seconds": ("segre s", ".5f"),
    "peer_seconds": ("listing s", ".5f"),
    "ratio": ("listing / segre s", ",.1f"),
    "difference": ("largest difference", ".0e"),
    "error": ("error of the total", ".0e"),
}


def listed(done: Pass) -> Array:
    """Sums of all paths by length, one path after the other; common beginnings once."""
    sums = np.zeros((len(done.layers) + 1, *done.X.shape))

    def walk(number: int, length: int, tokens: Array) -> None:
        if number == len(done.layers):
            sums[length] += tokens
            return
        layer = done.layers[number]
        walk(number + 1, length, tokens)
        for P, W_V, W_O in zip(layer.P, layer.W_V, layer.W_O, strict=True):
            walk(number + 1, length + 1, P @ (tokens @ W_V) @ W_O)

    walk(0, 0, done.X)
    return sums


def compare(layers: int, heads: int, seed: int, most: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    stack = FloatNetwork.random(
        layers, heads, WIDTH, k=HEAD, v=HEAD, init=0.1, bias=0.1, skip=True, seed=seed
    )
    done = stack.forward(rng.standard_normal((TOKENS, WIDTH)))
    found: list[PathSums] = [path_sums(done)]  # warm-up
    seconds: list[float] = []
    while len(seconds) < 3 or (len(seconds) < 20 and sum(seconds) < 0.5):
        seconds += timed(lambda: found.append(path_sums(done)))
    paths = sum(found[-1].counts)
    peer: list[Array] = []
    spent = median(timed(lambda: peer.append(listed(done)))) if paths <= most else None
    size = np.abs(done.output).max()
    return {
        "layers": layers,
        "heads": heads,
        "paths": paths,
        "seconds": median(seconds),
        "peer_seconds": spent,
        "ratio": spent and spent / median(seconds),
        "difference": float(np.abs(peer[0] - found[-1].by_length).max() / size) if peer else None,
        "error": float(np.abs(found[-1].total - done.output).max() / size),
    }


def slope(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    """The exponent of seconds against layers or heads, from the larger half of the rows."""
    known = sorted((row[key], row["seconds"]) for row in rows)
    known = known[len(known) // 2 :]
    if len({size for size, _ in known}) < 2:
        return None
    x, y = np.log(np.array(known)).T
    return float(np.polyfit(x, y, 1)[0])


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    report = Report("paths", options)
    depths = [2, 4] if options.quick else [2, 4, 6, 8, 12, 24, 48, 96]
    widths = [1, 3] if options.quick else [1, 2, 4, 12, 24]
    most = 1000 if options.quick else MOST_PATHS
    with blas_threads(1):
        deeper = [compare(layers, widths[1], options.seed, most) for layers in depths]
        wider = [compare(depths[1], heads, options.seed, most) for heads in widths]
        model = [] if options.quick else [compare(12, 12, options.seed, most)]  # BERT, GPT-2
    report.table(
        f"{TOKENS} tokens of width {WIDTH}, heads of {HEAD}, with skips and biases",
        COLUMNS,
        [*deeper, *wider, *model],
    )
    for key, rows in (("layers", deeper), ("heads", wider)):
        found = slope(rows, key)
        shown = "-" if found is None else f"{found:.2f}"
        words = f"segre: seconds grow like {key}^{shown}; listing like paths, (heads + 1)^layers"
        report.remark(f"{key}_exponent", found, words)
    report.finish()


if __name__ == "__main__":
    main()
