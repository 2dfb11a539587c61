"""How does a value look on a page: integers with separators, four digits of a float, words?"""

from __future__ import annotations

import json
import math
import re

from segre.report.blocks import Cell

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_THIN = "\N{THIN SPACE}"
MINUS = "\N{MINUS SIGN}"
_DIGITS = 4


def shown(cell: Cell) -> str:
    """The text of a value; an empty one is an en dash.

    >>> [shown(value) for value in (8030261248, 0.25, 1234.56, True, None)]
    ['8,030,261,248', '0.25', '1,235', 'yes', '–']
    """
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}".replace("-", MINUS)
    if isinstance(cell, float):
        return _float(cell).replace("-", MINUS)
    return str(cell)


def raw(cell: Cell) -> str:
    """A value in full, as scripts read it.

    >>> [raw(value) for value in (8030261248, 0.1, True, None, float("inf"))]
    ['8030261248', '0.1', 'true', '', 'Infinity']
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    return json.dumps(cell)  # floats that are not finite, too, by their names in JavaScript


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> [duration(seconds) for seconds in (0.004, 0.42, 12.3, 125)]
    ['under 0.01 s', '0.42 s', '12.3 s', '2 min 5 s']
    """
    if seconds < 0.01:
        return "under 0.01 s"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def size(count: int) -> str:
    """A number of bytes in the unit that suits it.

    >>> [size(count) for count in (312, 20_480, 3_500_000)]
    ['312 bytes', '20.5 kB', '3.5 MB']
    """
    if count < 1000:
        return f"{count} bytes"
    number, unit = (count / 1000, "kB") if count < 999_500 else (count / 1_000_000, "MB")
    return f"{number:.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"


def slug(text: str, longest: int = 80) -> str:
    """Small letters, digits and hyphens: fit for an id or the name of a file.

    >>> slug("llama/d=8/layers=2")
    'llama-d-8-layers-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:longest].strip("-") or "report"


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    magnitude = abs(value)
    if magnitude and not 1e-3 <= magnitude < 1e6:
        digits, exponent = f"{value:.{_DIGITS - 1}e}".split("e")
        if "." in digits:
            digits = digits.rstrip("0").rstrip(".")
        power = str(int(exponent)).translate(_SUPERSCRIPTS)
        return f"{digits}{_THIN}×{_THIN}10{power}"
    if magnitude >= 1000:  # every digit before the point is shown
        return f"{value:,.0f}"
    return f"{value:.{_DIGITS}g}"
