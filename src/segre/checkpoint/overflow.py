"""Finite weights can be so large that their products overflow; this gives a one-line error."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from segre.errors import CheckpointError
from segre.models import called

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def within_float64(
    models: int,
) -> Callable[[Callable[_Given, _Found]], Callable[_Given, _Found]]:
    """Decorator for functions whose first arguments are models: refuse what floats cannot hold."""

    def guard(command: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
        @wraps(command)
        def guarded(*given: _Given.args, **options: _Given.kwargs) -> _Found:
            try:
                with np.errstate(over="raise", invalid="raise"):
                    return command(*given, **options)
            except (FloatingPointError, OverflowError, np.linalg.LinAlgError) as error:
                names = " or ".join(repr(called(name)) for name in given[:models])
                what = "products of weights overflow float64; the file may be damaged"
                if "overflow" not in str(error):
                    what = f"with these weights this has no value in float64 ({error})"
                raise CheckpointError(f"checkpoint {names}: {what}") from None

        return guarded

    return guard
