"""Functions of segre as JavaScript, statement by statement.

Annotations, assertions and docstrings are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from segre.explore.alone.expressions import Expressions, safe


class Translation(Expressions):
    """The code of one function."""

    def function(self, node: ast.FunctionDef | ast.Lambda, name: str = "") -> str:
        """A function or lambda; keywords find their places by `$params`."""
        args = node.args
        names = [one.arg for one in (*args.posonlyargs, *args.args)]
        inner = {*names, *(one.arg for one in args.kwonlyargs)}
        if args.vararg:
            inner.add(args.vararg.arg)
        if args.kwarg:
            inner.add(args.kwarg.arg)
        body: list[ast.stmt]
        body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        assigned = set(_assigned(body)) - inner
        self.scopes.append(inner | assigned)
        defaults = [None] * (len(names) - len(args.defaults)) + list(args.defaults)
        given = [self._parameter(n, d) for n, d in zip(names, defaults, strict=True)]
        if args.vararg:
            given.append(f"...{safe(args.vararg.arg)}")
        only = [
            self._parameter(one.arg, default)
            for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]
        rest = args.kwarg.arg if args.kwarg else ""
        if args.vararg and (only or rest):
            self.stop(node, "keywords after *arguments")
        given += only + ([f"{safe(rest)} = $dict([])"] if rest else [])
        lines = [f"let {', '.join(map(safe, sorted(assigned)))};"] if assigned else []
        lines += [self.statement(one) for one in body]
        self.scopes.pop()
        star = "*" if _yields(body) else ""
        params = [*names, *(one.arg for one in args.kwonlyargs)]
        code = f"function{star} {name}({', '.join(given)}) {{\n" + "\n".join(lines) + "\n}"
        if not name:
            return f"$def({code}, {params!r}, {rest!r})"
        return f"{code}\n$def({name}, {params!r}, {rest!r});"

    def _parameter(self, name: str, default: ast.expr | None) -> str:
        return safe(name) if default is None else f"{safe(name)} = {self.expression(default)}"

    # ---- statements -------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> str:
        """One statement."""
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        if found is None:
            self.stop(node, type(node).__name__)
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
                self.stop(node, f"import of {one.name}")
            self.imported[one.asname or one.name] = str(found)
        return ""

    def _functiondef(self, node: ast.FunctionDef) -> str:
        return f"{safe(node.name)} = {self.function(node)};"

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
                return f"[{', '.join(map(self.pattern, own))}] = {value}"
            return f"{self.pattern(node)} = {value}"
        return f"{self.pattern(node)} = {value}"

    def _if(self, node: ast.If) -> str:
        other = f" else {self._block(node.orelse)}" if node.orelse else ""
        return f"if ({self.test(node.test)}) {self._block(node.body)}{other}"

    def _for(self, node: ast.For) -> str:
        if node.orelse:
            self.stop(node, "for with else")
        pattern, values = self.pattern(node.target), self.expression(node.iter)
        return f"for ({pattern} of {values}) {self._block(node.body)}"

    def _while(self, node: ast.While) -> str:
        return f"while ({self.test(node.test)}) {self._block(node.body)}"

    def _raise(self, node: ast.Raise) -> str:
        return f"throw $raised({self.expression(node.exc)});" if node.exc else "throw $error;"

    def _try(self, node: ast.Try) -> str:
        if node.finalbody or node.orelse:
            self.stop(node, "try with else or finally")
        code = f"try {self._block(node.body)} catch ($error) {{\n"
        for one in node.handlers:
            kinds = self.expression(one.type) if one.type else "$Exception"
            named = f"{safe(one.name)} = $error; " if one.name else ""
            code += f"if ($isinstance($error, {kinds})) {{ {named}{self._block(one.body)} }} else "
        return code + "throw $error;\n}"


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
        elif isinstance(node, ast.FunctionDef | ast.ExceptHandler) and node.name:
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(body))
