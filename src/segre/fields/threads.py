"""How many threads BLAS should use: one, where a second costs more than it brings.

Below about a thousand columns a second thread gains nothing, and with anything else running the
two wait for each other: measured, several times slower than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

SMALL = 1500


@contextmanager
def threads_for(columns: int) -> Iterator[None]:
    """One BLAS thread inside the block if matrices have few columns; else as it was."""
    if columns > SMALL or _single():
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    """The libraries that are loaded, looked up once: that takes longer than a small rank."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _single() -> bool:
    """Whether BLAS has one thread anyway, as in the workers of a sweep; asked once."""
    found = _controller().select(user_api="blas").lib_controllers
    return all(library.num_threads == 1 for library in found)
