"""What are objects of Python called in the script, and which of them does it have already?"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

# What the scripts beside have, by module and name; builtins have their own names.
_OWN = {
    **{f"itertools.{name}": f"$itertools_{name}" for name in ("accumulate", "combinations")},
    **{f"itertools.{name}": f"$itertools_{name}" for name in ("pairwise", "product")},
    **{f"dataclasses.{name}": f"$dataclasses_{name}" for name in ("replace", "asdict")},
    **{f"math.{name}": f"$math_{name}" for name in ("prod", "comb")},
    "collections.abc.Mapping": "$builtin_dict",
    "fractions.Fraction": "$Fraction",
    "collections.Counter": "$Counter",
    "typing.get_args": "$get_args",
    "json.dumps": "$json_dumps",
}
_OF_TUPLES = ("_fields", "_field_defaults", "_make", "_replace", "_asdict")
SPECIAL = ("__init__", "__post_init__", "__str__", "__bool__", "__len__")


def own_name(found: Any) -> str:
    """What the scripts call it; empty if they do not have it."""
    if found is dataclasses.MISSING:
        return "$MISSING"
    name = getattr(found, "__name__", "")
    if getattr(builtins, name, None) is found:
        return f"$builtin_{name}"
    return _OWN.get(f"{getattr(found, '__module__', '')}.{name}", "")


def called(found: Any) -> str:
    """A name for it, by its module or its type."""
    if not hasattr(found, "__name__"):
        return f"_{type(found).__name__.lower()}"
    module = (getattr(found, "__module__", "") or "").rpartition(".")[2]
    return re.sub(r"\W", "_", f"{module}_{found.__name__}")


def is_cached_value(found: Any) -> bool:
    """Whether it is a cached function without arguments: its value is written down."""
    cached = hasattr(found, "__wrapped__") and hasattr(found, "cache_info")
    return cached and not inspect.signature(found).parameters


def is_record(kind: type) -> bool:
    """Whether it is a dataclass or a named tuple."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def fields_of(kind: type) -> dict[str, Any]:
    """The fields of a record with their defaults; MISSING where there is none."""
    if dataclasses.is_dataclass(kind):
        return {one.name: one.default for one in dataclasses.fields(kind)}
    defaults = getattr(kind, "_field_defaults", {})
    return {name: defaults.get(name, dataclasses.MISSING) for name in getattr(kind, "_fields", ())}


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods, properties and constants of a class itself, by name."""
    fields = fields_of(kind)
    for key, member in vars(kind).items():
        hidden = key.startswith("__") and key not in SPECIAL
        generated = is_record(kind) and (key == "__init__" or key in _OF_TUPLES)
        if not hidden and not generated and key not in fields and not key.startswith("_abc_"):
            yield key, member
