"""The dimension of two-layer softmax attention: segre against the straightforward estimator.

The estimator is what the paper's public script does: draw weights and 250 inputs with
torch.randn, evaluate all inputs as one batch, take one backward pass per scalar output (each
goes through the whole batch), stack the gradients into a float32 Jacobian, ask
torch.linalg.matrix_rank, do all this for five draws and take the largest rank. Beside it stands
the same estimator improved in the obvious way, one graph per input ("by input"). segre proves its
answer: by default with an exact rank mod p from below and the closed form from above, and as
"exact" with the rank of the symmetries from above, without the closed form.

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
DRAWS = 5  # of the public script
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
    "exact_seconds": ("exact s", ".4f"),
    "ratio": ("torch / segre", ",.0f"),
    "one_draw_ratio": ("one draw / segre", ",.0f"),
    "by_input_ratio": ("one by input / segre", ",.0f"),
}


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise SystemExit(
            "this benchmark compares with PyTorch, which is not installed; install it with\n"
            "  pip install -c constraints.txt 'segre[models]'"
        ) from None
    return torch


def make_network(torch: Any, d: int) -> Any:
    """Two softmax layers as a torch module; tokens are rows, as torch has it."""

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.K, self.Q = (torch.nn.Parameter(torch.randn(HEAD_RANK, d)) for _ in "KQ")
            self.V = torch.nn.Parameter(torch.randn(d, d))

        def forward(self, X: Any) -> Any:
            scores = (X @ self.Q.T) @ (X @ self.K.T).mT
            return torch.softmax(scores, dim=-1) @ (X @ self.V.T)

    return torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))


def estimate(torch: Any, d: int, inputs: int, seed: int, at_once: int) -> tuple[int, float]:
    """The rank found and the seconds taken, with `at_once` inputs in a graph."""
    start = perf_counter()
    torch.manual_seed(seed)
    network = make_network(torch, d)
    rows = []
    for batch in torch.randn(inputs, TOKENS, d).split(at_once):
        outputs = network(batch).flatten()
        for j in range(len(outputs)):
            network.zero_grad()
            outputs[j].backward(retain_graph=True)
            rows.append(torch.cat([weight.grad.flatten() for weight in network.parameters()]))
    rank = int(torch.linalg.matrix_rank(torch.stack(rows)))
    return rank, perf_counter() - start


def compare(torch: Any, d: int, inputs: int, draws: int, seed: int) -> dict[str, Any]:
    spec = Network.parse(f"softmax/d={d}/layers={LAYERS}/a={HEAD_RANK}/t={TOKENS}")

    def run() -> None:
        dimension(spec, seed=seed)

    def run_exact() -> None:
        dimension(spec, "exact", seed)

    found = dimension(spec, "exact", seed)  # also the warm-up
    batched, by_input, seconds, exact_seconds = [], [], [], []
    for draw in range(draws):  # in turns, so that all see the same clock and neighbours
        batched.append(estimate(torch, d, inputs, seed + draw, at_once=inputs))
        seconds += timed(run, 10)
        by_input.append(estimate(torch, d, inputs, seed + draw, at_once=1))
        exact_seconds += timed(run_exact, 10)
    torch_seconds = sum(each[1] for each in batched)
    by_input_seconds = sum(each[1] for each in by_input)
    return {
        "d": d,
        "parameters": spec.parameters,
        "right": closed_form(spec).value,
        "torch": max(each[0] for each in batched),
        "torch_ranks": [each[0] for each in batched],
        "torch_seconds": torch_seconds,
        "by_input_seconds": by_input_seconds,
        "segre": found.value,
        "status": found.status,
        "segre_seconds": median(seconds),
        "exact_seconds": median(exact_seconds),
        "ratio": torch_seconds / median(seconds),
        "one_draw_ratio": torch_seconds / draws / median(seconds),
        "by_input_ratio": by_input_seconds / draws / median(seconds),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--inputs",
        type=int,
        help="number of inputs of the estimator (default: 250; with --quick: 25)",
    )
    parser.add_argument(
        "--draws", type=int, default=DRAWS, help="number of draws of weights (default: 5)"
    )
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
        compare(torch, d, inputs, options.draws, options.seed)
        for d in (range(3, 5) if options.quick else range(3, 11))
    ]
    report.table(
        f"softmax, {LAYERS} layers, a={HEAD_RANK}, t={TOKENS}: torch with {inputs} inputs, "
        f"{options.draws} draws; segre median of {10 * options.draws}",
        COLUMNS,
        rows,
    )
    for name in ("torch", "segre"):
        right = sum(row[name] == row["right"] for row in rows)
        report.remark(f"{name}_right", right, f"{name}: {right} of {len(rows)} right")
    report.finish()


if __name__ == "__main__":
    main()
