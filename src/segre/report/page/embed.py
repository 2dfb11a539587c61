"""How does data get into a page: as strict JSON that no parser of HTML takes for markup?"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from segre.json_data import strict_json

# Inside a script element these could end it, or open a comment; as escapes they are the same JSON.
_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def embedded(value: Any) -> str:
    r"""A value as JSON to stand inside a script element; what is not a finite number is null.

    >>> embedded({"</script>": [1, float("nan")]})
    '{"\\u003c/script\\u003e": [1, null]}'
    """
    return strict_json(value).translate(_ESCAPES)


def policy(scripts: list[str], *, styles: list[str] | None = None, connect: bool = False) -> str:
    """The content security policy of a page: nothing from elsewhere, no scripts but these.

    With `styles` no other style sheet is allowed either; with `connect` the page may ask the server
    that it came from.
    """
    looks = "'unsafe-inline'" if styles is None else _digests(styles)
    asks = "connect-src 'self'; " if connect else ""
    return (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {looks}; {asks}"
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digests(texts: list[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
