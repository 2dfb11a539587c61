"""The language of claims and constraints; expressions are parsed and never executed.

Whole numbers, names, + - * // % **, comparisons, and, or, not, indexing and slicing of what a
network has one of per layer, and min, max, sum, all, any, len. Arithmetic and comparisons go
through such tuples entry by entry. Text, nesting and numbers are bounded, so reading one and
working it out takes a moment whatever it says.

>>> Expression("l*a*(2*d-a) + d*d").value({"l": 2, "a": 2, "d": 10})
172
>>> Expression("all(a <= d[:-1])").value({"a": (2, 1), "d": (3, 1, 4)})
True
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from segre.errors import SweepError
from segre.values import quote

Value = bool | int | str | tuple["Value", ...]

LONGEST = 1000  # characters
NODES = 250
DEPTH = 60
BITS = 256  # of any number on the way
EXPONENT = 64

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "min": min,
    "max": max,
    "sum": sum,
    "all": all,
    "any": any,
    "len": len,
}
_ALLOWED = (
    ast.Expression,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.UnaryOp,
    ast.USub,
    ast.Not,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Compare,
    ast.Call,
    ast.Subscript,
    ast.Slice,
    *_ARITHMETIC,
    *_COMPARISONS,
)
GRAMMAR = (
    "whole numbers, names, + - * // % **, comparisons, and or not, [], min max sum all any len"
)


class Expression:
    """A parsed expression of the allowed grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree = _read(text)
        called = {id(n.func) for n in ast.walk(self._tree) if isinstance(n, ast.Call)}
        named = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name)]
        self.names = frozenset(n.id for n in named if id(n) not in called)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def equal_to(self, name: str) -> Expression | None:
        """The other side, if the expression is an equation for the name."""
        said = self._tree.body
        if not isinstance(said, ast.Compare) or [type(op) for op in said.ops] != [ast.Eq]:
            return None
        sides = (said.left, said.comparators[0])
        for side, other in (sides, sides[::-1]):
            if isinstance(side, ast.Name) and side.id == name:
                return Expression(ast.unparse(other))
        return None

    def value(self, names: Mapping[str, Any]) -> Value:
        """Its value, given the values of its names."""
        try:
            return _value(self._tree.body, names)
        except _Problem as problem:
            raise SweepError(f"expression {quote(self.text)}: {problem}") from None

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is true; anything but true or false is an error."""
        value = self.value(names)
        if not isinstance(value, bool):
            raise SweepError(
                f"expression {quote(self.text)} is {quote(str(value))}, not true or false; write a "
                "comparison (for values per layer, inside all() or any())"
            )
        return value


class _Problem(Exception):  # noqa: N818
    """Why an expression has no value."""


def _read(text: str) -> ast.Expression:
    def refuse(reason: str) -> SweepError:
        return SweepError(f"expression {quote(text)}: {reason}; allowed: {GRAMMAR}")

    if len(text) > LONGEST:
        raise refuse(f"longer than {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval")
        nodes = list(ast.walk(tree))
        _require_shallow(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise refuse("cannot be read") from None
    if len(nodes) > NODES:
        raise refuse(f"more than {NODES} parts")
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise refuse(f"{_word(node)} is not allowed")
        if isinstance(node, ast.Constant):
            _require_constant(node.value, refuse)
        if isinstance(node, ast.Name) and not node.id.isascii():
            raise refuse(f"the name {quote(node.id)} is not ASCII")
        if isinstance(node, ast.Slice) and node.step is not None:
            raise refuse("a slice with a step is not allowed")
        if isinstance(node, ast.Call) and not _known_call(node):
            raise refuse("only the functions min max sum all any len may be called")
    return tree


def _require_shallow(tree: ast.AST, depth: int = 0) -> None:
    if depth > DEPTH:
        raise ValueError
    for child in ast.iter_child_nodes(tree):
        _require_shallow(child, depth + 1)


def _require_constant(value: object, refuse: Callable[[str], SweepError]) -> None:
    if isinstance(value, bool | str):
        return
    if not isinstance(value, int):
        raise refuse(f"{quote(str(value))} is not a whole number")
    if value.bit_length() > BITS:
        raise refuse(f"a number has more than {BITS} bits")


def _known_call(node: ast.Call) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return name in FUNCTIONS and not node.keywords and len(node.args) >= 1


def _word(node: ast.AST) -> str:
    return {"Attribute": "a dot", "Lambda": "lambda", "Div": "/ (write //)"}.get(
        type(node).__name__, type(node).__name__
    )


def _value(node: ast.expr, names: Mapping[str, Any]) -> Value:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, bool | int | str)
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise _Problem(f"{node.id} is not a name here")
        if names[node.id] is None:
            raise _Problem(f"{node.id} has no value")
        found: Value = names[node.id]
        return found
    if isinstance(node, ast.BinOp):
        apply = _ARITHMETIC[type(node.op)]
        return _entrywise(
            lambda x, y: _arithmetic(apply, x, y),
            _value(node.left, names),
            _value(node.right, names),
        )
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, names)
        if isinstance(node.op, ast.Not):
            return not _truth(inner)
        return _entrywise(lambda x, y: _arithmetic(operator.sub, x, y), 0, inner)
    if isinstance(node, ast.BoolOp):
        first = isinstance(node.op, ast.Or)
        return first if any(_truth(_value(v, names)) is first for v in node.values) else not first
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    if isinstance(node, ast.Call):
        return _call(node, names)
    assert isinstance(node, ast.Subscript)
    return _entry(node, names)


def _entrywise(apply: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    if not isinstance(left, tuple) and not isinstance(right, tuple):
        return apply(left, right)
    count = len(left) if isinstance(left, tuple) else len(right) if isinstance(right, tuple) else 0
    one = left if isinstance(left, tuple) else (left,) * count
    two = right if isinstance(right, tuple) else (right,) * count
    if len(one) != len(two):
        raise _Problem(f"{len(one)} values cannot be combined with {len(two)}")
    return tuple(apply(x, y) for x, y in zip(one, two, strict=True))


def _number(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Problem(f"{quote(str(value))} is not a number")
    return value


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise _Problem(f"{quote(str(value))} is not true or false")
    return value


def _arithmetic(apply: Callable[[int, int], int], x: Value, y: Value) -> int:
    left, right = _number(x), _number(y)
    if apply is operator.pow and (
        not 0 <= right <= EXPONENT or left.bit_length() * right > BITS + EXPONENT
    ):
        raise _Problem(f"the power {left} ** {right} is not allowed; exponents are 0 to {EXPONENT}")
    try:
        result = apply(left, right)
    except ZeroDivisionError:
        raise _Problem("division by zero") from None
    if result.bit_length() > BITS:
        raise _Problem(f"a number has more than {BITS} bits")
    return result


def _comparison(node: ast.Compare, names: Mapping[str, Any]) -> Value:
    values = [_value(v, names) for v in (node.left, *node.comparators)]
    results = [
        _entrywise(partial(_compare, op), values[i], values[i + 1]) for i, op in enumerate(node.ops)
    ]
    found = results[0]
    for result in results[1:]:
        found = _entrywise(lambda x, y: _truth(x) and _truth(y), found, result)
    return found


def _compare(op: ast.cmpop, x: Value, y: Value) -> bool:
    if isinstance(op, ast.Eq | ast.NotEq):
        if isinstance(x, str) != isinstance(y, str) or isinstance(x, bool) != isinstance(y, bool):
            raise _Problem(f"{quote(str(x))} and {quote(str(y))} cannot be compared")
    else:
        _number(x), _number(y)
    return _COMPARISONS[type(op)](x, y)


def _call(node: ast.Call, names: Mapping[str, Any]) -> Value:
    assert isinstance(node.func, ast.Name)
    given = [_value(argument, names) for argument in node.args]
    items = given[0] if len(given) == 1 and isinstance(given[0], tuple) else tuple(given)
    name = node.func.id
    if not items:
        raise _Problem(f"{name}() of an empty list")
    for item in items:
        if name in {"all", "any"}:
            _truth(item)
        elif name != "len":
            _number(item)
    value: Value = FUNCTIONS[name](items)
    if isinstance(value, int) and value.bit_length() > BITS:
        raise _Problem(f"a number has more than {BITS} bits")
    return value


def _entry(node: ast.Subscript, names: Mapping[str, Any]) -> Value:
    whole = _value(node.value, names)
    if not isinstance(whole, tuple):
        raise _Problem(f"{quote(str(whole))} has no entries: it is one value for all layers")
    if isinstance(node.slice, ast.Slice):
        ends = (node.slice.lower, node.slice.upper)
        low, high = (None if end is None else _number(_value(end, names)) for end in ends)
        return whole[low:high]
    index = _number(_value(node.slice, names))
    if not -len(whole) <= index < len(whole):
        raise _Problem(f"entry {index} of {len(whole)} values")
    return whole[index]
