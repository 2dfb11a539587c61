"""Names of activations in the transformers library, and of MLPs in specs."""

from __future__ import annotations

from collections.abc import Mapping

# gelu_fast has the root of 2/pi to ten digits.
_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "gelu_fast")
UNITS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(_TANH, "gelu-tanh"),
    "quick_gelu": "gelu-quick",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "relu2",
}
# The same, for MLPs with a gate.
GATES = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_python": "geglu",
    **dict.fromkeys(_TANH, "geglu-tanh"),
    "quick_gelu": "geglu-quick",
    "relu": "reglu",
    "linear": "bilinear",
}


def activation(names: Mapping[str, str], mlp: str) -> str:
    """The library's name of an activation; unknown names are passed on, and fail when read back.

    >>> activation(GATES, "swiglu")
    'silu'
    """
    return next((name for name, ours in names.items() if ours == mlp), next(iter(names)))
