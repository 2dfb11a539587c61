"""Docstrings as pages: doctests in them become code blocks, and lists lists."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
from blocks import separate_lists

_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Changes every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each object."""
        if obj.docstring:
            text = separate_lists(obj.docstring.value)
            obj.docstring.value = _DOCTEST.sub(lambda m: f"```python\n{m[0]}\n```", text)
