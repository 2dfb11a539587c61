"""Do tokens become alike in BERT, and by which factor can a layer bring them together?

*Revisiting Over-smoothing in BERT* measures the distance of tokens from all being the same,
d_M(X) = |X - 1 x'|_F with x their mean, and bounds what a layer does to it. For one head with
pattern A and value map W, an MLP of spectral norms s1 s2, skips and two norms

    d_M(out) <= (1 + lambda |W|) (1 + s1 s2) / (sigma1 sigma2) d_M(X),    lambda = |C A C|_2,

with C = I - 11'/n and sigma the least deviation that a norm divides by, of the tokens and of their
mean. (A norm is x / |x| after centring, which is Lipschitz with constant 1 / min |x|.) This form is
derived here. Where lambda is above 1 the bound says nothing about tokens becoming alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from segre.checkpoint.inputs import random_tokens
from segre.checkpoint.runnable import load
from segre.collapse.curves import curves
from segre.collapse.variants import FULL
from segre.fields.interface import Array
from segre.reproduce.claim import DERIVED, PAPER
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Series, Table
from segre.reproduce.rank_collapse import config

TOKENS = 64
DEVIATIONS = (0.5, 1.0, 2.0, 3.0)
FUSIONS = ("mean", "max", "concat")


def contraction(A: Array) -> float:
    """|C A C|_2: the largest factor on differences between tokens."""
    inner = A - A.mean(axis=0)
    return float(np.linalg.norm(inner - inner.mean(axis=1, keepdims=True), 2))


def distance(X: Array) -> float:
    """d_M(X): the Frobenius distance from the mean token."""
    return float(np.linalg.norm(X - X.mean(axis=0)))


def random_contraction(deviation: float, causal: bool, draws: int, seed: int) -> float:
    """The mean of lambda over random scores of some deviation."""
    rng = np.random.default_rng([seed, 11])
    hidden = np.triu(np.full((TOKENS, TOKENS), -np.inf), 1) if causal else 0.0
    scores = deviation * rng.standard_normal((draws, TOKENS, TOKENS)) + hidden
    return float(np.mean([contraction(softmax(one, axis=-1)) for one in scores]))


def bound_ratios(draws: int, seed: int) -> list[float]:
    """The distance after a random layer over its bound; at most one if the bound holds."""
    rng = np.random.default_rng([seed, 13])
    out = []
    for _ in range(draws):
        n, d = int(rng.integers(2, 20)), int(rng.integers(2, 16))
        X = rng.standard_normal((n, d)) * rng.lognormal(sigma=1) + rng.standard_normal(d)
        W, W1, W2 = (rng.standard_normal((d, d)) * rng.lognormal(-1, 1) / d**0.5 for _ in range(3))
        A = softmax(rng.standard_normal((n, n)) * rng.lognormal(sigma=1), axis=-1)
        first, sigma1 = _normed(X + A @ X @ W)
        last, sigma2 = _normed(first + np.maximum(first @ W1, 0) @ W2)
        norms = [float(np.linalg.norm(one, 2)) for one in (W, W1, W2)]
        factor = (1 + contraction(A) * norms[0]) * (1 + norms[1] * norms[2]) / (sigma1 * sigma2)
        out.append(distance(last) / (factor * distance(X)))
    return out


def _normed(X: Array) -> tuple[Array, float]:
    """A LayerNorm without gain and bias, and the least deviation it divides by."""
    centred = X - X.mean(axis=1, keepdims=True)
    every = np.vstack([centred, centred.mean(axis=0)])
    deviations = np.sqrt((every**2).mean(axis=1))
    return centred / deviations[:-1, None], float(deviations.min())


def in_bert(width: int, count: int, length: int, seed: int) -> dict[str, Any]:
    """Cosines between tokens of a random BERT by depth, and residuals of fused streams."""
    loaded = load(config("bert", None, width), seed)
    inputs = random_tokens(loaded, count, length, seed)
    found: dict[str, Any] = {}
    for fuse in FUSIONS:
        curve = curves(loaded, inputs, [FULL], fuse=fuse)[FULL]
        assert curve.fused is not None
        found[fuse] = float(curve.fused.mean())
    return found | {
        "cosine": curve.mean("cosine").tolist(),
        "residual": curve.mean().tolist(),
    }


def run(given: Run) -> Found:
    """Random patterns, random layers, then a random BERT."""
    options = given.options
    kinds = {"all tokens": False, "causal": True}
    found = given.each_seed(
        "patterns",
        lambda seed, _: {
            name: [random_contraction(one, causal, 20, seed) for one in DEVIATIONS]
            for name, causal in kinds.items()
        },
    )
    tried = options["layers"]
    ratios = given.each_seed("bound", lambda seed, _: max(bound_ratios(tried, seed)))
    sizes = (options["width"], options["count"], options["length"])
    models = given.each_seed("BERT", lambda seed, _: in_bert(*sizes, seed))
    claims = (
        DERIVED(f"Distance / bound, largest over {tried:,} random layers").at_most(1, ratios),
        DERIVED("lambda for scores with standard deviation 1").near(
            0.35, found.of("all tokens", 1), tolerance=0.03
        ),
        DERIVED("lambda for scores with standard deviation 3").near(
            1.24, found.of("all tokens", 3), tolerance=0.1
        ),
        DERIVED("lambda is above 1 for causal patterns").holds(
            [min(one) > 1 for one in found.of("causal")]
        ),
        PAPER(
            "BERT at initialisation: the cosine between tokens grows from the first to the last "
            "layer"
        ).holds([one["cosine"][-1] > one["cosine"][0] for one in models]),
        *(
            PAPER(
                f"Fusing the streams of all layers ({fuse}) leaves tokens further apart than in "
                "the last layer"
            ).holds(
                [one[fuse] > one["residual"][-1] for one in models],
                f"relative residual {models.means(fuse):.4f} fused and "
                f"{models.means('residual', -1):.4f} after the last layer, means over seeds",
            )
            for fuse in FUSIONS
        ),
        PAPER("Hierarchical fusion with a trained gate improves BERT on GLUE").untestable(
            "this needs fine-tuning of pretrained models; here fusion is measured only by the "
            "residual"
        ),
    )
    patterns = {"bidirectional": found.means("all tokens"), "causal": found.means("causal")}
    cosine, residual = models.means("cosine"), models.means("residual")
    shown = [layer for layer in (0, 1, 2, 4, 6, 8, 10, 12) if layer < len(cosine)]
    by_layer = {"cosine": cosine, "relative residual": residual}
    tables = (
        Table(
            f"lambda of random patterns of {TOKENS} tokens, means over seeds",
            ("patterns", *(f"deviation {one:g}" for one in DEVIATIONS)),
            [(name, *means) for name, means in patterns.items()],
            ("", *(".3f",) * len(DEVIATIONS)),
            "deviation: standard deviation of the scores. The bound implies that tokens become "
            "alike only where lambda is small; above 1 it says nothing.",
        ),
        Table(
            f"BERT of width {options['width']} with random weights, by layer, means over seeds",
            ("measure", *map(str, shown)),
            [(name, *(means[layer] for layer in shown)) for name, means in by_layer.items()],
            ("", *(".3f",) * len(shown)),
        ),
        Table(
            "Relative residual after fusing the streams of all layers",
            "{fusion} {relative residual:.3f}",
            [
                *((name, models.means(name)) for name in FUSIONS),
                ("none (last layer)", residual[-1]),
            ],
        ),
    )
    curves = [Series(name, DEVIATIONS, means) for name, means in patterns.items()]
    one = Series("1", DEVIATIONS[:1] + DEVIATIONS[-1:], (1.0, 1.0), "dots", -1)
    in_depth = (
        Series("cosine between tokens", range(len(cosine)), cosine),
        Series("relative residual", range(len(cosine)), residual),
    )
    deviation = "standard deviation of the scores"
    panels = (
        Panel("lambda of random patterns", deviation, "lambda", (*curves, one), low=0),
        Panel("BERT with random weights", "layer", "", in_depth, low=0),
    )
    notes = (
        "The bound is derived here from the paper's argument, and includes the standard "
        "deviations in the norms of each layer. `segre model diagnose` gives lambda for the heads "
        "of a checkpoint; in trained models it is mostly above 1.",
    )
    return Found(claims, tables, panels, notes)


EXPERIMENT = Experiment(
    name="smoothing",
    title="Over-smoothing: contraction of random patterns, the bound, and BERT by depth.",
    work=Work(
        "Revisiting Over-smoothing in BERT from the Perspective of Graph",
        "Shi, Gao, Xu, Liang, Li, Kong, Lee, Kwok",
        2022,
        "2202.08625",
    ),
    question="Do tokens become alike in BERT, and does the contraction bound explain it?",
    run=run,
    examples=("smoothing -o smoothing.png", "smoothing -o narrow.png --width 128"),
    options=(
        Option(
            "layers", int, 1000, "Number of random layers on which the bound is tested.", 1, 10**6
        ),
        Option("width", int, 768, "Width of BERT.", 8, 4096),
        Option("count", int, 4, "Inputs.", 1, 1000),
        Option("length", int, 64, "Tokens per input.", 2, 512),
    ),
    small={"layers": 20, "width": 16, "count": 1, "length": 6},
)
