"""Attention on long sequences, in floating point: how is it computed, and what does it cost?"""

from segre.sequence.cost import Cost, Sizes, choose, cost, crossover, methods, state_size
from segre.sequence.mix import feed, mix
from segre.sequence.mixing import Mixing
from segre.sequence.running import State

__all__ = [
    "Cost",
    "Mixing",
    "Sizes",
    "State",
    "choose",
    "cost",
    "crossover",
    "feed",
    "methods",
    "mix",
    "state_size",
]
