"""Functions of checkpoints: they open what they are given, and refuse what floats cannot hold.

Finite weights can be so large that their products overflow; this gives a one-line error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

import numpy as np

from segre.checkpoint.model import Model
from segre.errors import CheckpointError
from segre.models import Source, called

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


@contextmanager
def within_float64(*models: Source) -> Iterator[None]:
    """Refuse what floats cannot hold, in a computation on some models."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            yield
    except (FloatingPointError, OverflowError, np.linalg.LinAlgError) as error:
        names = " or ".join(repr(called(name)) for name in models)
        what = "products of weights overflow float64; the file may be damaged"
        if "overflow" not in str(error):
            what = f"with these weights this has no value in float64 ({error})"
        raise CheckpointError(f"checkpoint {names}: {what}") from None


def on_models(count: int) -> Callable[[Callable[_Given, _Found]], Callable[_Given, _Found]]:
    """Decorator for functions whose first arguments are models, which are open for the call."""

    def opener(command: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
        plain: Callable[..., _Found] = command
        first = [*signature(command).parameters.values()][:count]
        names = [one.name for one in first if one.kind is one.POSITIONAL_OR_KEYWORD]

        @wraps(command)
        def on_opened(*given: _Given.args, **options: _Given.kwargs) -> _Found:
            named = {name: options[name] for name in names if name in options}
            models = [*given[:count], *named.values()]
            with within_float64(*models), ExitStack() as stack:
                opened = [stack.enter_context(Model.open(model)) for model in models]
                rest = dict(zip(named, opened[len(given) :], strict=True)) if named else {}
                return plain(*opened[: len(given)], *given[count:], **(options | rest))

        return on_opened

    return opener
