"""All measures, in the order in which they are shown. A new one is a function and an entry here."""

from __future__ import annotations

from segre.inspect.measures.heads import (
    alike,
    contraction,
    distance,
    entropy,
    gap,
    pattern_rank,
    query_mean,
    query_scale,
    silent,
    sinks,
    writes,
)
from segre.inspect.measures.streams import cosine, effective_rank, gradient, spikes, stable_rank

MEASURES = (
    *(gradient, writes, alike, query_mean, query_scale, sinks, cosine, contraction, stable_rank),
    *(effective_rank, gap, pattern_rank, spikes, entropy, distance, silent),
)
