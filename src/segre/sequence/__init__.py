"""Attention on long sequences, in floating point: how is it computed, and what does it cost?"""

from segre.sequence.choice import Cost, Sizes, choose, crossover, method_cost, state_size
from segre.sequence.forms import methods
from segre.sequence.mix import feed, mix
from segre.sequence.rows import Recent
from segre.sequence.running import State

__all__ = [
    "Cost",
    "Recent",
    "Sizes",
    "State",
    "choose",
    "crossover",
    "feed",
    "method_cost",
    "methods",
    "mix",
    "state_size",
]
