"""Docstrings as pages: doctests in them become code blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences every doctest of a docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each object."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = _DOCTEST.sub(lambda m: f"```python\n{m[0]}\n```", text)
