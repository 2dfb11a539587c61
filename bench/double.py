"""The transformers library in double precision, whatever it asks for inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Double(TorchFunctionMode):
    """Inside, what asks for float32 gets float64.

    The library computes norms, rotations, patterns and affinities in float32, whatever the type of
    the weights; that would hide all errors below 1e-7.
    """

    def __enter__(self) -> Double:
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.set_default_dtype(self._before)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.float:
            func = Tensor.double
        named = {key: _wide(value) for key, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
