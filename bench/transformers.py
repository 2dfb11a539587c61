"""The exact dimension of small Llama blocks against a floating-point rank by PyTorch.

Two layers with RMSNorm, rotary positions, grouped queries and SwiGLU on three tokens, from 200 to
3,000 parameters: seconds and memory of `segre.dimension(spec, "exact")`, each in a fresh process.
Without a vocabulary the minor is computed mod p; with a vocabulary and eps > 0 in balls of real
arithmetic.

The peer is what one does today: the same network as a plain float64 function of PyTorch, its
Jacobian at random weights and inputs by torch.func (jacrev, all inputs at once by vmap), and
torch.linalg.matrix_rank, where it takes less than a minute. Before it is timed it is compared with
segre's forward map. Both have one thread unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from bench.estimator import import_torch
from bench.growth import LARGE, exponent
from bench.harness import (
    Report,
    arguments,
    blas_threads,
    measured_apart,
    peak_memory,
    timed,
)
from segre import Finding, dimension
from segre.fields.real import Real
from segre.models import architecture
from segre.network import forward
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

SIZES = (
    "llama/d=4/layers=2/heads=2/kv=1/head=2/ff=5/t=3",
    "llama/d=6/layers=2/heads=2/kv=1/head=2/ff=8/t=3",
    "llama/d=8/layers=2/heads=4/kv=2/head=2/ff=8/t=3",
    "llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3",
    "llama/d=10/layers=2/heads=4/kv=2/head=2/ff=20/t=3",
    "llama/d=12/layers=2/heads=6/kv=3/head=2/ff=20/t=3",
    "llama/d=12/layers=2/heads=6/kv=3/head=2/ff=28/t=3",
)
WORDS = (
    "llama/d=4/layers=1/heads=2/kv=1/head=2/ff=5/vocab=11/eps=1e-5/t=3",
    "llama/d=6/layers=1/heads=2/kv=1/head=2/ff=10/vocab=13/eps=1e-5/t=3",
)
QUICK = ("llama/d=4/layers=1/heads=2/kv=1/head=2/ff=5/t=3", WORDS[0])
PATIENCE = 60  # seconds for the peer
FEW, BUDGET = 3, 10  # so many calls, or as many as begin within so many seconds
# Rows of the peer's Jacobian for each parameter. Those of words depend on each other: they sum to
# zero, and first words repeat.
ROWS, ROWS_OF_WORDS = 1.5, 4
CLOSE = 1e-12  # the two forward maps, relatively
COLUMNS = {
    "layers": ("l", ""),
    "d": ("d", ""),
    "heads": ("heads", ""),
    "kv": ("kv", ""),
    "ff": ("ff", ""),
    "vocab": ("vocab", ""),
    "parameters": ("parameters", ""),
    "dimension": ("dimension", ""),
    "status": ("status", ""),
    "proof": ("minor", ""),
    "seconds": ("segre s", ".2f"),
    "peak": ("segre MiB", ",.0f"),
    "peer_dimension": ("torch says", ""),
    "peer_seconds": ("torch s", ".2f"),
    "peer_peak": ("torch MiB", ",.0f"),
    "ratio": ("torch / segre s", ".2f"),
}


# --- the peer -----------------------------------------------------------------------------


class Llama:
    """A Llama as a function of its weights and one input, in PyTorch; tokens are rows."""

    def __init__(self, torch: Any, spec: Transformer) -> None:
        self.torch, self.spec = torch, spec
        assert isinstance(spec.base, int)
        angles = np.outer(np.arange(spec.t), float(spec.base) ** -np.arange(0, 1, 2 / spec.head))
        self.cos, self.sin = (torch.tensor(f(angles)).tile(2) for f in (np.cos, np.sin))
        self.future = torch.ones(spec.t, spec.t, dtype=torch.bool).triu(1)

    def draw(self, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Random weights of a usual size, as segre orders them."""
        rng = np.random.default_rng(seed)
        parts = []
        for slot in tensors(self.spec).values():
            drawn = rng.standard_normal(slot.size) / np.sqrt(slot.shape[-1])
            parts.append(1 + drawn / 2 if slot.name.endswith(".gain") else drawn)
        return np.concatenate(parts)

    def weights(self, vector: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
        """The same weights in the shapes that PyTorch code has: one matrix for all heads."""
        out = {}
        for (part, name), slot in tensors(self.spec).items():
            value = self.torch.tensor(vector[slot.range].reshape(slot.shape))
            if name == "W_O":
                value = value.permute(2, 0, 1, 3).flatten(1)
            else:
                value = value.flatten(0, -1 if name.endswith(".gain") else -2)
            out[f"{part}.{name}"] = value
        return out

    def inputs(self, count: int, seed: int) -> Any:
        """Random inputs: matrices of tokens, or words by their numbers."""
        generator = self.torch.Generator().manual_seed(seed)
        shape = (count, self.spec.t)
        if self.spec.discrete:
            return self.torch.randint(self.spec.vocab, shape, generator=generator)
        return self.torch.randn(*shape, self.spec.d, generator=generator, dtype=self.torch.float64)

    def __call__(self, w: dict[str, Any], x: Any) -> Any:
        """The block on one input."""
        spec = self.spec
        if spec.discrete:
            x = w["embed.tokens"].T[x]
        for i in range(1, spec.layers + 1):
            x = x + self.attention(w, f"{i}", self.norm(x, w[f"{i}.norm1.gain"]))
            h = self.norm(x, w[f"{i}.norm2.gain"])
            gate = self.torch.nn.functional.silu(h @ w[f"{i}.W_gate"].T)
            x = x + (gate * (h @ w[f"{i}.W_up"].T)) @ w[f"{i}.W_down"].T
        if not spec.discrete:
            return x
        return (self.norm(x, w["head.norm.gain"]) @ w["head.W_U"].T).softmax(-1)

    def norm(self, x: Any, gain: Any) -> Any:
        """RMSNorm of every token."""
        return x * (x.square().mean(-1, keepdim=True) + float(self.spec.eps)).rsqrt() * gain

    def attention(self, w: dict[str, Any], layer: str, x: Any) -> Any:
        """What the heads of a layer write; scores are not scaled, as segre has it."""
        shape = (self.spec.t, -1, self.spec.head)
        q, k, v = ((x @ w[f"{layer}.W_{name}"].T).view(shape).transpose(0, 1) for name in "QKV")
        k, v = (heads.repeat_interleave(self.spec.group, 0) for heads in (self.rotate(k), v))
        scores = (self.rotate(q) @ k.mT).masked_fill(self.future, float("-inf"))
        mixed = scores.softmax(-1) @ v
        return mixed.transpose(0, 1).flatten(1) @ w[f"{layer}.W_O"].T

    def rotate(self, x: Any) -> Any:
        """Turn every head by the positions of its tokens."""
        first, second = x.chunk(2, -1)
        return x * self.cos + self.torch.cat((-second, first), -1) * self.sin

    def difference(self, seed: int) -> float:
        """The largest difference from segre's forward map, relative to the largest output."""
        vector, x = self.draw(seed), self.inputs(8, seed)
        columns = self.torch.nn.functional.one_hot(x, self.spec.vocab) if self.spec.discrete else x
        X = columns.double().mT.numpy()
        segre = forward(Real(), self.spec, vector, X)
        torch = self.torch.func.vmap(self, (None, 0))(self.weights(vector), x).mT.numpy()
        return float(np.abs(segre - torch).max() / np.abs(segre).max())

    def rank(self, seed: int) -> int:
        """The rank of the Jacobian at random weights and enough random inputs."""
        rows, columns = self.spec.output_shape
        enough = ROWS_OF_WORDS if self.spec.discrete else ROWS
        count = int(np.ceil(enough * self.spec.parameters / (rows * columns)))
        w, x = self.weights(self.draw(seed)), self.inputs(count, seed)
        jacobian = self.torch.func.vmap(self.torch.func.jacrev(self), (None, 0))(w, x)
        parts = [part.reshape(count * rows * columns, -1) for part in jacobian.values()]
        return int(self.torch.linalg.matrix_rank(self.torch.cat(parts, 1)))


# --- measurements -------------------------------------------------------------------------


def measure(action: Callable[[], Any]) -> dict[str, float]:
    """Memory before and after, and the median of a few calls; slow ones are called once."""
    start, seconds = peak_memory(), list[float]()
    while len(seconds) < FEW and sum(seconds) < BUDGET:
        seconds += timed(action)
    return {"start": start, "seconds": median(seconds), "peak": peak_memory()}


def measure_segre(text: str, seed: int) -> dict[str, Any]:
    """One measurement of segre, in this process."""
    dimension(QUICK[0], "exact")  # warm-up
    found: list[Finding] = []
    measured = measure(lambda: found.append(dimension(text, "exact", seed)))
    evidence = found[0].lower_evidence
    assert evidence is not None
    return {
        "parameters": found[0].parameters,
        "dimension": found[0].value,
        "status": found[0].status,
        "proof": {"minor-mod-p": "mod p", "ball-minor": "balls"}[evidence.kind],
        **measured,
    }


def measure_torch(text: str, seed: int, threads: int) -> dict[str, Any]:
    """One measurement of the peer, in this process; it must be the same function first."""
    torch = import_torch()
    torch.set_num_threads(threads)
    Llama(torch, parsed(QUICK[0])).rank(seed)  # warm-up
    model = Llama(torch, parsed(text))
    difference = model.difference(seed)
    assert difference < CLOSE, (text, difference)
    found: list[int] = []
    measured = measure(lambda: found.append(model.rank(seed)))
    return {"dimension": found[0], "difference": difference, **measured}


def parsed(text: str) -> Transformer:
    spec = architecture(text)
    assert isinstance(spec, Transformer)
    return spec


def compare(text: str, seed: int, threads: int) -> dict[str, Any]:
    spec = parsed(text)
    options = ("--seed", seed, "--threads", threads, "--alone", text)
    own = measured_apart("transformers", *options, "segre")
    assert own is not None
    peer = measured_apart("transformers", *options, "torch", timeout=PATIENCE)
    return {
        "spec": text,
        **{key: getattr(spec, key) for key in ("layers", "d", "heads", "kv", "ff")},
        "vocab": spec.vocab or None,
        **own,
        "peer_dimension": peer and peer["dimension"],
        "peer_seconds": peer and peer["seconds"],
        "peer_peak": peer and peer["peak"],
        "peer_start": peer and peer["start"],
        "difference": peer and peer["difference"],
        "ratio": peer and peer["seconds"] / own["seconds"],
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of BLAS and of torch (default: 1)"
    )
    parser.add_argument(
        "--alone",
        nargs=2,
        metavar=("SPEC", "WHO"),
        help="make one measurement and print it as JSON",
    )
    options = parser.parse_args(argv)
    if options.alone:
        text, who = options.alone
        with blas_threads(options.threads):
            if who == "torch":
                found = measure_torch(text, options.seed, options.threads)
            else:
                found = measure_segre(text, options.seed)
        print(json.dumps(found))
        return
    torch = import_torch()
    report = Report("transformers", options)
    report.remark("torch", torch.__version__, f"torch: {torch.__version__}")
    rows = [
        compare(text, options.seed, options.threads)
        for text in (QUICK if options.quick else (*SIZES, *WORDS))
    ]
    report.table(
        f"Llama blocks, head=2, t=3, method exact; torch in float64, {ROWS} rows per parameter "
        f"(vocab: {ROWS_OF_WORDS}); threads: {options.threads}",
        COLUMNS,
        rows,
    )
    for name, key in (("segre", "start"), ("torch", "peer_start")):
        start = median(row[key] for row in rows if row[key] is not None)
        report.remark(key, start, f"{name}: {start:.0f} MiB of memory are there before a call")
    blocks = [row for row in rows if row["proof"] == "mod p"]
    large = [row for row in blocks if row["parameters"] >= LARGE]
    for name, key in (("segre", "seconds"), ("torch", "peer_seconds")):
        slopes = [exponent(blocks, key), exponent(large, key)]
        whole, upper = ("-" if slope is None else f"{slope:.2f}" for slope in slopes)
        report.remark(
            f"{name}_exponents",
            slopes,
            f"{name}: seconds grow like parameters^{whole} (from {LARGE} parameters on: ^{upper})",
        )
    report.finish()


if __name__ == "__main__":
    main()
