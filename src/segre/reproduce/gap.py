"""Is random attention nearly of rank one in width, and does removing its outlier help in depth?

*Mind the Gap* models attention at initialisation as a random Markov matrix: independent positive
entries, rows divided by their sums. One singular value is about 1, all others are of the order
1/sqrt(n): the gap. Its remedy subtracts 1/n from every weight.

With entries of mean 1 and variance s^2, to leading order in n

    s_2 sqrt(n) -> 2 s,   |lambda_2| sqrt(n) -> s,   stable rank -> 1 + s^2,
    stable rank without the outlier -> n / 4

which is random matrix theory (the quarter-circle and circular laws), evaluated here at s = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from segre.fields.interface import Array
from segre.reproduce.claim import DERIVED, FORMULA, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Panel, Seeds, Series, Table

WIDTHS = (125, 250, 500, 1000)
DRAWS = 5
DEPTH = 6
TOKENS = 200  # in the stacks; also their width


def lognormal(rng: np.random.Generator, n: int) -> Array:
    """Entries of mean 1 and variance 1."""
    return rng.lognormal(-np.log(2) / 2, np.log(2) ** 0.5, (n, n))


def key_query(rng: np.random.Generator, n: int) -> Array:
    """Exponentials of scores of n orthonormal tokens, with Gaussian keys and queries."""
    keys, queries = rng.standard_normal((2, n, n)) / n**0.5
    return np.asarray(np.exp(queries @ keys.T * n**0.5))


ENTRIES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "log-normal": lognormal,
    "exponential": lambda rng, n: rng.exponential(size=(n, n)),  # the same mean and variance
    "key-query": key_query,
}


def markov(entries: Array) -> Array:
    """Rows divided by their sums."""
    return np.asarray(entries / entries.sum(axis=1, keepdims=True))


def stable_rank(A: Array) -> float:
    """The squared Frobenius norm over the squared spectral norm.

    >>> stable_rank(np.eye(3))
    3.0
    """
    return float((A**2).sum() / np.linalg.norm(A, 2) ** 2)


def spectrum(kind: str, n: int, seed: int) -> dict[str, float]:
    """The medians over a few random matrices: rarely, one large entry is an outlier of its own."""
    rng = np.random.default_rng([seed, n, list(ENTRIES).index(kind)])
    several = [_spectrum(markov(ENTRIES[kind](rng, n))) for _ in range(DRAWS)]
    return {name: float(np.median([one[name] for one in several])) for name in several[0]}


def _spectrum(A: Array) -> dict[str, float]:
    n = len(A)
    s = np.linalg.svd(A, compute_uv=False)
    sizes = np.sort(abs(np.linalg.eigvals(A)))
    root = n**0.5
    return {
        "s1": float(s[0]),
        "s2": float(s[1] * root),
        "lambda2": float(sizes[-2] * root),
        "rank": float((s**2).sum() / s[0] ** 2),
        "removed": stable_rank(A - 1 / n) / n,
    }


def depths(seed: int, n: int, layers: int) -> dict[str, list[float]]:
    """Stable rank of the tokens after each layer X -> A X W, with and without the outlier."""
    rng = np.random.default_rng([seed, 5])
    plain = removed = rng.standard_normal((n, n))
    tokens = [(plain, removed)]
    for _ in range(layers):
        A = markov(lognormal(rng, n))
        W = rng.standard_normal((n, n)) / n**0.5
        plain, removed = A @ plain @ W, (A - 1 / n) @ removed @ W
        plain, removed = plain / np.linalg.norm(plain), removed / np.linalg.norm(removed)
        tokens.append((plain, removed))
    ranks = np.array([[stable_rank(X) for X in pair] for pair in tokens]).T.tolist()
    return dict(zip(("plain", "removed"), ranks, strict=True))


def run(given: Run) -> Found:
    """Spectra for every width, then stacks."""
    most = min(given.options["widest"], 2000 if given.full else WIDTHS[-1])
    widths = [n for n in (*WIDTHS, 2000) if n <= most]
    spectra = given.each_seed(
        "spectra",
        lambda seed, _: {
            kind: {str(n): spectrum(kind, n, seed) for n in widths} for kind in ENTRIES
        },
    )
    stacks = given.each_seed("depth", lambda seed, _: depths(seed, TOKENS, DEPTH))
    ranks = {"plain": stacks.means("plain"), "outlier removed": stacks.means("removed")}
    names = ("s1", "s2", "lambda2", "rank", "removed")
    rows = [
        (kind, n, *(spectra.means(kind, str(n), name) for name in names))
        for kind in ENTRIES
        for n in widths
    ]
    tables = (
        Table(
            "Spectra of random attention, means over seeds",
            "{entries} {n:d} {s1:.4f} {s2 sqrt(n):.3f} {|lambda2| sqrt(n):.3f} {stable rank:.3f} "
            "{without outlier / n:.3f}",
            rows,
            note="key-query: attention of n orthonormal tokens with Gaussian weights. Its entries "
            "are not independent, so the limits of the other two do not apply to it. without "
            "outlier: the stable rank.",
        ),
        Table(
            f"Stable rank of {TOKENS} tokens of width {TOKENS} after each layer, means over seeds",
            ("attention", *(str(layer) for layer in range(DEPTH + 1))),
            [(name, *values) for name, values in ranks.items()],
            ("", *(".2f",) * (DEPTH + 1)),
        ),
    )
    seconds = {kind: [s2 / n**0.5 for one, n, _, s2, *_ in rows if one == kind] for kind in ENTRIES}
    limit = Series("2 / sqrt(n)", widths, [2 / n**0.5 for n in widths], "dashes", -1)
    curves = [Series(kind, widths, values) for kind, values in seconds.items()]
    by_depth = [Series(name, range(DEPTH + 1), values) for name, values in ranks.items()]
    panels = (
        Panel(
            *("Second singular value", "n", "s2", (*curves, limit)),
            log_x=True,
            log_y=True,
            ticks=widths,
        ),
        Panel("Stable rank of the tokens by depth", "layer", "stable rank", by_depth, log_y=True),
    )
    notes = (
        "Exponents are slopes over four widths. Log-normal entries have heavy tails, so that a "
        "slope varies over seeds by about as much as its tolerance.",
        "The limits at variance 1 come from random matrix theory, not from the paper. The stable "
        "rank is that of X; the published code takes that of X X'.",
    )
    return Found(_claims(spectra, stacks, widths), tables, panels, notes)


def _claims(spectra: Seeds, stacks: Seeds, widths: list[int]) -> list[Claim]:
    last, (first, other, third) = str(widths[-1]), ENTRIES

    def at(kind: str, name: str) -> list[float]:
        return spectra.of(kind, last, name)

    def slope(kind: str) -> list[float]:
        seconds = np.array([spectra.of(kind, str(n), "s2") for n in widths]).T / np.sqrt(widths)
        return [float(np.polyfit(np.log(widths), one, 1)[0]) for one in np.log(seconds)]

    s1, s2, rank = "Largest singular value", "Second singular value", "Stable rank"
    plain, removed = stacks.of("plain"), stacks.of("removed")
    return [
        PAPER(f"{s1}, n = {last}").near(1, at(first, "s1"), tolerance=0.01),
        PAPER(f"{s2}: exponent in n").near(-0.5, slope(first), tolerance=0.03),
        PAPER("The same for key-query attention").near(-0.5, slope(third), tolerance=0.05),
        FORMULA(f"s2 sqrt(n), {first}, n = {last}").near(2, at(first, "s2"), tolerance=0.1),
        FORMULA(f"s2 sqrt(n), {other}, n = {last}").near(2, at(other, "s2"), tolerance=0.1),
        FORMULA(f"|lambda2| sqrt(n), n = {last}").near(1, at(first, "lambda2"), tolerance=0.1),
        FORMULA(f"{rank}, n = {last}").near(2, at(first, "rank"), tolerance=0.05),
        FORMULA(f"{rank} / n without the outlier, n = {last}").near(
            0.25, at(first, "removed"), tolerance=0.02
        ),
        LIMITED(f"{rank} of tokens after two plain layers").at_most(1.05, stacks.of("plain", 2)),
        LIMITED(f"{rank} after one layer: outlier removed / plain").at_least(
            5, [b[1] / a[1] for a, b in zip(plain, removed, strict=True)]
        ),
        DERIVED(
            "Removing the outlier slows the loss of rank with depth but does not stop it"
        ).holds([one[1] > one[3] > one[DEPTH] > 2 for one in removed]),
        PAPER("Removing the outlier helps to train transformers").untestable(
            "this needs training runs of the paper's size"
        ),
    ]


EXPERIMENT = Experiment(
    name="gap",
    title="Spectra of random Markov attention, and rank by depth with and without the outlier.",
    work=Work(
        "Mind the Gap: a Spectral Analysis of Rank Collapse and Signal Propagation in "
        "Attention Layers",
        "Nait Saada, Naderi, Tanner",
        2024,
        "2410.07799",
    ),
    question="Is wide random attention nearly of rank one, and does removing its outlier help?",
    run=run,
    examples=("gap -o gap.png", "gap -o wide.svg --full --widest 2000"),
    options=(Option("widest", int, 2000, "Largest number of tokens.", 125, 2000),),
    longer="n = 2000 too",
    small={"widest": 250},
)
