"""Which experiments are there? One line for each; its module is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from segre.errors import SegreError
from segre.reproduce.experiment import Experiment

# The name of an experiment, and its module in this room (or module:NAME, if that has several).
MODULES = {
    "normalized-dimension": "normalized_dimension",
    "rank-collapse": "rank_collapse",
    "path-sort": "path_effectiveness:SORTING",
    "path-hull": "path_effectiveness:HULLS",
    "path-memorize": "path_effectiveness:MEMORIZING",
    "circle": "circle",
    "path-lengths": "path_lengths",
    "icl-dynamics": "icl_dynamics",
    "induction": "induction",
    "universal": "universal",
    "rank": "rank",
    "composition": "composition",
    "convex": "convex",
    "gap": "gap",
    "smoothing": "smoothing",
    "localise": "localise",
    "gated-moe": "gated_moe",
}


def experiment(name: str) -> Experiment:
    """The experiment of a name.

    >>> experiment("gap").work.arxiv
    '2410.07799'
    """
    if name not in MODULES:
        raise SegreError(f"unknown experiment {name!r}; allowed: {', '.join(MODULES)}")
    module, _, attribute = MODULES[name].partition(":")
    found = getattr(import_module(f"segre.reproduce.{module}"), attribute or "EXPERIMENT")
    assert isinstance(found, Experiment)
    return found


def experiments() -> list[Experiment]:
    """All of them, in the order in which pages show them."""
    return [experiment(name) for name in MODULES]
