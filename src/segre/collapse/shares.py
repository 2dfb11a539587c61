"""How many paths are there of every length, and what share of all are they?

A path goes through one head of a layer or, if there is a skip, past the layer; its length is the
number of heads. With H heads in L layers there are C(L, k) H^k of length k: their shares are those
of the binomial distribution with L draws of chance H / (H + 1).

>>> path_counts([2, 2, 2])
[1, 6, 12, 8]
>>> shares = path_shares(layers=12, heads=12)  # BERT-base, GPT-2
>>> print(f"{shares[12]:.4f} {shares[11]:.4f}")
0.3827 0.3827
"""

from __future__ import annotations

from collections.abc import Sequence

from segre.models import Source, with_attention


def path_counts(heads: Sequence[int], skips: Sequence[bool] | bool = True) -> list[int]:
    """Numbers of paths of length 0, 1, ... through layers with these heads; exact."""
    every = [skips] * len(heads) if isinstance(skips, bool) else skips
    counts = [1]
    for number, skip in zip(heads, every, strict=True):
        counts = one_layer_more(counts, number, skip)
    return counts


def one_layer_more(counts: Sequence[int], heads: int, skip: bool) -> list[int]:
    """Numbers of paths by length if there is one layer more, at either end."""
    through = [0, *(heads * count for count in counts)]
    past = [*counts, 0] if skip else [0] * len(through)
    return [one + other for one, other in zip(through, past, strict=True)]


def path_shares(layers: int, heads: int) -> list[float]:
    """Shares of the paths of length 0, ..., layers, where every layer has a skip."""
    return _shares(path_counts([heads] * layers))


def shares_of(source: Source) -> list[float]:
    """The same of an architecture: a spec, a preset, a model directory.

    >>> [round(share, 4) for share in shares_of("bert-large-uncased")[-2:]]
    [0.3501, 0.2334]
    """
    return _shares(counts_of(source))


def counts_of(source: Source) -> list[int]:
    """The numbers of paths of an architecture."""
    spec = with_attention(source, "segre model paths")
    return path_counts(spec.heads_by_layer, spec.residual)


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts]
