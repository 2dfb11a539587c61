"""Is softmax attention alone a universal approximator? The construction, and its error.

Read in the paper (its abstract): attention over anchors approximates truncated linear maps, and two
attention layers, or one and a softmax, then approximate every continuous map of sequences on a
compact domain. The paper trains; here nothing is trained. Derived here: the anchors, the factor
beta = 4 p^2 and all errors.

The head has fixed keys, the anchors a_k, with values f(a_k). A query z gives anchor k the score
beta (2 z.a_k - |a_k|^2), which is -beta |z - a_k|^2 up to a number that a softmax does not notice.
So the head says the mean of f at anchors near z. On [0, 1] the anchors are the midpoints of p equal
cells, and beta = 4 p^2; in several dimensions they are the product of such grids.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import nextafter
from typing import Any

import numpy as np

from segre.attention.mechanism import SOFTMAX
from segre.attention.pattern import pattern
from segre.fields.ball import Ball
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.network import forward
from segre.reproduce.claim import DERIVED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table
from segre.sequence.mix import mix
from segre.spec import Network

APART = 60  # how far below the anchors' scores those of input tokens are
CELLS = 64  # of a certified bound, between two anchors
Function = Callable[[Array], Array]  # points (n, D) to values (n, m)


def grid(p: int, size: int = 1) -> Array:
    """Anchors (p^size, size): midpoints of p cells of [0, 1] in every dimension.

    >>> grid(2).tolist()
    [[0.25], [0.75]]
    """
    line = (np.arange(p) + 0.5) / p
    return np.array(list(product(line, repeat=size)))


def sharpness(p: int) -> float:
    """The factor beta of the scores."""
    return 4.0 * p**2


def head(points: Array, anchors: Array, values: Array, beta: float) -> Array:
    """The head's outputs at points (n, D): means of values (anchors, m), by segre's softmax."""
    ones = np.ones((len(points), 1))
    queries = beta * np.concatenate([2 * points, -ones], axis=1)
    keys = np.concatenate([anchors, (anchors**2).sum(axis=1, keepdims=True)], axis=1)
    return mix(SOFTMAX, queries, keys, values)


def self_attention(points: Array, anchors: Array, values: Array, beta: float) -> Array:
    """The same by self-attention: one layer on a sequence of input tokens and anchor tokens.

    A token is (z, a, |a|^2, 1, s, f): inputs have z and s = 1, anchors the rest. Scores of keys
    that are inputs are far below those of all anchors near a query.
    """
    n, size = points.shape
    count, wide = values.shape
    tokens = np.zeros((n + count, 2 * size + 3 + wide))
    tokens[:n, :size], tokens[:n, 2 * size + 2] = points, 1
    tokens[n:, size : 2 * size], tokens[n:, 2 * size] = anchors, (anchors**2).sum(axis=1)
    tokens[:, 2 * size + 1], tokens[n:, 2 * size + 3 :] = 1, values
    width, a = tokens.shape[1], size + 2
    W_K, W_Q, W_V = np.zeros((a, width)), np.zeros((a, width)), np.zeros((wide, width))
    W_K[:size, size : 2 * size] = np.eye(size)
    W_K[size, 2 * size] = W_K[size + 1, 2 * size + 2] = 1
    W_Q[:size, :size] = 2 * beta * np.eye(size)
    W_Q[size, 2 * size + 1], W_Q[size + 1, 2 * size + 1] = -beta, -(APART + size)
    W_V[:, 2 * size + 3 :] = np.eye(wide)
    spec = Network.parse(f"softmax/d={width},{wide}/a={a}/t={n + count}")
    weights = np.concatenate([part.reshape(-1) for part in (W_K, W_Q, W_V)])
    return forward(Real(), spec, weights, tokens.T)[:, :n].T


def certified_error(p: int) -> tuple[float, float]:
    """Bounds of sup |F(z) - z| over [0, 1] for the head F with values a_k: proved, in balls.

    F is increasing (its derivative is 2 beta times a variance), so on a cell [u, v] the error is at
    most the larger of F(v) - u and v - F(u). It is at least |F(u) - u| at every u. The error at
    1 - z is that at z with the other sign, so that half of the interval is enough.
    """
    field, factor = Ball(96), int(sharpness(p))
    cells = -(-CELLS * p // 2)
    with field.precision():
        at = field.constant(np.arange(cells + 1)[None]) / (CELLS * p)
        anchors = field.constant(2 * np.arange(p)[:, None] + 1) / (2 * p)
        scores = factor * (2 * anchors * at - anchors * anchors)
        said = (pattern(field, SOFTMAX, scores) * anchors).sum(axis=0)
        at = at[0]
        above = [(said[i + 1] - at[i]).max(at[i + 1] - said[i]) for i in range(cells)]
        below = [abs(one - z) for one, z in zip(said, at, strict=True)]
        upper = max(float(one.upper()) for one in above)
        lower = max(float(one.abs_lower()) for one in below)
    return nextafter(lower, 0), nextafter(upper, 1)


def waves(rng: np.random.Generator, size: int, outputs: int) -> Function:
    """Random functions on [0, 1]^size that change by at most |x - y|_1: triangle waves.

    Each output is a triangle wave of slope 1 of a random combination of the coordinates, with
    coefficients from -1 to 1, one of them being 1.
    """
    directions = rng.uniform(-1, 1, (size, outputs))
    directions[rng.integers(size, size=outputs), np.arange(outputs)] = 1
    period, phase = rng.uniform(0.3, 1.5, outputs), rng.uniform(0, 1, outputs)

    def value(x: Array) -> Array:
        turn = x @ directions / period + phase
        return np.asarray(period * abs(turn - np.floor(turn + 0.5)))

    return value


COUNTS = (5, 10, 20, 40)  # anchors on a line
SIDES = (4, 8, 16)  # anchors in each of three dimensions
TOKENS = 3
FUNCTIONS = 8
POINTS = 1000


def run(given: Run) -> Found:
    """The truncated identity, proved; then random functions, measured."""
    counts = (*COUNTS, 80, 160) if given.full else COUNTS
    given.progress("proving", 0, 2)
    proved = given.unit("proved", lambda _: [certified_error(p) for p in counts])
    points = given.options["points"]
    drawn = given.each_seed("functions", lambda seed, _: _measured(seed, counts, points))
    return Found(
        _claims(counts, proved, drawn),
        _tables(counts, proved, drawn),
        (_error_panel(counts, proved, drawn), _example()),
        (
            "Functions change by at most |x - y|; in several dimensions, by at most the sum of "
            f"the distances in each coordinate. Their errors are the largest over {points} random "
            "points; those of the truncated identity are proved over all of [0, 1].",
            "The error of the truncated identity is not exactly 1/(2p): it is about 1/(2p) times "
            "1 + 2 exp(-8). The proved factor is slightly below 1.0008.",
        ),
    )


def _measured(seed: int, counts: tuple[int, ...], points: int) -> dict[str, Any]:
    """The largest errors of random functions of one variable, and of maps of sequences."""
    rng = np.random.default_rng([seed, 15956])
    line, cube = waves(rng, 1, FUNCTIONS), waves(rng, TOKENS, TOKENS)
    z, x = rng.uniform(size=(points, 1)), rng.uniform(size=(points, TOKENS))
    slopes, tokens = rng.standard_normal((4, 1)), rng.standard_normal((points, 4))
    linear = tokens @ slopes + 0.5  # a linear map of tokens of width 4, mostly outside of [0, 1]
    found: dict[str, Any] = {"line": [], "cube": [], "linear": []}
    for p in counts:
        anchors = grid(p)
        said = head(z, anchors, line(anchors), sharpness(p))
        found["line"].append(abs(said - line(z)).max())
        said = head(linear, anchors, anchors, sharpness(p))
        found["linear"].append(abs(said - linear.clip(0, 1)).max())
    for p in SIDES:
        anchors = grid(p, TOKENS)
        said = head(x, anchors, cube(anchors), sharpness(p))
        found["cube"].append(abs(said - cube(x)).max())
    anchors = grid(SIDES[0], TOKENS)
    given = (x[:20], anchors, cube(anchors), sharpness(SIDES[0]))
    found["self"] = abs(self_attention(*given) - head(*given)).max()
    return found


def _example() -> Panel:
    """One random function and three heads."""
    function = waves(np.random.default_rng(4), 1, 1)
    at = np.linspace(0, 1, 301)[:, None]
    x, curves = at[:, 0].tolist(), []
    for colour, p in enumerate((5, 10, 40)):
        said = head(at, grid(p), function(grid(p)), sharpness(p))
        curves.append(Series(f"{p} anchors", x, said[:, 0].tolist(), "line", colour))
    right = Series("the function", x, function(at)[:, 0].tolist(), "dots", -1)
    title = "One head with 5, 10 and 40 anchors"
    return Panel(title, "z", "a random function of slope 1", (*curves, right))


def _claims(counts: tuple[int, ...], proved: list[list[float]], drawn: Seeds) -> list[Claim]:
    uppers = [upper for _, upper in proved]
    linear = np.log(drawn.of("linear"))
    slopes = [float(np.polyfit(np.log(counts), one, 1)[0]) for one in linear]
    return [
        *(
            DERIVED(f"Truncated identity on {p} anchors: proved bound on the error").near(
                1 / (2 * p), [upper], tolerance=0.001 / (2 * p)
            )
            for p, upper in zip(counts, uppers, strict=True)
        ),
        DERIVED("The same for all p, times p / length of the interval").at_most(
            1, [max(p * upper for p, upper in zip(counts, uppers, strict=True))]
        ),
        DERIVED("Truncated linear maps of random tokens: largest error times p").at_most(
            1, [_worst(counts, one["linear"]) for one in drawn]
        ),
        DERIVED("The same: exponent of the error in p").near(-1, slopes, tolerance=0.02),
        DERIVED("Random functions of slope 1: largest error times p").at_most(
            1, [_worst(counts, one["line"]) for one in drawn]
        ),
        DERIVED(
            f"Random maps of sequences of {TOKENS} tokens: largest error times p / {TOKENS}"
        ).at_most(1, [_worst(SIDES, one["cube"]) / TOKENS for one in drawn]),
        DERIVED(
            "Difference between the head and one layer of self-attention with the anchors as tokens"
        ).at_most(1e-12, drawn.of("self")),
        PAPER("Every continuous map of sequences can be approximated to any precision").untestable(
            "this is a theorem about all functions; an experiment shows only some of them"
        ),
        PAPER("Trained networks find such heads").untestable(
            "the construction is not trained here"
        ),
    ]


def _worst(counts: tuple[int, ...], errors: list[float]) -> float:
    return max(p * error for p, error in zip(counts, errors, strict=True))


def _tables(counts: tuple[int, ...], proved: list[list[float]], drawn: Seeds) -> tuple[Table, ...]:
    columns = zip(
        *(counts, proved, drawn.means("linear"), drawn.means("line"), drawn.spreads("line")),
        strict=True,
    )
    cubes = zip(SIDES, drawn.means("cube"), drawn.spreads("cube"), strict=True)
    return (
        Table(
            "Largest error by number of anchors p",
            "{p:d} {1/(2p):.5f} {identity, at least:.7f} {at most:.7f} {truncated linear:.5f} "
            "{slope 1:.5f} {± over seeds:.5f}",
            [(p, 1 / (2 * p), *bounds, *rest) for p, bounds, *rest in columns],
            note="The bounds for the identity are proved; the others are measured, means over "
            "seeds.",
        ),
        Table(
            f"Maps of sequences of {TOKENS} tokens in [0, 1]: largest error",
            f"{{p:d}} {{anchors:d}} {{error:.5f}} {{± over seeds:.5f}} {{{TOKENS}/p:.5f}}",
            [(p, p**TOKENS, mean, spread, TOKENS / p) for p, mean, spread in cubes],
        ),
    )


def _error_panel(counts: tuple[int, ...], proved: list[list[float]], drawn: Seeds) -> Panel:
    ends = (min(SIDES), max(counts))
    return Panel(
        "Largest error by number of anchors",
        "anchors p in each dimension",
        "largest error",
        (
            Series("1/p", ends, [1 / p for p in ends], "dots", -1),
            Series("1/(2p)", ends, [1 / (2 * p) for p in ends], "dashes", -1),
            Series("truncated identity, proved", counts, [one for _, one in proved], colour=0),
            drawn.curve("functions of slope 1", counts, "line", colour=1),
            drawn.curve(f"sequences of {TOKENS} tokens", SIDES, "cube", colour=2),
        ),
        log_x=True,
        log_y=True,
        ticks=sorted({*SIDES, *counts} - {8, 16}),
    )


EXPERIMENT = Experiment(
    name="universal",
    title="Functions constructed from softmax attention over anchors, with their errors.",
    work=Work(
        "Universal Approximation with Softmax Attention",
        "Hu, Liu, Chen, Wu, Liu",
        2025,
        "2504.15956",
    ),
    question="Can attention alone approximate any map of sequences, and with how many anchors?",
    run=run,
    examples=("universal -o universal.png", "universal -o more.png --full"),
    options=(
        Option(
            "points", int, POINTS, "Number of points at which errors are measured.", 10, 100_000
        ),
    ),
    longer="80 and 160 anchors too",
    small={"points": 50},
)
