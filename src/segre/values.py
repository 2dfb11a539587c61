"""Values of a spec as users write them: read and checked, with one-line errors."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import floor, isfinite
from pathlib import Path
from typing import Any

from segre.errors import SpecError
from segre.files import is_standard_input, read_given

LARGEST = 10**9
LONGEST_FILE = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{0,30}|/[0-9]{1,30})?(e[+-]?[0-9]{1,2})?", re.ASCII)
_DIVIDER = re.compile(r"(?<![0-9])/|/(?![0-9])", re.ASCII)  # not within a fraction
_KEY = re.compile(r"[a-z_]+")
LONGEST_NUMBER = 300  # digits; more are no size of anything, and no float


def refused(key: str, value: Any, allowed: str) -> SpecError:
    """The error about a value that a key may not have."""
    return SpecError(f"{key}: {quote(str(value))} is not allowed; allowed: {allowed}")


def whole(key: str, value: Any, largest: int = LARGEST, smallest: int = 1) -> int:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise refused(key, value, f"whole numbers {smallest} to {largest}")
    return value


def optional(key: str, value: Any) -> int | None:
    """A whole number, or none."""
    return None if value is None or value == "none" else whole(key, value)


def flag(key: str, value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise refused(key, value, "true, false")
    return value


def choice(key: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """One of the allowed values."""
    if value not in allowed:
        raise refused(key, value, ", ".join(allowed))
    return value


def fraction(key: str, value: Any) -> Fraction:
    """A number that is not negative, exactly: 0, 1e-5, 0.00001, 1/100000."""
    try:
        text = repr(value) if isinstance(value, float) else str(value)
        # no large exponents: 1e999999999 is a number too, of a gigabyte
        if isinstance(value, bool) or not _NUMBER.fullmatch(text):
            raise ValueError
        number = Fraction(text)
        if not 0 <= number < 10**12 or number.denominator > 10**30:
            raise ValueError
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise refused(key, value, "numbers that are not negative, for example 0 or 1e-5") from None
    return number


def number(key: str, value: Any, smallest: int = 0) -> int | Fraction:
    """A number in a range, exactly; whole ones are integers."""
    found = fraction(key, value)
    if not smallest <= found <= LARGEST:
        raise refused(key, value, f"numbers {smallest} to {LARGEST}")
    return found.numerator if found.denominator == 1 else found


def require_keys(
    given: Mapping[str, Any], keys: Iterable[str], version: int, elsewhere: str = ""
) -> None:
    """Refuse keys beside `version`, `kind` and these, and versions that are not known.

    `elsewhere` says where keys of other kinds of specs belong.
    """
    allowed = ("version", "kind", *keys)
    for key in given:
        if key not in allowed:
            raise SpecError(f"unknown key {quote(str(key))}; allowed: {', '.join(keys)}{elsewhere}")
    if given.get("version", version) != version:
        raise SpecError(f"version {quote(str(given['version']))} is not known; allowed: {version}")


def read_inline(text: str, keys: Iterable[str]) -> dict[str, Any]:
    """The keys and values of kind/key=value/key=value/...; numbers may be fractions.

    >>> read_inline("lightning/d=2,2/decay=9/10/t=3", [])["decay"]
    '9/10'
    """
    kind, *parts = _DIVIDER.split(text)
    given: dict[str, Any] = {"kind": kind}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key or not value:
            raise SpecError(
                f"spec {quote(text)}: {quote(part)} is not key=value; allowed keys: "
                f"{', '.join(keys)}"
            )
        if key in given:
            raise SpecError(f"spec {quote(text)}: {key} is given twice; allowed: each key once")
        items = value.split(",")
        for item in items:
            if _KEY.fullmatch(item.partition("=")[0]) and "=" in item:
                raise SpecError(
                    f"spec {quote(text)}: {key}: {quote(item)} is not a value; write a slash "
                    f"before it if it is another key, as in {key}={items[0]}/{item}"
                )
        values = [literal(item) for item in items]
        given[key] = values[0] if len(values) == 1 else values
    return given


# What papers and other libraries call the keys of a spec.
LONG_NAMES = {
    "d_model": "d",
    "n_layers": "layers",
    "n_heads": "heads",
    "n_kv_heads": "kv",
    "d_head": "head",
    "d_ff": "ff",
}


def short_names(given: Mapping[str, Any], **own: str) -> dict[str, Any]:
    """The same keys under the names that specs use; `own` are those of one kind.

    >>> short_names({"kind": "llama", "d_model": 8, "n_heads": 4, "kv": 2})
    {'kind': 'llama', 'd': 8, 'heads': 4, 'kv': 2}
    """
    out: dict[str, Any] = {}
    for key, value in given.items():
        short = {**LONG_NAMES, **own}.get(key, key)
        if short in out or (short != key and short in given):
            raise SpecError(f"{key} and {short} are the same key; give only one of them")
        out[short] = value
    return out


def literal(text: str) -> Any:
    """What an inline value is: a number, true or false, or a word."""
    if text in {"true", "false"}:
        return text == "true"
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return int(text)
    return text


def read_file(path: Path, what: str = "spec") -> dict[str, Any]:
    """The keys and values of a .toml or .json file, or of `-`; `what` names it in errors."""
    name = f"{what} {quote(str(path))}"
    try:
        data = read_given(path, LONGEST_FILE)
    except OSError as error:
        raise SpecError(f"{name}: {error.strerror or error}") from None
    ending = path.suffix
    if is_standard_input(path):
        ending = ".json" if data.lstrip()[:1] == b"{" else ".toml"
    try:
        text = data.decode()
        given = tomllib.loads(text) if ending == ".toml" else json.loads(text)
        long = longest_number(given)
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"{name}: not a {ending[1:].upper()} document ({parse_failure(error)})"
        ) from None
    if not isinstance(given, dict):
        raise SpecError(f"{name} is not a table of keys and values")
    if long > LONGEST_NUMBER:
        raise SpecError(f"{name}: a number has more than {LONGEST_NUMBER} digits")
    return given


def parse_failure(error: Exception) -> str:
    """Why a document cannot be read, in the words of its parser where they are clear."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if "set_int_max_str_digits" in str(error):
        return f"a number has more than {sys.get_int_max_str_digits()} digits"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def longest_number(document: Any) -> int:
    """About how many digits the longest whole number of a document has."""
    longest, level = 0, [document]
    while level:
        value = level.pop()
        if isinstance(value, dict):
            level += value.values()
        elif isinstance(value, list):
            level += value
        elif isinstance(value, int):
            longest = max(longest, value.bit_length() * 3 // 10)
    return longest


def show(value: Any) -> str:
    """A value as it is written inline."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def quote(text: str) -> str:
    """User input as errors quote it, shortened if it is long."""
    return repr(text if len(text) <= 120 else text[:117] + "...")


def listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> listed(["skips"]), listed(["skips", "MLPs", "norms"])
    ('skips', 'skips, MLPs and norms')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def from_logarithm(log: float) -> str:
    """A positive number by its decimal logarithm, however small it is.

    >>> from_logarithm(-0.3), from_logarithm(-3.2), from_logarithm(-812.4), from_logarithm(-5.001)
    ('0.5', '0.00063', '4.0e-813', '1.0e-5')
    """
    if log > -4 or not isfinite(log):
        return f"{10**log:.2g}"
    whole = floor(log)
    digits = f"{10 ** (log - whole):.1f}"
    return f"1.0e{whole + 1}" if digits == "10.0" else f"{digits}e{whole}"


def counted(number: int, what: str) -> str:
    """How many there are of something.

    >>> counted(1, "input"), counted(1200, "token")
    ('1 input', '1,200 tokens')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"
