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


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods, properties and constants of a class itself, by name."""
    fields = (
        {one.name for one in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else ()
    )
    for key, member in vars(kind).items():
        hidden = key.startswith("__") and key not in SPECIAL
        generated = key == "__init__" and dataclasses.is_dataclass(kind)
        if not hidden and not generated and key not in fields and not key.startswith("_abc_"):
            yield key, member
