"""Functions of segre as JavaScript: statement by statement, with Python's meaning kept by python.js.

A construct that is not known here stops the build and is named with its place, so that a page
never contains half of a function. Annotations, assertions and docstrings are left out.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from typing import Any

from segre.errors import SegreError

Resolve = Callable[[str], str | None]  # the JavaScript name of a global name; None if it is a local
Static = Callable[[ast.expr], str | None]  # what is known before the page is opened

_RESERVED = frozenset(
    "arguments await case catch class const debugger default delete do enum eval export extends "
    "function implements in instanceof interface let new package private protected public static "
    "super switch this throw typeof var void with yield".split()
)
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

class UntranslatableError(SegreError):
    """A construct that the page's JavaScript cannot express."""


class Translation:
    """The code of one function: its global names are resolved by whoever knows the module."""

    def __init__(self, where: str, resolve: Resolve, static: Static) -> None:
        self.where, self.resolve, self.static = where, resolve, static
        self.attributes: set[str] = set()
        self.scopes: list[set[str]] = []
        self.imported: dict[str, str] = {}

    def function(self, node: ast.FunctionDef | ast.Lambda, name: str = "") -> str:
        """A function or lambda; keywords find their places by `$params`."""
        args = node.args
        names = [one.arg for one in (*args.posonlyargs, *args.args)]
        inner = {*names, *(one.arg for one in args.kwonlyargs)}
        if args.vararg:
            inner.add(args.vararg.arg)
        if args.kwarg:
            inner.add(args.kwarg.arg)
        body = node.body if isinstance(node.body, list) else [ast.Return(node.body)]
        assigned = set(_assigned(body)) - inner
        self.scopes.append(inner | assigned)
        defaults = [None] * (len(names) - len(args.defaults)) + list(args.defaults)
        given = [self._parameter(n, d) for n, d in zip(names, defaults, strict=True)]
        if args.vararg:
            given.append(f"...{_safe(args.vararg.arg)}")
        only = [
            self._parameter(one.arg, default)
            for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]
        rest = args.kwarg.arg if args.kwarg else ""
        if args.vararg and (only or rest):
            self._stop(node, "keywords after *arguments")
        given += only + ([f"{_safe(rest)} = $dict([])"] if rest else [])
        lines = [f"let {', '.join(map(_safe, sorted(assigned)))};"] if assigned else []
        lines += [self.statement(one) for one in body]
        self.scopes.pop()
        star = "*" if _yields(body) else ""
        params = [*names, *(one.arg for one in args.kwonlyargs)]
        code = f"function{star} {name}({', '.join(given)}) {{\n" + "\n".join(lines) + "\n}"
        return f"$def({code}, {params!r}, {rest!r})" if not name else code + f"\n$def({name}, {params!r}, {rest!r});"

    def _parameter(self, name: str, default: ast.expr | None) -> str:
        return _safe(name) if default is None else f"{_safe(name)} = {self.expression(default)}"

    # ---- statements -------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> str:
        """One statement."""
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        if found is None:
            self._stop(node, type(node).__name__)
        return str(found(node))

    def _block(self, body: list[ast.stmt]) -> str:
        return "{ " + "\n".join(map(self.statement, body)) + " }"

    def _pass(self, _: ast.Pass) -> str:
        return ""

    _assert = _pass

    def _continue(self, _: ast.Continue) -> str:
        return "continue;"

    def _break(self, _: ast.Break) -> str:
        return "break;"

    def _importfrom(self, node: ast.ImportFrom) -> str:
        for one in node.names:
            found = self.resolve(f"{node.module}:{one.name}")
            if found is None:
                self._stop(node, f"import of {one.name}")
            self.imported[one.asname or one.name] = str(found)
        return ""

    def _functiondef(self, node: ast.FunctionDef) -> str:
        return f"{_safe(node.name)} = {self.function(node)};"

    def _expr(self, node: ast.Expr) -> str:
        if isinstance(node.value, ast.Constant):
            return ""  # a docstring
        return f"{self.expression(node.value)};"

    def _return(self, node: ast.Return) -> str:
        return f"return {self.expression(node.value) if node.value else 'null'};"

    def _assign(self, node: ast.Assign) -> str:
        value = self.expression(node.value)
        if len(node.targets) == 1:
            return f"{self._target(node.targets[0], value)};"
        set_ = [self._target(one, "$same") for one in node.targets]
        return f"{{ const $same = {value}; {'; '.join(set_)}; }}"

    def _annassign(self, node: ast.AnnAssign) -> str:
        return f"{self._target(node.target, self.expression(node.value))};" if node.value else ""

    def _augassign(self, node: ast.AugAssign) -> str:
        left = ast.BinOp(_loaded(node.target), node.op, node.value, lineno=node.lineno)
        return f"{self._target(node.target, self.expression(left))};"

    def _target(self, node: ast.expr, value: str) -> str:
        if isinstance(node, ast.Subscript):
            return f"$put({self.expression(node.value)}, {self.expression(node.slice)}, {value})"
        if isinstance(node, ast.Attribute):
            return f"{self.expression(node.value)}.{node.attr} = {value}"
        if isinstance(node, ast.Tuple | ast.List):
            stars = [n for n, one in enumerate(node.elts) if isinstance(one, ast.Starred)]
            if stars and stars[0] < len(node.elts) - 1:
                value = f"$unpacked({value}, {stars[0]}, {len(node.elts) - 1 - stars[0]})"
                own = [one.value if isinstance(one, ast.Starred) else one for one in node.elts]
                return f"[{', '.join(map(self._pattern, own))}] = {value}"
            return f"{self._pattern(node)} = {value}"
        return f"{self._pattern(node)} = {value}"

    def _pattern(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return _safe(node.id)
        if isinstance(node, ast.Starred):
            return f"...{self._pattern(node.value)}"
        if isinstance(node, ast.Tuple | ast.List):
            return f"[{', '.join(map(self._pattern, node.elts))}]"
        return self._stop(node, "such a target")

    def _if(self, node: ast.If) -> str:
        other = f" else {self._block(node.orelse)}" if node.orelse else ""
        return f"if ({self.test(node.test)}) {self._block(node.body)}{other}"

    def _for(self, node: ast.For) -> str:
        if node.orelse:
            self._stop(node, "for with else")
        pattern, values = self._pattern(node.target), self.expression(node.iter)
        return f"for ({pattern} of {values}) {self._block(node.body)}"

    def _while(self, node: ast.While) -> str:
        return f"while ({self.test(node.test)}) {self._block(node.body)}"

    def _raise(self, node: ast.Raise) -> str:
        return f"throw $raised({self.expression(node.exc)});" if node.exc else "throw $error;"

    def _try(self, node: ast.Try) -> str:
        if node.finalbody or node.orelse:
            self._stop(node, "try with else or finally")
        code = f"try {self._block(node.body)} catch ($error) {{\n"
        for one in node.handlers:
            kinds = self.expression(one.type) if one.type else "$Exception"
            named = f"{_safe(one.name)} = $error; " if one.name else ""
            code += f"if ($isinstance($error, {kinds})) {{ {named}{self._block(one.body)} }} else "
        return code + "throw $error;\n}"

    # ---- expressions ------------------------------------------------------------------------

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
            self._stop(node, type(node).__name__)
        return str(found(node))

    def _constant(self, node: ast.Constant) -> str:
        if not isinstance(node.value, str | int | float | None):
            self._stop(node, repr(node.value))
        return plain(node.value)

    def _name(self, node: ast.Name) -> str:
        if any(node.id in scope for scope in self.scopes):
            return self.imported.get(node.id) or _safe(node.id)
        found = self.resolve(node.id)
        return found if found is not None else self._stop(node, f"the name {node.id}")

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
            self._stop(node, type(node.op).__name__)
        name = _BINARY[type(node.op)]
        return f"{name}({self.expression(node.left)}, {self.expression(node.right)})"

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"!{self.test(node.operand)}"
        if not isinstance(node.op, ast.USub):
            self._stop(node, type(node.op).__name__)
        return f"$sub(0, {self.expression(node.operand)})"

    def _boolop(self, node: ast.BoolOp) -> str:
        *first, last = map(self.expression, node.values)
        name = "$both" if isinstance(node.op, ast.And) else "$either"
        for one in reversed(first):
            last = f"{name}({one}, () => {last})"
        return last

    def _compare(self, node: ast.Compare) -> str:
        sides = [self.expression(one) for one in (node.left, *node.comparators)]
        parts = [
            _COMPARE[type(op)].format(sides[n], sides[n + 1]) for n, op in enumerate(node.ops)
        ]
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
        return f"$format({self.expression(node.value)}, {spec})"

    def _comprehended(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> str:
        # the first iterable belongs to the scope outside
        first = self.expression(node.generators[0].iter)
        self.scopes.append(
            {one.id for g in node.generators for one in ast.walk(g.target) if isinstance(one, ast.Name)}
        )
        loops = ""
        for n, one in enumerate(node.generators):
            values = "$first" if n == 0 else self.expression(one.iter)
            loops += f"for (const {self._pattern(one.target)} of {values}) "
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

    def _stop(self, node: ast.AST, what: str) -> str:
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


def _safe(name: str) -> str:
    return f"{name}$" if name in _RESERVED else name


def _plain_kind(node: ast.expr) -> ast.expr:
    """`dict` of dict[str, int], where it is called."""
    kinds = ("dict", "list", "set", "tuple")
    generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    return node.value if generic and node.value.id in kinds else node  # type: ignore[attr-defined]


def _loaded(node: ast.expr) -> ast.expr:
    found = ast.parse(ast.unparse(node), mode="eval").body
    return ast.copy_location(found, node)


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a body that belong to its own scope."""
    for node in body:
        yield node
        inner = (ast.FunctionDef, ast.Lambda)
        nested = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
        if not isinstance(node, inner + nested):
            yield from _own(list(ast.iter_child_nodes(node)))  # type: ignore[arg-type]


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for node in _own(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(body))
