"""Everything that some functions of segre need, as JavaScript: what they call, and constants.

Starting from the functions that the page calls, every name is looked up where Python finds it. A
function of segre is translated, a class with the methods that are used by name, and any other value
is written down as it is. Nothing is translated that is not reached.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, get_args, get_origin

from segre.explore.alone.expressions import UntranslatableError, plain
from segre.explore.alone.names import (
    SPECIAL,
    called,
    fields_of,
    is_cached_value,
    is_record,
    members,
    own_name,
)
from segre.explore.alone.source import computes, source
from segre.explore.alone.translate import Translation


class Reached:
    """The definitions that some functions need, in an order in which they can be read."""

    def __init__(self, left_out: tuple[Any, ...] = (), same: tuple[Any, ...] = ()) -> None:
        """What is `left_out` the page never calls, and what is the `same` returns its argument."""
        self.left_out = {id(one): one for one in left_out}
        self._names: dict[int, str] = {id(one): "$same" for one in same}
        self._kept: list[Any] = []  # so that no id is used twice
        self._taken: set[str] = set()
        self._functions: list[str] = []
        self._constants: list[str] = []
        self._classes: dict[str, type] = {}
        self._methods: dict[tuple[str, str], str] = {}
        self._attributes: set[str] = set(SPECIAL)
        self._waiting: list[Callable[[], None]] = []
        self._homes: tuple[str, ...] = ("segre",)

    def code(self, roots: Mapping[str, Callable[..., Any]]) -> str:
        """All of it, as one script that ends with the roots by name."""
        self._homes = ("segre", *(root.__module__ for root in roots.values()))
        given = {name: self.name_of(root) for name, root in roots.items()}
        while self._step():
            pass
        made = [self._class(name, kind) for name, kind in self._classes.items()]
        ends = [f"const {name} = {own};" for name, own in given.items()]
        return "\n".join([*self._functions, *made, *self._in_order(), *ends]) + "\n"

    def _in_order(self) -> list[str]:
        """Constants; last those that call methods when they are made, and what contains them."""
        later = {name for name, kind in self._classes.items() if hasattr(kind, "__post_init__")}
        first, last = [], []
        for line in self._constants:
            name, _, made = line.removeprefix("const ").partition(" = ")
            if later & set(re.findall(r"[\w$]+", made)):
                later.add(name)
                last.append(line)
            else:
                first.append(line)
        return [*first, *last]

    def _step(self) -> bool:
        """Translate what is waiting, and methods whose names have come up; False if nothing is."""
        if self._waiting:
            self._waiting.pop()()
            return True
        for name, kind in list(self._classes.items()):
            for key, member in members(kind):
                if computes(member):
                    continue
                if key in self._attributes and (name, key) not in self._methods:
                    self._methods[name, key] = self._member(key, member)
                    return True
        return False

    # ---- names ------------------------------------------------------------------------------

    def name_of(self, found: Any) -> str:
        """The JavaScript name of an object, or what is written in its place."""
        if found is None or isinstance(found, bool | int | str | float):
            return plain(found)
        if id(found) in self._names:
            return self._names[id(found)]
        own = own_name(found)
        if own:
            return own
        home = getattr(found, "__module__", None) or "segre"
        if callable(found) and get_origin(found) is None and not home.startswith(self._homes):
            raise UntranslatableError(f"{home}.{found.__name__} is not a function of segre")
        name = self._fresh(called(found))
        self._names[id(found)] = name
        self._kept.append(found)
        if id(found) in self.left_out and not inspect.isclass(found):
            self._functions.append(f"const {name} = $missing({called(found)!r});")
        elif inspect.isclass(found):
            self._add_class(name, found)
        elif is_cached_value(found):
            self._constants.append(f"const {name} = () => {self.name_of(found())};")
        elif hasattr(found, "registry") and hasattr(found, "dispatch"):
            self._waiting.append(lambda: self._dispatched(name, found))
        elif callable(getattr(found, "__wrapped__", None)):
            inner = self.name_of(found.__wrapped__)
            self._functions.append(f"const {name} = $memo({inner});")
        elif isinstance(found, FunctionType):
            self._waiting.append(lambda: self._function(name, found))
        else:
            self._constants.append(f"const {name} = {self._written(found)};")
        return name

    def _fresh(self, wanted: str) -> str:
        name, n = wanted, 1
        while name in self._taken:
            name, n = f"{wanted}_{n}", n + 1
        self._taken.add(name)
        return name

    # ---- functions --------------------------------------------------------------------------

    def _function(self, name: str, found: FunctionType) -> None:
        if id(found) in self.left_out:
            self._functions.append(f"const {name} = $missing({called(found)!r});")
            return
        self._functions.append(self._translated(found, name))

    def _translated(self, found: FunctionType, name: str = "") -> str:
        node = source(found)
        closed = inspect.getclosurevars(found).nonlocals if found.__closure__ else {}
        where = f"{found.__module__}.{found.__qualname__}"

        def resolve(wanted: str) -> str | None:
            if ":" in wanted:
                module, _, one = wanted.partition(":")
                return self.name_of(getattr(importlib.import_module(module), one))
            if wanted in closed:
                return self.name_of(closed[wanted])
            if wanted in found.__globals__:
                return self.name_of(found.__globals__[wanted])
            if hasattr(builtins, wanted):
                return f"$builtin_{wanted}"
            return None

        def static(node: ast.expr) -> str | None:
            """An attribute of a module, such as `tables.of_traits`."""
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
                return None
            base = found.__globals__.get(node.value.id)
            shadowed = any(node.value.id in scope for scope in translation.scopes)
            if shadowed or not isinstance(base, ModuleType):
                return None
            return self.name_of(getattr(base, node.attr))

        translation = Translation(where, resolve, static)
        try:
            code = translation.function(node, name)
        except UntranslatableError as error:
            raise UntranslatableError(f"{where}: {error}") from None
        self._attributes |= translation.attributes
        return code

    def _dispatched(self, name: str, found: Any) -> None:
        kinds = [
            (kind, one)
            for kind, one in found.registry.items()
            if kind is not object and id(one) not in self.left_out
        ]
        pairs = ", ".join(f"[{self.name_of(k)}, {self.name_of(f)}]" for k, f in kinds)
        self._constants.append(f"const {name} = $dispatch([{pairs}]);")

    # ---- classes ----------------------------------------------------------------------------

    def _add_class(self, name: str, kind: type) -> None:
        for base in kind.__mro__[1:]:
            if base.__module__.startswith("segre") and not getattr(base, "_is_protocol", False):
                self.name_of(base)
        self._classes[name] = kind
        for default in fields_of(kind).values():
            self.name_of(default)

    def _class(self, name: str, kind: type) -> str:
        bases = [
            self._names[id(base)]
            for base in kind.__mro__[1:]
            if id(base) in self._names and self._names[id(base)] in self._classes
        ]
        base = bases[0] if bases else "$Exception" if issubclass(kind, Exception) else "$Object"
        fields = ", ".join(self._field(kind, *one) for one in fields_of(kind).items())
        given = f"[{fields}]" if is_record(kind) else "null"
        members = [code for (own, _), code in self._methods.items() if own == name]
        if issubclass(kind, tuple):
            members.append("[Symbol.iterator]: ['method', $entries]")
        inside = ",\n".join(members)
        return f"const {name} = $class({kind.__name__!r}, {base}, {given}, {{\n{inside}\n}});"

    def _field(self, kind: type, name: str, default: Any) -> str:
        factory = getattr(kind, "__dataclass_fields__", {}).get(name)
        if factory is not None and factory.default_factory is not dataclasses.MISSING:
            return f"[{name!r}, () => {self.name_of(factory.default_factory)}()]"
        if default is dataclasses.MISSING:
            return f"[{name!r}]"
        return f"[{name!r}, () => {self.name_of(default)}]"

    def _member(self, key: str, member: Any) -> str:
        if id(getattr(member, "__func__", member)) in self.left_out:
            how = "get" if isinstance(member, property) else "value"
            return f"{key}: [{how!r}, $missing({key!r})]"
        if isinstance(member, property):
            assert isinstance(member.fget, FunctionType)
            return f"{key}: ['get', {self._translated(member.fget)}]"
        if isinstance(member, cached_property):
            return f"{key}: ['cached', {self._translated(member.func)}]"  # type: ignore[arg-type]
        if isinstance(member, classmethod):
            return f"{key}: ['class', {self._translated(member.__func__)}]"  # type: ignore[arg-type]
        if isinstance(member, staticmethod):
            return f"{key}: ['static', {self._translated(member.__func__)}]"  # type: ignore[arg-type]
        if isinstance(member, FunctionType):
            return f"{key}: ['method', {self._translated(member)}]"
        return f"{key}: ['value', {self.name_of(member)}]"

    # ---- values -----------------------------------------------------------------------------

    def _written(self, value: Any) -> str:
        if get_origin(value) is not None and get_args(value):  # Literal[...]
            return f"[{', '.join(map(self.name_of, get_args(value)))}]"
        if is_record(type(value)):
            pairs = (
                f"[{name!r}, {self.name_of(getattr(value, name))}]"
                for name, usual in fields_of(type(value)).items()
                if usual is dataclasses.MISSING or getattr(value, name) != usual
            )
            return f"$keyed({self.name_of(type(value))}, [], [{', '.join(pairs)}])"
        if isinstance(value, tuple | list):
            return f"[{', '.join(map(self.name_of, value))}]"
        if isinstance(value, frozenset | set):
            return f"$set([{', '.join(map(self.name_of, sorted(value, key=repr)))}])"
        if isinstance(value, dict | MappingProxyType):
            pairs = (f"[{self.name_of(k)}, {self.name_of(v)}]" for k, v in value.items())
            return f"$dict([{', '.join(pairs)}])"
        if isinstance(value, range):
            return f"$builtin_range({value.start}, {value.stop}, {value.step})"
        if isinstance(value, Fraction):
            return f"$Fraction({value.numerator}, {value.denominator})"
        if isinstance(value, re.Pattern):
            return f"$pattern({json.dumps(value.pattern)})"
        if isinstance(value, MethodType):
            self._attributes.add(value.__func__.__name__)
            return f"$bound({self.name_of(value.__self__)}, {value.__func__.__name__!r})"
        raise UntranslatableError(
            f"a constant of type {type(value).__name__} cannot be translated: {value!r:.80}"
        )
