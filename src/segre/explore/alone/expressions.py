"""Expressions of Python as JavaScript; what Python means by them is in the scripts beside.

A construct that is not known here stops the build and is named with its place, so that a page
never contains half of a function.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

Resolve = Callable[[str], str | None]  # the JavaScript name of a global name; None: there is none
Static = Callable[[ast.expr], str | None]  # what is known before the page is opened

_RESERVED = {
    *("arguments", "await", "case", "catch", "class", "const", "debugger", "default", "delete"),
    *("do", "enum", "eval", "export", "extends", "function", "implements", "in", "instanceof"),
    *("interface", "let", "new", "package", "private", "protected", "public", "static", "super"),
    *("switch", "this", "throw", "typeof", "var", "void", "with", "yield"),
}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "$add",
    ast.Sub: "$sub",
    ast.Mult: "$mul",
    ast.FloorDiv: "$floordiv",
    ast.Mod: "$mod",
    ast.Pow: "$pow",
    ast.Div: "$div",
    ast.BitOr: "$or",
    ast.BitAnd: "$intersection",
    ast.LShift: "$shift",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "$eq({0}, {1})",
    ast.NotEq: "!$eq({0}, {1})",
    ast.Lt: "$lt({0}, {1})",
    ast.LtE: "!$lt({1}, {0})",
    ast.Gt: "$lt({1}, {0})",
    ast.GtE: "!$lt({0}, {1})",
    ast.In: "$in({0}, {1})",
    ast.NotIn: "!$in({0}, {1})",
    ast.Is: "({0} === {1})",
    ast.IsNot: "({0} !== {1})",
}


class UntranslatableError(Exception):
    """A construct that the page's JavaScript cannot express."""


class Expressions:
    """The expressions of one function: global names are resolved by whoever knows the module."""

    def __init__(self, where: str, resolve: Resolve, static: Static) -> None:
        self.where, self.resolve, self.static = where, resolve, static
        self.attributes: set[str] = set()
        self.scopes: list[set[str]] = []
        self.imported: dict[str, str] = {}

    def test(self, node: ast.expr) -> str:
        """An expression of which only the truth matters."""
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return "(" + sign.join(map(self.test, node.values)) + ")"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"!{self.test(node.operand)}"
        if isinstance(node, ast.Compare):
            return self.expression(node)
        return f"$truth({self.expression(node)})"

    def expression(self, node: ast.expr) -> str:
        """One expression."""
        known = self.static(node)
        if known is not None:
            return known
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        if found is None:
            self.stop(node, type(node).__name__)
        return str(found(node))

    def _constant(self, node: ast.Constant) -> str:
        if not isinstance(node.value, str | int | float | None):
            self.stop(node, repr(node.value))
        return plain(node.value)

    def _name(self, node: ast.Name) -> str:
        if any(node.id in scope for scope in self.scopes):
            return self.imported.get(node.id) or safe(node.id)
        found = self.resolve(node.id)
        if found is None:
            self.stop(node, f"the name {node.id}")
        return found

    def _attribute(self, node: ast.Attribute) -> str:
        self.attributes.add(node.attr)
        return f"{self.expression(node.value)}.{node.attr}"

    def _tuple(self, node: ast.Tuple | ast.List) -> str:
        return f"[{', '.join(map(self.expression, node.elts))}]"

    _list = _tuple

    def _set(self, node: ast.Set) -> str:
        return f"$set([{', '.join(map(self.expression, node.elts))}])"

    def _starred(self, node: ast.Starred) -> str:
        return f"...{self.expression(node.value)}"

    def _dict(self, node: ast.Dict) -> str:
        pairs = [
            f"...$items({self.expression(value)})"
            if key is None
            else f"[{self.expression(key)}, {self.expression(value)}]"
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return f"$dict([{', '.join(pairs)}])"

    def _binop(self, node: ast.BinOp) -> str:
        if type(node.op) not in _BINARY:
            self.stop(node, type(node.op).__name__)
        name = _BINARY[type(node.op)]
        return f"{name}({self.expression(node.left)}, {self.expression(node.right)})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"!{self.test(node.operand)}"
        if not isinstance(node.op, ast.USub):
            self.stop(node, type(node.op).__name__)
        return f"$sub(0, {self.expression(node.operand)})"

    def _boolop(self, node: ast.BoolOp) -> str:
        *first, last = map(self.expression, node.values)
        name = "$both" if isinstance(node.op, ast.And) else "$either"
        for one in reversed(first):
            last = f"{name}({one}, () => {last})"
        return last

    def _compare(self, node: ast.Compare) -> str:
        sides = [self.expression(one) for one in (node.left, *node.comparators)]
        parts = [_COMPARE[type(op)].format(sides[n], sides[n + 1]) for n, op in enumerate(node.ops)]
        return parts[0] if len(parts) == 1 else f"({' && '.join(parts)})"

    def _ifexp(self, node: ast.IfExp) -> str:
        yes, no = self.expression(node.body), self.expression(node.orelse)
        return f"({self.test(node.test)} ? {yes} : {no})"

    def _call(self, node: ast.Call) -> str:
        args = ", ".join(map(self.expression, node.args))
        kinds = isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if kinds and isinstance(node.args[1], ast.BinOp):  # list | tuple
            args = f"{self.expression(node.args[0])}, [{', '.join(self._kinds(node.args[1]))}]"
        words = ""
        if node.keywords:
            pairs = [
                f"...$items({self.expression(one.value)})"
                if one.arg is None
                else f"[{one.arg!r}, {self.expression(one.value)}]"
                for one in node.keywords
            ]
            words = f"[{', '.join(pairs)}]"
        own = self.static(node.func) is None and isinstance(node.func, ast.Attribute)
        if own and isinstance(node.func, ast.Attribute):
            self.attributes.add(node.func.attr)
            object_, name = self.expression(node.func.value), node.func.attr
            if words:
                return f"$keyed($method({object_}, {name!r}), [{args}], {words})"
            return f"$call({object_}, {', '.join(filter(None, [repr(name), args]))})"
        function = self.expression(_plain_kind(node.func))
        return f"$keyed({function}, [{args}], {words})" if words else f"{function}({args})"

    def _kinds(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.BinOp):
            yield from self._kinds(node.left)
            yield from self._kinds(node.right)
        else:
            yield self.expression(node)

    def _lambda(self, node: ast.Lambda) -> str:
        return self.function(node)

    def _subscript(self, node: ast.Subscript) -> str:
        value = self.expression(node.value)
        if not isinstance(node.slice, ast.Slice):
            return f"$at({value}, {self.expression(node.slice)})"
        ends = (node.slice.lower, node.slice.upper, node.slice.step)
        given = [self.expression(one) if one else "null" for one in ends]
        return f"$slice({value}, {', '.join(given)})"

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        return "(" + " + ".join(["''", *map(self.expression, node.values)]) + ")"

    def _formattedvalue(self, node: ast.FormattedValue) -> str:
        spec = self.expression(node.format_spec) if node.format_spec else "''"
        value = self.expression(node.value)
        quoted = f"$builtin_repr({value})" if node.conversion == ord("r") else value
        return f"$format({quoted}, {spec})"

    def _comprehended(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> str:
        # the first iterable belongs to the scope outside
        first = self.expression(node.generators[0].iter)
        self.scopes.append(
            {
                one.id
                for g in node.generators
                for one in ast.walk(g.target)
                if isinstance(one, ast.Name)
            }
        )
        loops = ""
        for n, one in enumerate(node.generators):
            values = "$first" if n == 0 else self.expression(one.iter)
            loops += f"for (const {self.pattern(one.target)} of {values}) "
            loops += "".join(f"if ({self.test(each)}) " for each in one.ifs)
        if isinstance(node, ast.DictComp):
            item = f"[{self.expression(node.key)}, {self.expression(node.value)}]"
        else:
            item = self.expression(node.elt)
        self.scopes.pop()
        return f"(function* ($first) {{ {loops}yield {item}; }})({first})"

    def _generatorexp(self, node: ast.GeneratorExp) -> str:
        return self._comprehended(node)

    def _listcomp(self, node: ast.ListComp) -> str:
        return f"[...{self._comprehended(node)}]"

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"$set({self._comprehended(node)})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        return f"$dict({self._comprehended(node)})"

    def _yield(self, node: ast.Yield) -> str:
        return f"yield {self.expression(node.value) if node.value else 'null'}"

    def _yieldfrom(self, node: ast.YieldFrom) -> str:
        return f"yield* {self.expression(node.value)}"

    def function(self, node: ast.FunctionDef | ast.Lambda, name: str = "") -> str:
        """A function or lambda."""
        raise NotImplementedError

    def pattern(self, node: ast.expr) -> str:
        """What is assigned to: a name, or several."""
        if isinstance(node, ast.Name):
            return safe(node.id)
        if isinstance(node, ast.Starred):
            return f"...{self.pattern(node.value)}"
        if not isinstance(node, ast.Tuple | ast.List):
            self.stop(node, "such a target")
        return f"[{', '.join(map(self.pattern, node.elts))}]"

    def stop(self, node: ast.AST, what: str) -> NoReturn:
        """Nothing is translated if anything cannot be."""
        line = getattr(node, "lineno", "?")
        raise UntranslatableError(f"{self.where}:{line}: {what} cannot be translated for the page")


def plain(value: Any) -> str:
    """A number, a string, a truth value or None."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and abs(value) > 2**53 - 1:
        return f"{value}n"
    if isinstance(value, float):
        return f"$float({value!r})"
    return json.dumps(value)


def safe(name: str) -> str:
    """A name that is none of JavaScript's own words."""
    return f"{name}$" if name in _RESERVED else name


def _plain_kind(node: ast.expr) -> ast.expr:
    """`dict` of dict[str, int], where it is called."""
    kinds = ("dict", "list", "set", "tuple")
    generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    return node.value if generic and node.value.id in kinds else node  # type: ignore[attr-defined]
