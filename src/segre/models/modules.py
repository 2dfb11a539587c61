"""x"""
from __future__ import annotations
from typing import Any
def module_config(source: Any) -> dict[str, Any] | None:
    return None
