"""Can many heads of rank one replace one head of full rank?

Read in the paper (its abstract, and its code): one full-rank head finds the nearest neighbour for
any number of tokens; heads of low rank need exponentially many, even for two tokens; the matrix C
of the error is in the code. Derived here: the vector b of the error, and its agreement with heads
that are run. No experiment shows a lower bound: other keys, queries and values might do better.

x_1, x_2 and the query y are uniform on the unit sphere of R^d. The target is the x_i nearest to y.
A hard head of rank one with unit vectors k, q says the x_i with the larger (k.x_i)(q.y). A sum of
heads weighed by numbers alpha has the mean square error 1 - 2 b.alpha + alpha.C alpha, where

    C_ij = 1/2 + (2/pi^2) asin(k_i.k_j) asin(q_i.q_j),
    b_i  = 1/2 + 1/2 E[ sign(v.y) sign(v.k_i) sign(q_i.y) ].

The first is in the authors' code. The second depends on the angle t of k_i and q_i only, and is

    b(t) = 1/2 + (2/pi^2) int_t^{pi/2} E_r[ asin(r sin u) ] du,    P(r > s) = (1 - s^2)^{(d-2)/2},

where r is the length of y in the plane of k and q (derived here: the derivative by t of the mean of
asin(r cos u) sign(cos(u - t)) over a full turn is -(2/pi) asin(r sin t), and it vanishes at pi/2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from segre.attention.mechanism import SOFTMAX
from segre.fields.interface import Array
from segre.reproduce.claim import FORMULA, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table
from segre.sequence.mix import mix

NODES = 64  # of a Gauss-Legendre rule


@dataclass(frozen=True)
class Heads:
    """Keys and queries of heads of rank one, unit vectors in rows: (heads, d)."""

    k: Array
    q: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, heads: int, d: int) -> Heads:
        """Uniform queries; keys at an angle with uniform cosine, as in the authors' code."""
        q = unit(rng.standard_normal((heads, d)))
        other = rng.standard_normal((heads, d))
        other = unit(other - (other * q).sum(axis=1, keepdims=True) * q)
        cosine = rng.uniform(-1, 1, (heads, 1))
        return cls(cosine * q + np.sqrt(1 - cosine**2) * other, q)

    def first(self, count: int) -> Heads:
        """The first heads."""
        return Heads(self.k[:count], self.q[:count])


def unit(x: Array) -> Array:
    """Rows divided by their norms."""
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def gram(heads: Heads) -> Array:
    """The matrix C: mean inner products of the outputs of two heads."""
    keys, queries = (np.arcsin((x @ x.T).clip(-1, 1)) for x in (heads.k, heads.q))
    return np.asarray(0.5 + 2 / np.pi**2 * keys * queries)


def agreement(heads: Heads) -> Array:
    """The vector b: mean inner products of a head's output and the target."""
    angle = np.arccos((heads.k * heads.q).sum(axis=1).clip(-1, 1))
    return at_angle(angle, heads.k.shape[1])


def at_angle(angle: Array, d: int) -> Array:
    """b(t), with both integrals by Gauss-Legendre rules; r is sin(w), so that all is smooth.

    >>> bool(abs(at_angle(np.array([np.pi / 2]), 8)[0] - 0.5) < 1e-12)
    True
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (np.pi / 2 - angle)[:, None] / 2
    u = angle[:, None] + half * (nodes + 1)
    w, by = np.pi / 4 * (nodes + 1), np.pi / 4 * weights
    s = np.sin(u)[..., None]
    inner = (s * np.cos(w) ** (d - 1) / np.sqrt(1 - (s * np.sin(w)) ** 2)) @ by
    return np.asarray(0.5 + 2 / np.pi**2 * (half * weights * inner).sum(axis=1))


def best_error(C: Array, b: Array) -> tuple[float, Array]:
    """The least mean square error of a weighted sum of heads, and the weights."""
    alpha = np.linalg.lstsq(C, b, rcond=None)[0]
    return float(1 - 2 * b @ alpha + alpha @ C @ alpha), alpha


# --- the same with segre's softmax, on drawn points ---------------------------------------------


def points(rng: np.random.Generator, count: int, tokens: int, d: int) -> tuple[Array, Array]:
    """Drawn tokens (count, tokens, d) and queries (count, 1, d)."""
    drawn = unit(rng.standard_normal((count, tokens + 1, d)))
    return drawn[:, :-1], drawn[:, -1:]


def nearest(x: Array, y: Array) -> Array:
    """The token that is nearest to the query: (count, d)."""
    place = (x * y).sum(axis=-1).argmax(axis=-1)
    return np.asarray(np.take_along_axis(x, place[:, None, None], axis=1)[:, 0])


def full_rank(x: Array, y: Array, sharpness: float) -> Array:
    """The output of one softmax head of full rank, with scores sharpness times x.y."""
    return mix(SOFTMAX, sharpness * y, x, x)[:, 0]


def rank_one(heads: Heads, alpha: Array, x: Array, y: Array, sharpness: float) -> Array:
    """The output of a weighted sum of softmax heads of rank one."""
    total = np.zeros((len(x), x.shape[-1]))
    for k, q, weight in zip(heads.k, heads.q, alpha, strict=True):
        total += weight * mix(SOFTMAX, sharpness * (y @ q[:, None]), x @ k[:, None], x)[:, 0]
    return total


def mean_square(said: Array, right: Array) -> float:
    """The mean square error; the target has length 1."""
    return float(((said - right) ** 2).sum(axis=-1).mean())


WIDTHS = (4, 8, 16)
COUNTS = (1, 4, 16, 64, 256, 1024)
CHECKED = 16  # heads that are run, to compare
TOKENS = (2, 8, 32)  # of the full-rank head
SAMPLES = 20_000
SHARP = 1e7


def run(given: Run) -> Found:
    """Errors in closed form for every width, and heads that are run on drawn points."""
    every = (*COUNTS, 4096) if given.full else COUNTS
    counts = tuple(count for count in every if count <= given.options["heads"])
    samples = given.options["samples"]
    by_seed = given.each_seed(
        "heads",
        lambda seed, _: {str(d): _measured(seed, d, counts, samples) for d in WIDTHS},
    )
    found = {d: Seeds(by_seed.of(str(d))) for d in WIDTHS}
    return Found(
        _claims(found, counts),
        _tables(found, counts, samples),
        (_panel(found, counts),),
        (
            "The error is the root mean square error; targets have norm 1. Heads of rank one are "
            "hard (a softmax with very large scores), have random keys and queries, and are "
            "combined with the best weights for the exact distribution of points.",
        ),
    )


def _measured(seed: int, d: int, counts: tuple[int, ...], samples: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, d, 16153])
    heads = Heads.drawn(rng, counts[-1], d)
    C, b = gram(heads), agreement(heads)
    errors = [best_error(C[:n, :n], b[:n])[0] for n in counts]
    some = min(CHECKED, counts[-1])
    expected, alpha = best_error(C[:some, :some], b[:some])
    x, y = points(rng, samples, 2, d)
    each = ((rank_one(heads.first(some), alpha, x, y, SHARP) - nearest(x, y)) ** 2).sum(axis=1)
    full = []
    for tokens in TOKENS:
        x, y = points(rng, samples, tokens, d)
        full.append(mean_square(full_rank(x, y, SHARP), nearest(x, y)) ** 0.5)
    return {
        "errors": [max(error, 0.0) ** 0.5 for error in errors],
        "off": (each.mean() - expected) / (each.std() / samples**0.5),
        "full": full,
    }


def _claims(found: dict[int, Seeds], counts: tuple[int, ...]) -> list[Claim]:
    middle = counts.index(64) if 64 in counts else len(counts) - 1
    full, off = (np.array([each.of(name) for each in found.values()]) for name in ("full", "off"))
    errors = np.array([each.of("errors") for each in found.values()])  # (widths, seeds, counts)
    return [
        LIMITED(
            f"One full-rank head on up to {TOKENS[-1]} tokens: largest error over all widths"
        ).at_most(0.001, full.max(axis=(0, 2)).tolist()),
        FORMULA(
            "Heads of rank one: the error falls each time the number of heads is quadrupled"
        ).holds([bool((np.diff(each) < 0).all()) for each in errors.swapaxes(0, 1)]),
        PAPER(f"With {counts[middle]} heads, the error grows with the width").holds(
            [bool((np.diff(each) > 0).all()) for each in errors[..., middle].T]
        ),
        FORMULA("Heads run by segre: difference from the closed form, in standard errors").at_most(
            4, abs(off).max(axis=0).tolist()
        ),
        PAPER("Exponentially many heads of low rank are necessary").untestable(
            "this is a lower bound over all heads; random heads show only what random heads can do"
        ),
        PAPER(
            "Two layers of low rank suffice for short contexts, and trained transformers agree"
        ).untestable("only one layer with constructed heads is run here"),
    ]


def _tables(found: dict[int, Seeds], counts: tuple[int, ...], samples: int) -> tuple[Table, Table]:
    columns = [found[d].means("errors") for d in WIDTHS]
    spread = np.max([found[d].spreads("errors") for d in WIDTHS], axis=0).tolist()
    widths = [f"d = {d}" for d in WIDTHS]
    return (
        Table(
            "Error of heads of rank one with the best weights, two tokens, means over seeds",
            ("heads", *widths, "± at most"),
            [*zip(counts, *columns, spread, strict=True)],
            ("d", *(".3f",) * (len(WIDTHS) + 1)),
        ),
        Table(
            f"Error of one full-rank softmax head on {samples:,} samples, largest over seeds",
            ("tokens", *widths),
            [
                (tokens, *(max(found[d].of("full", place)) for d in WIDTHS))
                for place, tokens in enumerate(TOKENS)
            ],
            ("d", *(".1e",) * len(WIDTHS)),
        ),
    )


def _panel(found: dict[int, Seeds], counts: tuple[int, ...]) -> Panel:
    ends = (counts[0], counts[-1])
    return Panel(
        "Nearest of two points",
        "heads of rank one",
        "error with the best weights",
        (
            *(found[d].curve(f"width {d}", counts, "errors") for d in WIDTHS),
            Series("one full-rank head (below 0.001)", ends, (0.0, 0.0), "dashes", -1),
        ),
        log_x=True,
        ticks=counts,
        low=-0.03,
        high=1.0,
    )


EXPERIMENT = Experiment(
    name="rank",
    title="Finding the nearest neighbour with one full-rank head or many heads of rank one.",
    work=Work(
        "On the Benefits of Rank in Attention Layers", "Amsel, Yehudai, Bruna", 2024, "2407.16153"
    ),
    question="Can many heads of rank one replace one head of full rank?",
    run=run,
    examples=("rank -o rank.png", "rank -o more.png --full --heads 4096"),
    options=(
        Option("heads", int, 4096, "Largest number of heads of rank one.", 4, 4096),
        Option("samples", int, SAMPLES, "Number of points on which heads are run.", 100, 1_000_000),
    ),
    longer="4096 heads too",
    small={"heads": 16, "samples": 500},
)
