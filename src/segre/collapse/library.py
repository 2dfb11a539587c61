"""torch and transformers: imported when a model is run, not before, and kept quiet."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from segre.checkpoint.quiet import quiet
from segre.errors import UnsupportedError

__all__ = ["libraries", "quiet", "reason"]


def libraries() -> tuple[Any, Any]:
    """torch and transformers, which take seconds to import and may not be installed."""
    try:
        with quiet():
            return import_module("torch"), import_module("transformers")
    except ImportError as error:
        missing = error.name or str(error)
        raise UnsupportedError(f"running a model needs {missing}; install segre[models]") from None


def reason(error: Exception) -> str:
    """What a library says of an error, on one line that is not too long."""
    return " ".join(str(error).split())[:200] or type(error).__name__
