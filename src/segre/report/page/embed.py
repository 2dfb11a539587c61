"""How does data get into a page: as strict JSON that no parser of HTML takes for markup?"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

# Inside a script element these could end it, or open a comment; as escapes they are the same JSON.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def embedded(value: Any) -> str:
    r"""A value as JSON to stand inside a script element; what is not a finite number is null.

    >>> embedded({"</script>": [1, float("nan")]})
    '{"\\u003c/script\\u003e": [1, null]}'
    """
    return strict_json(value).translate(_ESCAPES)


def strict_json(value: Any) -> str:
    """A value as JSON that every parser reads.

    >>> strict_json((0.5, float("inf"), {"é": True}))
    '[0.5, null, {"é": true}]'
    """
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def policy(scripts: list[str]) -> str:
    """The content security policy of a page: nothing from elsewhere, no scripts but these."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    sources = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _plain(value: Any) -> Any:
    """The same value from what JSON has; arrays of NumPy are known by their `tolist`."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(_key(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise TypeError(f"a {type(value).__name__} has no place in JSON")


def _key(key: Any) -> Any:
    return json.dumps(key) if key is None or isinstance(key, bool) else key
