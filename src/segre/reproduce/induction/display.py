"""How are information, losses and trained weights shown? Tables and panels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from segre.reproduce.found import Panel, Seeds, Series, Table
from segre.reproduce.induction.chains import lag_sets
from segre.reproduce.induction.model import sets

SYMBOLS, ALPHA, WINDOW = 3, 0.1, 4
PARENTS = ((1, 3), (2,), (1, 2))
EVERY = sets(WINDOW)
RIGHT = EVERY.index(tuple(lag - 1 for lag in PARENTS[0]))  # the heads of the parents
KINDS = {"chain": "from the chain", "uniform": "uniform"}  # how the last context is drawn
CONTEXTS = {"chain": "context from the chain", "uniform": "uniform context"}


def named(lags: tuple[int, ...]) -> str:
    """A set of lags in words."""
    return ", ".join(map(str, lags))


def losses_table(found: Mapping[str, Seeds], seeds: tuple[int, ...]) -> Table:
    """The losses of every training."""
    rows = [
        (
            *(said, seed, one["oracle"], one["loss"], one["unigram"]),
            *(one["selected"][RIGHT], one["sharpness"], one["pseudo-count"]),
        )
        for kind, said in KINDS.items()
        for seed, one in zip(seeds, found[kind], strict=True)
    ]
    return Table(
        "Cross-entropy of the next token, by how its context is drawn",
        (
            *("context", "seed", "oracle", "model", "unigram"),
            *(f"share of {named(PARENTS[0])}", "sharpness", "pseudo-count"),
        ),
        rows,
        ("", "d", ".4f", ".4f", ".4f", ".3f", ".2f", ".2f"),
        "The pseudo-count is what the empty token adds to the counts of full matches; the oracle "
        f"adds {SYMBOLS * ALPHA:g}.",
    )


def information_table(known: Seeds) -> Table:
    """Both kinds of information, for every set of lags."""

    rows = [
        (named(lags), *(value for p in PARENTS for value in known.means(named(p), named(lags))))
        for lags in lag_sets(WINDOW)
    ]
    columns = [f"{{{named(p)}}} {which}" for p in PARENTS for which in ("plain", "modified")]
    return Table(
        "Information of sets of lags, for chains with three sets of parents, means over seeds",
        ("lags", *columns),
        rows,
        ("", *(".4f",) * (2 * len(PARENTS))),
    )


def panels(found: Mapping[str, Seeds]) -> tuple[Panel, ...]:
    """Losses and shares by step, and what heads copy at the end."""
    at = tuple(look[0] for look in found["chain"][0]["looks"])
    ends, lags = (at[0], at[-1]), range(1, WINDOW + 1)
    curves = []
    for colour, (kind, said) in enumerate(KINDS.items()):
        for n, one in enumerate(found[kind]):
            above = [look[1] - one["oracle, first"] for look in one["looks"]]
            curves.append(Series(CONTEXTS[kind] * (not n), at, above, "line", colour))
        level = float(np.mean([one["unigram"] - one["oracle"] for one in found[kind]]))
        curves.append(Series(f"unigram, {said}", ends, (level, level), "dots", colour))
    models = Seeds(one for kind in KINDS for one in found[kind])
    mean = np.mean([[look[2] for look in looks] for looks in models.of("looks")], axis=0)
    shares = [
        Series("all other sets" * (not place), at, mean[:, place].tolist(), "line", -1)
        for place in range(len(EVERY))
        if place != RIGHT
    ]
    right = Series(f"{{{named(PARENTS[0])}}}", at, mean[:, RIGHT].tolist(), "line", 0)
    heads = [
        Series(f"head {h + 1}", lags, models.means("copied", h), colour=h) for h in range(WINDOW)
    ]
    return (
        Panel("Loss on new sequences", "step", "nats above the oracle", curves),
        Panel(
            *("Selector: share of each set of heads", "step", "share"),
            (*shares, right),
            low=0,
            high=1.05,
        ),
        Panel("Copier after training", "lag", "weight", tuple(heads), ticks=lags, low=0, high=1.05),
    )
