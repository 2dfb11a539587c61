"""The formulas of segre as data for the page: each is run once on symbols in place of sizes.

Where a formula compares sizes it is run again for the other outcome, so that what is written down
is all of it: a tree of whole numbers, names, operations and conditions. Nothing is known here that
the formula does not say, and what a formula does beside arithmetic (a loop over a size) fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from segre.errors import SpecError

# A number, a name, ["+", x, y] and the like, or ["?", [relation, x, y], tree, tree].
Tree: TypeAlias = Any
_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}


@dataclass
class Path:
    """One run: how its comparisons come out."""

    wanted: Sequence[bool]
    alike: Mapping[str, int] = field(default_factory=dict)  # sizes that loops may count to
    asked: list[Tree] = field(default_factory=list)
    taken: list[bool] = field(default_factory=list)

    def size(self, name: str) -> Any:
        """A size, which is a whole number from 1; a Symbolic, for formulas that expect an int."""
        return Symbolic(name, self)

    def holds(self, relation: str, left: Tree, right: Tree) -> bool:
        """Whether a comparison holds on this path; what follows from sizes >= 1 is not asked."""
        if isinstance(left, int) and isinstance(right, int):
            return left > right if relation == ">" else left == right
        if left == right:
            return relation == "="
        if isinstance(left, str) and isinstance(right, int) and right < 1:
            return relation == ">"
        if isinstance(right, str) and isinstance(left, int) and left < 1 + (relation == ">"):
            return False
        condition = [relation, left, right]
        if condition in self.asked:
            return self.taken[self.asked.index(condition)]
        number = len(self.asked)
        self.asked.append(condition)
        self.taken.append(self.wanted[number] if number < len(self.wanted) else True)
        return self.taken[-1]


class Symbolic:
    """A whole number that is not known yet."""

    __slots__ = ("path", "tree")

    def __init__(self, tree: Tree, path: Path) -> None:
        self.tree, self.path = tree, path

    def _of(self, name: str, left: Any, right: Any) -> Symbolic:
        x, y = (tree_of(one) for one in (left, right))
        if isinstance(x, int) and isinstance(y, int):
            return Symbolic(_FOLD[name](x, y), self.path)
        if (name, x) in (("+", 0), ("*", 1)):
            return Symbolic(y, self.path)
        if (name, y) in (("+", 0), ("-", 0), ("*", 1), ("//", 1)):
            return Symbolic(x, self.path)
        if name == "*" and 0 in (x, y):
            return Symbolic(0, self.path)
        return Symbolic([name, x, y], self.path)

    def __add__(self, other: Any) -> Symbolic:
        return self._of("+", self, other)

    def __radd__(self, other: Any) -> Symbolic:
        return self._of("+", other, self)

    def __sub__(self, other: Any) -> Symbolic:
        return self._of("-", self, other)

    def __rsub__(self, other: Any) -> Symbolic:
        return self._of("-", other, self)

    def __mul__(self, other: Any) -> Symbolic:
        return self._of("*", self, other)

    def __rmul__(self, other: Any) -> Symbolic:
        return self._of("*", other, self)

    def __floordiv__(self, other: Any) -> Symbolic:
        return self._of("//", self, other)

    def __mod__(self, other: Any) -> Symbolic:
        return self._of("%", self, other)

    def __neg__(self) -> Symbolic:
        return self._of("-", 0, self)

    def __pow__(self, power: int) -> Symbolic:
        out = self
        for _ in range(power - 1):
            out = out * self
        return out

    def _is(self, relation: str, left: Any, right: Any) -> bool:
        return self.path.holds(relation, tree_of(left), tree_of(right))

    def __gt__(self, other: Any) -> bool:
        return self._is(">", self, other)

    def __lt__(self, other: Any) -> bool:
        return self._is(">", other, self)

    def __ge__(self, other: Any) -> bool:
        return not self._is(">", other, self)

    def __le__(self, other: Any) -> bool:
        return not self._is(">", self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | Symbolic) and self._is("=", self, other)

    def __hash__(self) -> int:
        return hash(str(self.tree))

    def __bool__(self) -> bool:
        return not self._is("=", self, 0)

    def __index__(self) -> int:
        """Loops run over what is alike in every turn: layers, and nothing else."""
        names = set(_names(self.tree))
        if not names or not names <= set(self.path.alike):
            raise TypeError(f"{self.tree}: a formula that counts to a size cannot be written down")
        return value(self.tree, self.path.alike)

    def __format__(self, _: str) -> str:
        return f"{{{self.tree}}}" if isinstance(self.tree, str) else f"{{{_written(self.tree)}}}"

    __str__ = __repr__ = lambda self: format(self)


def _names(tree: Tree) -> list[str]:
    if isinstance(tree, list):
        return [name for part in tree[1:] for name in _names(part)]
    return [tree] if isinstance(tree, str) else []


def _written(tree: Tree) -> str:
    return f"{_written(tree[1])}{tree[0]}{_written(tree[2])}" if isinstance(tree, list) else tree


def tree_of(number: Any) -> Tree:
    """What the page is given for a number."""
    return number.tree if isinstance(number, Symbolic) else int(number)


def value(tree: Tree, at: Mapping[str, int]) -> int:
    """A tree at some sizes, as the page evaluates it."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return at[tree]
    if tree[0] == "?":
        relation, left, right = tree[1]
        x, y = value(left, at), value(right, at)
        return value(tree[2] if (x > y if relation == ">" else x == y) else tree[3], at)
    return _FOLD[tree[0]](value(tree[1], at), value(tree[2], at))


def traced(
    formula: Callable[[Path], Mapping[Any, Any]], alike: Mapping[str, int] | None = None
) -> dict[Any, Tree]:
    """The numbers that a formula gives by name, each as a tree; a number that is missing is 0.

    A design that contradicts itself at some sizes has none of them there.

    >>> found = traced(lambda path: {"wide": max(path.size("d") - 2, 0)})
    >>> found["wide"], value(found["wide"], {"d": 5}), value(found["wide"], {"d": 1})
    (['?', ['>', 0, ['-', 'd', 2]], 0, ['-', 'd', 2]], 3, 0)
    """

    def run(wanted: list[bool]) -> dict[Any, Tree]:
        path = Path(wanted, alike or {})
        try:
            trees = {name: tree_of(number) for name, number in formula(path).items()}
        except SpecError:
            trees = {}
        for n in reversed(range(len(wanted), len(path.asked))):
            other = run([*path.taken[:n], not path.taken[n]])
            trees = {
                name: _either(path.asked[n], trees.get(name, 0), other.get(name, 0))
                for name in dict.fromkeys([*trees, *other])
            }
        return trees

    return run([])


def _either(condition: Tree, yes: Tree, no: Tree) -> Tree:
    return yes if yes == no else ["?", condition, yes, no]
