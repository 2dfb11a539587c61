"""The dimension of two-layer softmax attention: segre against the straightforward estimator.

The estimator is what the paper's public script does: draw weights and 250 inputs with
torch.randn, evaluate all inputs as one batch, take one backward pass per scalar output (each
goes through the whole batch), stack the gradients into a float32 Jacobian, and ask
torch.linalg.matrix_rank. Beside it stands the same estimator improved in the obvious way, one
graph per input ("by input"). segre proves its answer with an exact rank mod p, without using
the closed form it is compared with.

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
REPEATS = 1
COLUMNS = {
    "d": ("d", ""),
    "parameters": ("parameters", ""),
    "right": ("right answer", ""),
    "torch": ("torch", ""),
    "torch_seconds": ("torch s", ".2f"),
    "by_input_seconds": ("by input s", ".2f"),
    "segre": ("segre", ""),
    "status": ("status", ""),
    "segre_seconds": ("segre s", ".4f"),
    "ratio": ("torch / segre", ",.0f"),
    "by_input_ratio": ("by input / segre", ",.0f"),
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
        X = V @ X @ torch.softmax(X.mT @ K.T @ Q @ X, dim=-2)
    return X


def estimate(torch: Any, d: int, inputs: int, seed: int, at_once: int) -> tuple[int, float]:
    """The rank found and the seconds taken, with `at_once` inputs in a graph."""
    start = perf_counter()
    torch.manual_seed(seed)
    shapes = [(HEAD_RANK, d), (HEAD_RANK, d), (d, d)] * LAYERS
    weights = [torch.randn(*shape, requires_grad=True) for shape in shapes]
    X = torch.randn(inputs, d, TOKENS)
    rows = []
    for batch in X.split(at_once):
        outputs = forward(torch, weights, batch).flatten()
        for j in range(len(outputs)):
            gradients = torch.autograd.grad(outputs[j], weights, retain_graph=True)
            rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    rank = int(torch.linalg.matrix_rank(torch.stack(rows)))
    return rank, perf_counter() - start


def compare(torch: Any, d: int, inputs: int, repeats: int, seed: int) -> dict[str, Any]:
    spec = Network.parse(f"softmax/d={d}/layers={LAYERS}/a={HEAD_RANK}/t={TOKENS}")

    def run() -> None:
        dimension(spec, "exact", seed)

    found = dimension(spec, "exact", seed)  # also the warm-up
    batched, by_input, seconds = [], [], []
    for _ in range(repeats):  # in turns, so that all see the same clock and neighbours
        batched.append(estimate(torch, d, inputs, seed, at_once=inputs))
        seconds += timed(run, 5)
        by_input.append(estimate(torch, d, inputs, seed, at_once=1))
        seconds += timed(run, 5)
    torch_seconds = median(each[1] for each in batched)
    by_input_seconds = median(each[1] for each in by_input)
    return {
        "d": d,
        "parameters": spec.parameters,
        "right": closed_form(spec).value,
        "torch": batched[0][0],
        "torch_seconds": torch_seconds,
        "by_input_seconds": by_input_seconds,
        "segre": found.value,
        "status": found.status,
        "segre_seconds": median(seconds),
        "ratio": torch_seconds / median(seconds),
        "by_input_ratio": by_input_seconds / median(seconds),
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
    estimate(torch, 2, 5, options.seed, at_once=5)  # warm-up
    rows = [
        compare(torch, d, inputs, REPEATS, options.seed)
        for d in (range(3, 5) if options.quick else range(3, 11))
    ]
    report.table(
        f"softmax, {LAYERS} layers, a={HEAD_RANK}, t={TOKENS}: {inputs} inputs in torch "
        f"(run {REPEATS} time), segre exact (median of {10 * REPEATS})",
        COLUMNS,
        rows,
    )
    for name in ("torch", "segre"):
        right = sum(row[name] == row["right"] for row in rows)
        report.remark(f"{name}_right", right, f"{name}: {right} of {len(rows)} right")
    report.finish()


if __name__ == "__main__":
    main()
