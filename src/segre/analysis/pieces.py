"""Where are the parameters of an architecture?"""

from __future__ import annotations

from collections.abc import Mapping

from segre.analysis.part import percent
from segre.architectures import Architecture
from segre.network import tensors


def parameters_by_piece(spec: Architecture) -> dict[str, int]:
    """How many parameters each kind of tensor has; kinds without parameters are left out.

    >>> from segre.models import architecture
    >>> parameters_by_piece(architecture("llama/d=4/heads=2/ff=3/vocab=11/t=3"))
    {'embeddings': 44, 'queries and keys': 32, 'values and outputs': 32, 'MLP': 36,
     'norms': 12, 'unembedding': 44}
    """
    found = dict.fromkeys(_PIECES, 0)
    for (part, name), slot in tensors(spec).items():
        found[_piece(part, name)] += slot.size
    return {name: size for name, size in found.items() if size}


_PIECES = (
    "weights",
    "embeddings",
    "queries and keys",
    "values and outputs",
    "MLP",
    "norms",
    "biases",
    "unembedding",
)


def _piece(part: str, name: str) -> str:
    if "norm" in name or name.startswith("post"):
        return "norms"
    if part == "embed":
        return "embeddings"
    if part == "head":
        return "unembedding"
    if name in ("W", "w", "b"):  # of a polynomial network
        return "biases" if name == "b" else "weights"
    if name.startswith(("b_", "c_")):
        return "biases"
    if name in ("W_Q", "W_K", "A_Q", "A_K", "R_Q", "R_K", "sinks"):
        return "queries and keys"
    return "values and outputs" if name in ("W_V", "W_G", "W_O") else "MLP"


def where_most_are(pieces: Mapping[str, int]) -> str:
    """Where most of the parameters are.

    >>> where_most_are({"embeddings": 60, "MLP": 30, "norms": 10})
    'Embeddings and MLP together hold 90% of the parameters.'
    >>> where_most_are({"weights": 60})
    'Weights hold all of the parameters.'
    """
    total = sum(pieces.values())
    first, *rest = sorted(pieces, key=lambda name: -pieces[name])
    name = f"{first[0].upper()}{first[1:]}"
    if not rest:
        return f"{name} hold all of the parameters."
    if len(rest) == 1:
        shares = [percent(pieces[one], total) for one in (first, rest[0])]
        return f"{name}: {shares[0]} of the parameters; {rest[0]}: {shares[1]}."
    share = percent(pieces[first] + pieces[rest[0]], total)
    return f"{name} and {rest[0]} together hold {share} of the parameters."
