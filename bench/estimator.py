"""The dimension of two-layer softmax attention: segre against the straightforward estimator.

The estimator is what one would write first, and what published experiments do: draw weights
and 250 inputs with torch.randn, take one backward pass per scalar output, stack the gradients
into a float32 Jacobian, and ask torch.linalg.matrix_rank. segre proves its answer with an
exact rank mod p, without using the closed form it is compared with.

Network: two layers X -> V X softmax(X^T K^T Q X) on 3 tokens, head rank 2, widths d = 3..10.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

from bench.harness import Report, arguments, timed
from segre import Network, closed_form, dimension

LAYERS, HEAD_RANK, TOKENS = 2, 2, 3
REPEATS = 3
COLUMNS = {
    "d": ("d", ""),
    "parameters": ("parameters", ""),
    "right": ("right answer", ""),
    "torch": ("torch", ""),
    "torch_seconds": ("torch s", ".2f"),
    "segre": ("segre", ""),
    "status": ("status", ""),
    "segre_seconds": ("segre s", ".4f"),
    "ratio": ("torch / segre", ",.0f"),
}


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise SystemExit(
            "this benchmark compares with PyTorch, which is not installed; install it with\n"
            "  pip install -c constraints.txt 'segre[bench]'"
        ) from None
    return torch


def forward(torch: Any, weights: Sequence[Any], X: Any) -> Any:
    """Weights are K, Q, V of the first layer, then of the next; tokens are columns of X."""
    for K, Q, V in zip(weights[::3], weights[1::3], weights[2::3], strict=True):
        X = V @ X @ torch.softmax(X.T @ K.T @ Q @ X, dim=0)
    return X


def estimate(torch: Any, d: int, inputs: int, seed: int) -> tuple[int, float, float]:
    """The rank found, and the seconds for the Jacobian and for its rank."""
    start = perf_counter()
    torch.manual_seed(seed)
    shapes = [(HEAD_RANK, d), (HEAD_RANK, d), (d, d)] * LAYERS
    weights = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    rows = []
    for _ in range(inputs):
        output = forward(torch, weights, torch.randn(d, TOKENS))
        for i in range(d):
            for j in range(TOKENS):
                gradients = torch.autograd.grad(output[i, j], weights, retain_graph=True)
                rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    jacobian = torch.stack(rows)
    built = perf_counter()
    rank = int(torch.linalg.matrix_rank(jacobian))
    return rank, built - start, perf_counter() - built


def compare(torch: Any, d: int, inputs: int, repeats: int, seed: int) -> dict[str, Any]:
    spec = Network.parse(f"softmax/d={d}/layers={LAYERS}/a={HEAD_RANK}/t={TOKENS}")

    def run() -> None:
        dimension(spec, "exact", seed)

    found = dimension(spec, "exact", seed)  # also the warm-up
    estimates, seconds = [], []
    for _ in range(repeats):  # in turns, so that both see the same clock and neighbours
        estimates.append(estimate(torch, d, inputs, seed))
        seconds += timed(run, 3)
    jacobian_seconds = median(each[1] for each in estimates)
    torch_seconds = median(each[1] + each[2] for each in estimates)
    return {
        "d": d,
        "parameters": spec.parameters,
        "right": closed_form(spec).value,
        "torch": estimates[0][0],
        "torch_seconds": torch_seconds,
        "torch_jacobian_seconds": jacobian_seconds,
        "segre": found.value,
        "status": found.status,
        "segre_seconds": median(seconds),
        "ratio": torch_seconds / median(seconds),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--inputs", type=int, help="inputs of the estimator (250; quick: 25)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    inputs = options.inputs or (25 if options.quick else 250)
    torch = import_torch()
    report = Report("estimator", options)
    report.remark(
        "torch",
        {"version": torch.__version__, "threads": torch.get_num_threads()},
        f"torch: {torch.__version__}, {torch.get_num_threads()} threads",
    )
    estimate(torch, 2, 5, options.seed)  # warm-up
    rows = [
        compare(torch, d, inputs, REPEATS, options.seed)
        for d in (range(3, 5) if options.quick else range(3, 11))
    ]
    report.table(
        f"softmax, {LAYERS} layers, a={HEAD_RANK}, t={TOKENS}: {inputs} inputs in torch "
        f"(median of {REPEATS}), segre exact (median of {3 * REPEATS})",
        COLUMNS,
        rows,
    )
    for name in ("torch", "segre"):
        right = sum(row[name] == row["right"] for row in rows)
        report.remark(f"{name}_right", right, f"{name}: {right} of {len(rows)} right")
    share = sum(row["torch_jacobian_seconds"] for row in rows) / sum(
        row["torch_seconds"] for row in rows
    )
    report.remark(
        "torch_jacobian_share",
        share,
        f"backward passes are {share:.0%} of the torch seconds, the rank is the rest",
    )
    report.finish()


if __name__ == "__main__":
    main()
