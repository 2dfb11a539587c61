"""The syntax of a function of segre, without what computes with weights."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from types import FunctionType
from typing import Any

from segre.errors import SegreError

_OF_WEIGHTS = {"ModularWeights", "FloatWeights", "Weights", "Array"}


def source(found: FunctionType) -> ast.FunctionDef | ast.Lambda:
    """The syntax of a function; of lambdas on one line, the one whose code it is."""
    try:
        node = _syntax(found)
    except OSError:
        raise SegreError(
            f"the source of {found.__module__} is not installed, and the static page is made of "
            "it; install segre from a wheel or a checkout"
        ) from None
    _without_builders(node)
    return node


def _syntax(found: FunctionType) -> ast.FunctionDef | ast.Lambda:
    text = textwrap.dedent(inspect.getsource(found))
    if found.__name__ != "<lambda>":
        node = ast.parse(text).body[0]
        assert isinstance(node, ast.FunctionDef)
        return node
    module = ast.parse(inspect.getsource(sys.modules[found.__module__]))
    places = [p for p in found.__code__.co_positions() if p[0] is not None and p[2] is not None]
    line, _, column, _ = max(places, key=lambda p: (p[0], p[2]))
    inside = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Lambda)
        and (node.lineno, node.col_offset) <= (line, column)
        and (line, column) <= (node.end_lineno, node.end_col_offset)
    ]
    return min(
        inside,
        key=lambda n: ((n.end_lineno or 0) - n.lineno, (n.end_col_offset or 0) - n.col_offset),
    )


def computes(found: object) -> bool:
    """Whether a method computes with weights, by its annotations."""
    words = set(
        re.findall(r"\w+", " ".join(map(str, getattr(found, "__annotations__", {}).values())))
    )
    return bool(words & _OF_WEIGHTS)


def _without_builders(node: ast.AST) -> None:
    """Leave out functions that compute with weights, by their annotations: counts call none."""

    class Emptied(ast.NodeTransformer):
        def visit_FunctionDef(self, one: ast.FunctionDef) -> Any:
            self.generic_visit(one)
            if not _computes(one.args, one.returns):
                return one
            nothing = ast.Assign([ast.Name(one.name, ast.Store())], ast.Constant(None))
            return ast.copy_location(nothing, one)

        def visit_Lambda(self, one: ast.Lambda) -> Any:
            self.generic_visit(one)
            return ast.copy_location(ast.Constant(None), one) if _computes(one.args) else one

    Emptied().generic_visit(node)
    ast.fix_missing_locations(node)


def _computes(args: ast.arguments, returned: ast.expr | None = None) -> bool:
    kinds = [one.annotation for one in args.args] + [returned]
    words = {word for kind in kinds if kind for word in re.findall(r"\w+", ast.unparse(kind))}
    return bool(words & _OF_WEIGHTS) or "w" in {one.arg for one in args.args}
