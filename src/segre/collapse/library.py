"""torch and transformers: imported when a model is run, not before, and kept quiet."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from typing import Any

from segre.errors import UnsupportedError


def libraries() -> tuple[Any, Any]:
    """torch and transformers, which take seconds to import and may not be installed."""
    try:
        with quiet():
            return import_module("torch"), import_module("transformers")
    except ImportError as error:
        missing = error.name or str(error)
        raise UnsupportedError(f"running a model needs {missing}; install segre[models]") from None


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, no warnings, no log of libraries; afterwards all is as before."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(level)


def reason(error: Exception) -> str:
    """What a library says of an error, on one line that is not too long."""
    return " ".join(str(error).split())[:200] or type(error).__name__
