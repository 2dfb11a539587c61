"""A model in double precision for a while, in all of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from segre.collapse.library import libraries
from segre.collapse.models import Loaded


@contextmanager
def in_double(loaded: Loaded) -> Iterator[None]:
    """Inside, weights are float64, and so is what the library would compute in float32.

    Whatever the type of the weights, it has patterns, norms and rotations in float32; patterns
    would then have rows that sum to one up to 1e-7 only. Afterwards the weights are float32
    again, bit by bit as they were.
    """
    torch, _ = libraries()

    def wide(value: Any) -> Any:
        return torch.float64 if value is torch.float32 else value

    mode: Any = torch.overrides.TorchFunctionMode

    class Double(mode):  # type: ignore[misc]
        def __torch_function__(
            self,
            function: Callable[..., Any],
            _types: Any,
            args: tuple[Any, ...] = (),
            named: Mapping[str, Any] | None = None,
        ) -> Any:
            if function is torch.Tensor.float:
                function = torch.Tensor.double
            return function(*map(wide, args), **{k: wide(v) for k, v in (named or {}).items()})

    loaded.model.double()
    try:
        with Double():
            yield
    finally:
        loaded.model.float()
