"""Does attention become local when the spectrum of W_QK concentrates?

*Self-attention Networks Localize When QK-eigenspectrum Concentrates*: at a fixed size of W_QK, a
large mean of its eigenvalues against their deviation makes a token attend to tokens like itself.
If neighbours are alike, as in a random walk, attention is then local, tokens keep their rank, and
entropy does not collapse.

Here W_QK = c (r I + S), with S symmetric Gaussian of eigenvalue deviation 1, r the mean over the
deviation, and c such that the Frobenius norm is always the same.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import softmax

from segre.collapse.residual import relative_residual
from segre.fields.interface import Array
from segre.reproduce.claim import DERIVED, LIMITED, PAPER
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Series, Table

TOKENS = 64
WIDTH = 64
RATIOS = (0.0, 0.5, 1.0, 2.0, 4.0)
KINDS = ("random walk", "independent")
MEASURES = ("distance", "residual", "entropy")


def tokens(kind: str, rng: np.random.Generator) -> Array:
    """Tokens of norm sqrt(width): steps of a random walk, or independent."""
    steps = rng.standard_normal((TOKENS, WIDTH))
    X = steps.cumsum(axis=0) if kind == "random walk" else steps
    return np.asarray(X * (WIDTH**0.5 / np.linalg.norm(X, axis=1, keepdims=True)))


def scores_matrix(ratio: float, size: float, rng: np.random.Generator) -> Array:
    """W_QK with a given ratio of mean to deviation of its eigenvalues, and a given size."""
    G = rng.standard_normal((WIDTH, WIDTH))
    S = (G + G.T) / (2 * WIDTH) ** 0.5
    S = S - np.eye(WIDTH) * np.trace(S) / WIDTH
    S /= np.linalg.norm(S) / WIDTH**0.5  # eigenvalues of mean 0 and deviation 1
    W = ratio * np.eye(WIDTH) + S
    return np.asarray(W * (size * WIDTH**0.5 / np.linalg.norm(W)))


def attend(kind: str, ratio: float, size: float, draws: int, seed: int) -> dict[str, float]:
    """Mean attended distance, relative residual after over before mixing, and entropy."""
    rng = np.random.default_rng([seed, 7])
    place = np.arange(TOKENS)
    apart = abs(place[:, None] - place)
    found = []
    for _ in range(draws):
        X, W = tokens(kind, rng), scores_matrix(ratio, size, rng)
        P = softmax(X @ W @ X.T / WIDTH**0.5, axis=1)
        logs = np.log(np.where(P > 0, P, 1))
        distance, entropy = ((P * each).sum(axis=1).mean() for each in (apart, -logs))
        found.append((distance, relative_residual(P @ X) / relative_residual(X), entropy))
    return dict(zip(MEASURES, np.mean(found, axis=0).tolist(), strict=True))


def run(given: Run) -> Found:
    """Both kinds of tokens, for every ratio."""
    size, draws = given.options["size"], given.options["draws"]
    found = given.each_seed(
        "attention",
        lambda seed, _: {
            kind: [attend(kind, ratio, size, draws, seed) for ratio in RATIOS] for kind in KINDS
        },
    )

    def mean(kind: str, name: str) -> list[float]:
        return [found.means(kind, place, name) for place in range(len(RATIOS))]

    def grows(name: str, sign: int) -> list[bool]:
        values = ([sign * at[name] for at in one[walk]] for one in found)
        return [all(a < b for a, b in pairwise(one)) for one in values]

    walk, other = KINDS
    highest = float(np.log(TOKENS))
    first, last = (found.of(walk, place, "distance") for place in (0, -1))
    claims = (
        LIMITED("Random walk: attended distance at the largest ratio / at ratio 0").at_most(
            0.5, [b / a for a, b in zip(first, last, strict=True)]
        ),
        PAPER("Random walk: attended distance decreases with the ratio").holds(
            grows("distance", -1)
        ),
        PAPER("Random walk: mixed tokens keep more of their residual as the ratio grows").holds(
            grows("residual", 1)
        ),
        LIMITED("Random walk, no collapse: entropy / ln n at the largest ratio").at_least(
            0.5, [value / highest for value in found.of(walk, -1, "entropy")]
        ),
        DERIVED("Independent tokens, collapse: entropy / ln n at the largest ratio").at_most(
            0.5, [value / highest for value in found.of(other, -1, "entropy")]
        ),
        DERIVED("Random walk: attended distance at ratio 0").near(21.7, first, tolerance=1),
        DERIVED("Random walk: attended distance at the largest ratio").near(8.3, last, tolerance=1),
        PAPER("Shrinking the deviation in training (LocAteR) lowers perplexity").untestable(
            "this needs the training of language models"
        ),
    )
    rows = [
        (kind, ratio, *(found.means(kind, place, name) for name in MEASURES))
        for kind in KINDS
        for place, ratio in enumerate(RATIOS)
    ]
    table = Table(
        f"{TOKENS} tokens of width {WIDTH}, means over {draws} draws and all seeds",
        "{tokens} {mean / deviation:g} {attended distance:.2f} {residual ratio:.3f} {entropy:.2f}",
        rows,
        note=f"Uniform attention has distance {(TOKENS**2 - 1) / (3 * TOKENS):.2f} and entropy "
        f"{highest:.2f}. Residual ratio: the relative residual of the mixed tokens divided by "
        "that of the tokens.",
    )
    names = ("attended distance", "residual ratio", "entropy")
    panels = [
        Panel(
            *(title.capitalize(), "mean / deviation of the eigenvalues", title),
            [Series(kind, RATIOS, mean(kind, name)) for kind in KINDS],
            low=0,
        )
        for title, name in zip(names, MEASURES, strict=True)
    ]
    notes = (
        "The tokens are a model: a walk with independent steps, each token scaled to the same "
        "norm. The paper's statement is about correlated tokens like these; with independent "
        "tokens, the same spectrum makes each token attend to itself alone.",
    )
    return Found(claims, (table,), panels, notes)


EXPERIMENT = Experiment(
    name="localise",
    title="Attention of random walks as the spectrum of W_QK concentrates.",
    work=Work(
        "Self-attention Networks Localize When QK-eigenspectrum Concentrates",
        "Bao, Hataya, Karakida",
        2024,
        "2402.02098",
    ),
    question="Does attention become local when the eigenvalues of W_QK concentrate at their mean?",
    run=run,
    examples=("localise -o localise.png", "localise -o sharper.png --size 2"),
    options=(
        Option("size", float, 1.0, "Root mean square of the eigenvalues of W_QK.", 0.01, 100.0),
        Option("draws", int, 20, "Number of draws of tokens and weights for each seed.", 1, 10_000),
    ),
    small={"draws": 2},
)
