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
from functools import partial, reduce
from itertools import repeat, starmap
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
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    function.__name__: function for function in (min, max, sum, all, any, len)
}
_ALLOWED = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.USub, ast.Not),
    *(ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.Call, ast.Subscript, ast.Slice),
    *(*_ARITHMETIC, *_COMPARISONS),
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
    """The tree of a text, if the grammar allows all of it."""
    reason = f"longer than {LONGEST} characters"
    if len(text) <= LONGEST:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text.strip(), mode="eval")
            nodes = list(ast.walk(tree))
            _require_shallow(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            reason = "cannot be read"
        else:
            if len(nodes) > NODES:
                reason = f"more than {NODES} parts"
            else:
                reason = next(filter(None, map(_refused, nodes)), "")
    if reason:
        raise SweepError(f"expression {quote(text)}: {reason}; allowed: {GRAMMAR}")
    return tree


def _require_shallow(tree: ast.AST, depth: int = 0) -> None:
    if depth > DEPTH:
        raise ValueError
    for child in ast.iter_child_nodes(tree):
        _require_shallow(child, depth + 1)


def _refused(node: ast.AST) -> str:
    """Why a part of an expression is not allowed; empty if it is."""
    if not isinstance(node, _ALLOWED):
        kind = type(node).__name__
        words = {"Attribute": "a dot", "Lambda": "lambda", "Div": "/ (write //)"}
        return f"{words.get(kind, kind)} is not allowed"
    match node:
        case ast.Constant(value=bool() | str()):
            return ""
        case ast.Constant(value=int(number)):
            return f"a number has more than {BITS} bits" if number.bit_length() > BITS else ""
        case ast.Constant(value=other):
            return f"{quote(str(other))} is not a whole number"
        case ast.Name(id=name) if not name.isascii():
            return f"the name {quote(name)} is not ASCII"
        case ast.Slice(step=ast.expr()):
            return "a slice with a step is not allowed"
        case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _FUNCTIONS:
            return ""
        case ast.Call():
            return "only the functions min max sum all any len may be called"
    return ""


def _value(node: ast.expr, names: Mapping[str, Any]) -> Value:
    match node:
        case ast.Constant(value=bool() | int() | str() as constant):
            return constant
        case ast.Name(id=name):
            if names.get(name) is None:
                raise _Problem(
                    f"{name} {'has no value' if name in names else 'is not a name here'}"
                )
            found: Value = names[name]
            return found
        case ast.BinOp(left=left, op=op, right=right):
            apply = partial(_arithmetic, _ARITHMETIC[type(op)])
            return _entrywise(apply, _value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not _truth(_value(inner, names))
        case ast.UnaryOp(operand=inner):
            return _entrywise(partial(_arithmetic, operator.sub), 0, _value(inner, names))
        case ast.BoolOp(op=op, values=values):
            first = isinstance(op, ast.Or)
            return first if any(_truth(_value(v, names)) is first for v in values) else not first
        case ast.Compare(left=left, ops=ops, comparators=rest):
            sides = [_value(v, names) for v in (left, *rest)]
            results = [
                _entrywise(partial(_compare, op), *sides[i : i + 2]) for i, op in enumerate(ops)
            ]
            return reduce(partial(_entrywise, lambda x, y: _truth(x) and _truth(y)), results)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, [_value(argument, names) for argument in args])
        case ast.Subscript(value=inner, slice=index):
            return _entry(_value(inner, names), index, names)
    raise AssertionError(node)


def _entrywise(apply: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    """Values of all layers are combined layer by layer."""
    counts = {len(side) for side in (left, right) if isinstance(side, tuple)}
    if not counts:
        return apply(left, right)
    if len(counts) > 1:
        one, two = (len(side) for side in (left, right) if isinstance(side, tuple))
        raise _Problem(f"{one} values cannot be combined with {two}")
    sides = (side if isinstance(side, tuple) else repeat(side) for side in (left, right))
    return tuple(starmap(apply, zip(*sides, strict=False)))


def _number(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Problem(f"{quote(str(value))} is not a number")
    return value


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise _Problem(f"{quote(str(value))} is not true or false")
    return value


def _bounded(value: int) -> int:
    if value.bit_length() > BITS:
        raise _Problem(f"a number has more than {BITS} bits")
    return value


def _arithmetic(apply: Callable[[int, int], int], x: Value, y: Value) -> int:
    left, right = _number(x), _number(y)
    large = not 0 <= right <= EXPONENT or left.bit_length() * right > BITS + EXPONENT
    if apply is operator.pow and large:
        raise _Problem(f"the power {left} ** {right} is not allowed; exponents are 0 to {EXPONENT}")
    try:
        return _bounded(apply(left, right))
    except ZeroDivisionError:
        raise _Problem("division by zero") from None


def _compare(op: ast.cmpop, x: Value, y: Value) -> bool:
    if not isinstance(op, ast.Eq | ast.NotEq):
        _number(x), _number(y)
    elif any(isinstance(x, kind) != isinstance(y, kind) for kind in (str, bool)):
        raise _Problem(f"{quote(str(x))} and {quote(str(y))} cannot be compared")
    return _COMPARISONS[type(op)](x, y)


def _call(name: str, given: list[Value]) -> Value:
    items = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
    if not items:
        raise _Problem(f"{name}() of an empty list")
    for item in items if name != "len" else ():
        (_truth if name in {"all", "any"} else _number)(item)
    return _bounded(_FUNCTIONS[name](items))


def _entry(whole: Value, index: ast.expr, names: Mapping[str, Any]) -> Value:
    if not isinstance(whole, tuple):
        raise _Problem(f"{quote(str(whole))} has no entries: it is one value for all layers")
    if isinstance(index, ast.Slice):
        ends = (index.lower, index.upper)
        low, high = (None if end is None else _number(_value(end, names)) for end in ends)
        return whole[low:high]
    place = _number(_value(index, names))
    if not -len(whole) <= place < len(whole):
        raise _Problem(f"entry {place} of {len(whole)} values")
    return whole[place]
