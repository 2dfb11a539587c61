"""Which paths of a trained network carry what it has learned: short ones or long ones?

Three tasks of *Attention is not all you need*: sorting, convex hulls, memorising. The network is
trained as published, with dropout and with a norm after every layer, and its paths are read out as
`path_reading` says. `--network clean` is without dropout and norms, so that every path is an exact
term of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from segre.collapse.paths import path_counts
from segre.reproduce.claim import DERIVED, PAPER, RERUN, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Cell, Found, Panel, Seeds, Series, Table
from segre.reproduce.path_tasks import PLANS, SORT, Plan
from segre.reproduce.state import Kept

NEAR = 0.03  # accuracies that differ by less are called equal
NETWORKS = {  # dropout, norms after layers
    "published": (0.1, True),
    "dropout": (0.1, False),
    "clean": (0.0, False),
}
NOT_ALL = Work(
    "Attention is Not All You Need: Pure Attention Loses Rank Doubly Exponentially with Depth",
    "Dong, Cordonnier, Loukas",
    2021,
    "2103.03404",
)


def trained(plan: Plan, network: str, paths: Sequence[int], run: Run, seed: int, kept: Kept) -> Any:
    """Train the network of a plan, and read its paths."""
    from segre.reproduce.networks import PathNetwork, token_loss, train
    from segre.reproduce.path_reading import ceiling, network_accuracy, read_paths

    train_set, test_set = plan.examples(seed)
    (dropout, norms), shape = NETWORKS[network], plan.shape
    places = plan.length if shape.positions else 0
    model = PathNetwork(replace(shape, positions=places, norms=norms, dropout=dropout), seed)
    losses = train(
        *(model, train_set.inputs, train_set.labels, replace(plan.training, seed=seed)),
        loss=token_loss,
        kept=kept,
        progress=lambda stage, done, total: run.progress(f"seed {seed}: {stage}", done, total),
    )
    tested = test_set.first(plan.test)
    bounded = shape.vocabulary and not shape.positions
    return {
        **read_paths(model, tested, paths, seed, run.progress),
        "on_learned": network_accuracy(model, train_set.first(1000)),
        "majority": tested.majority(),
        "ceiling": ceiling(tested) if bounded else 1.0,
        "parameters": model.parameter_count(),
        "tested": tested.labels.size,
        "losses": losses,
    }


def run_plan(name: str, run: Run) -> Found:
    """All seeds of one task."""
    options = run.options
    plan = _meant(name, options, run.full)
    network, paths = options["network"], tuple(options["paths"])
    found = run.each_seed(
        "paths", lambda seed, kept: trained(plan, network, paths, run, seed, kept)
    )
    notes = (_trained_how(plan, network), *plan.notes)
    tables = (_summary(plan, found), _by_length(plan, found, paths))
    return Found(_claims(plan, found, paths), tables, _panels(plan, found, paths), notes)


def _meant(name: str, options: Mapping[str, Any], full: bool) -> Plan:
    plan = PLANS[name].changed(**(dict(PLANS[name].full) if full else {}))
    given = {key: options[key] for key in ("epochs", "lr", "layers", "train", "length")}
    return plan.changed(**given, d=options["width"], mlp=options["mlp"])


# --- what is made of the numbers --------------------------------------------------------------


def _claims(plan: Plan, found: Seeds, paths: Sequence[int]) -> list[Claim]:
    published, half = plan.published, plan.shape.layers // 2
    alone, up_to = found.means("isolated", 0), found.means("up_to", half)
    claims = [
        PAPER(
            f"Accuracy of the network, published as {published.full}, with a tolerance of {NEAR}"
        ).at_least(published.full - NEAR, found.of("accuracy")),
        PAPER(
            "Isolated paths lose effect with length: the best have length at most 2, and from "
            f"length {half} on two thirds of the effect is gone"
        ).holds(
            [_decays(plan, one) for one in found],
            f"{paths[0]} isolated paths have accuracies "
            f"{', '.join(f'{x:.3f}' for x in alone)} by length, and the most frequent label has "
            f"{found.means('majority'):.3f}, means over seeds",
        ),
    ]
    claims += [
        RERUN(f"Accuracy of {paths[0]} isolated paths of length {k}").near(
            value, found.of("isolated", 0, k), tolerance=0.1, by_mean=True
        )
        for k, value in enumerate(published.lengths[:4])
    ]
    claims.append(
        DERIVED(
            f"Exact sums: all paths of length up to {half} together come within {NEAR} of the "
            "network"
        ).holds(
            [one["up_to"][half] >= one["accuracy"] - NEAR for one in found],
            f"accuracy {up_to:.3f} up to length {half} and "
            f"{found.means('accuracy'):.3f} of the network, means over seeds",
        )
    )
    return claims


def _decays(plan: Plan, one: Any) -> bool:
    """Whether isolated paths are better than the most frequent label, and short ones best."""
    majority, alone = max(one["majority"], plan.published.chance), one["isolated"][0]
    best, late = int(np.argmax(alone)), max(alone[plan.shape.layers // 2 :])
    effect = alone[best] - majority
    return effect > NEAR and best <= 2 and late <= majority + NEAR + effect / 3


def _summary(plan: Plan, found: Seeds) -> Table:
    published = plan.published

    def over(name: str) -> tuple[float, float]:
        return found.means(name), found.spreads(name)

    rows: list[tuple[Cell, ...]] = [
        ("accuracy", *over("accuracy"), published.full, published.rerun),
        ("on training data", *over("on_learned"), None, None),
        ("most frequent label", *over("majority"), published.chance, None),
    ]
    if found[0]["ceiling"] < 1:
        rows.append(("highest possible", *over("ceiling"), None, None))
    title = f"{plan.title[0].upper()}{plan.title[1:]}, accuracy per token"
    return Table(title, "{} {segre:.3f} {± over seeds:.3f} {paper} {published code rerun}", rows)


def _by_length(plan: Plan, found: Seeds, paths: Sequence[int]) -> Table:
    shape, rerun = plan.shape, plan.published.lengths
    counts = path_counts([shape.heads] * shape.layers)

    def row(k: int) -> tuple[Cell, ...]:
        alone = (found.means("isolated", n, k) for n in range(count))
        whole = found.means("exact", k), found.means("up_to", k)
        return (k, counts[k], *whole, *alone, rerun[k] if k < len(rerun) else None)

    count = len(paths)
    isolated = (f"{number} isolated" for number in paths)
    return Table(
        "Accuracy by path length, means over seeds",
        ("length", "paths", "exact", "up to k", *isolated, "published code rerun"),
        [row(k) for k in range(len(counts))],
        ("d", ",d", ".3f", ".3f", *(".3f",) * count, ".2f"),
        "exact: all paths of one length, as terms of the network. up to k: all paths of length "
        "at most k, with the biases of the layers. isolated: that many random paths, each run as "
        "a separate network with one head per layer, as in the published code (five draws).",
    )


def _panels(plan: Plan, found: Seeds, paths: Sequence[int]) -> list[Panel]:
    lengths = range(plan.shape.layers + 1)
    ends = (0.0, float(plan.shape.layers))
    level, majority = found.means("accuracy"), found.means("majority")
    levels = (
        Series(f"the network: {level:.3f}", ends, (level, level), "line", -1),
        Series(f"most frequent label: {majority:.2f}", ends, (majority, majority), "dots", -1),
    )
    own = (
        found.curve("all paths of length up to k", lengths, "up_to", colour=2),
        found.curve("all paths of length k", lengths, "exact", colour=0),
    )
    other = [
        found.curve(f"{count} paths of length k", lengths, "isolated", n, colour=(1, 4, 6)[n % 3])
        for n, count in enumerate(paths)
    ]
    rerun = plan.published.lengths
    crosses = (Series("published code rerun", lengths[: len(rerun)], rerun, "crosses", 3),)
    lines = {
        "Exact sums of all paths": own,
        "Sampled paths, run as separate networks": (*other, *(crosses if rerun else ())),
    }
    axes = ("path length k", "accuracy per token")
    return [
        Panel(title, *axes, (*some, *levels), low=-0.06, high=1.06, ticks=lengths)
        for title, some in lines.items()
    ]


def _trained_how(plan: Plan, network: str) -> str:
    (dropout, norms), how = NETWORKS[network], plan.training
    kind = "AdamW" if how.decay else "Adam"
    return (
        f"Trained with {kind} {how.lr:g}, {how.epochs} epochs of {plan.train:,} sequences, "
        f"dropout {dropout:g}, {'norms' if norms else 'no norms'} after layers. Published: "
        f"{plan.published.training}, dropout 0.1, norms after layers."
    )


# --- the experiments ----------------------------------------------------------------------------

_TASKS = {"path-sort": "sort", "path-hull": "find a convex hull", "path-memorize": "memorise"}
_OPTIONS = (
    Option("epochs", int, None, "Number of epochs.", 1, 100_000),
    Option("lr", float, None, "Learning rate.", 1e-8, 1.0),
    Option("width", int, None, "Width d.", 2, 4096),
    Option("layers", int, None, "Number of layers.", 1, 64),
    Option("train", int, None, "Number of training sequences.", 1, 10**7),
    Option("length", int, None, "Tokens per sequence.", 2, 4096),
    Option(
        "mlp",
        bool,
        False,
        "Add MLPs to the layers; the published networks of this experiment have none.",
    ),
    Option(
        *("paths", int, (5, 20), "Number of isolated paths in a sum; repeatable.", 1, 10_000),
        several=True,
    ),
    Option(
        "network",
        str,
        "published",
        "published (dropout and norms), dropout (no norms) or clean (neither: every path is then "
        "an exact term).",
        allowed=tuple(NETWORKS),
    ),
)


def _experiment(name: str, *examples: str) -> Experiment:
    plan = PLANS[name]
    sizes = " and ".join(f"{key} {value:g}" for key, value in plan.full)
    return Experiment(
        name=name,
        title=f"Train a network to {_TASKS[name]}, and read it out path by path.",
        work=NOT_ALL,
        question=f"Do short paths do the work in {'learning ' * (plan is not SORT)}{plan.title}?",
        run=lambda run: run_plan(name, run),
        examples=(f"{name} -o {name[5:]}.png", *examples),
        options=_OPTIONS,
        longer=sizes,
        needs=("torch",),
        small={"width": 12, "layers": 2, "train": 24, "epochs": 2, "paths": (1,)},
        refuse=lambda options: (_meant(name, options, False), None)[1],
    )


SORTING = _experiment("path-sort", "path-sort -o clean.png --network clean")
HULLS = _experiment("path-hull", "path-hull -o published.png --full")
MEMORIZING = _experiment("path-memorize", "path-memorize -o published.png --full")
