"""What do the theorems say at sizes that are not known yet? Their hypotheses and counts, as data.

The conditions are those of src/segre/theorems, run on symbols (`trace`): the page evaluates them at
the sizes of its controls, and knows nothing of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any

from segre.explore.trace import Path, Tree, traced
from segre.spec import Attention, Layer, Network
from segre.theorems import Theorem, apply
from segre.transformer.spec import Transformer

# Sizes of a transformer, by the letters of the page's polynomials; P is the number of parameters.
LETTERS = {
    **{"d": "d", "layers": "L", "heads": "H", "kv": "k", "head": "a", "dv": "a", "rotary": "a"},
    **{"ff": "f", "vocab": "V", "t": "t", "positions": "t", "parameters": "P"},
}
_LAYERS = {"L": 3}  # which are alike, so that loops over them may be run for three


class OfAnySize:
    """A transformer some of whose sizes are symbols; all else follows as in the spec itself."""

    def __init__(self, spec: Transformer, sizes: Mapping[str, Any]) -> None:
        self._spec, self._sizes = spec, sizes

    def __getattr__(self, name: str) -> Any:
        if name in self._sizes:
            return self._sizes[name]
        found = inspect.getattr_static(type(self._spec), name, None)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        if isinstance(found, cached_property):
            return found.func(self)
        if inspect.isfunction(found):
            return partial(found, self)
        return getattr(self._spec, name)


def of_transformer(spec: Transformer) -> dict[str, Any] | None:
    """The theorem about such a design, with its conditions at any size; None if there is none."""
    applied = apply(spec)
    if applied is None:
        return None

    def symbols(path: Path) -> OfAnySize:
        own: dict[str, Any] = {
            key: path.size(letter) for key, letter in LETTERS.items() if getattr(spec, key)
        }
        if spec.window:
            own["window"] = (path.size("w"),)
        return OfAnySize(spec, own)

    return _document(applied.theorem, symbols)


def of_stack(kind: str, layers: int, *, heads: bool, factored: bool) -> dict[str, Any] | None:
    """The theorem about plain stacks of so many equal layers, with its conditions and counts.

    Without `heads` a layer has a single one, and without `factored` one value matrix.
    """

    def symbols(path: Path) -> Network:
        d, a = path.size("d"), path.size("a")
        head = Attention(kind, _heads(path, heads), a, path.size("v") if factored else None)
        return Network((Layer(d, d, head),) * layers, path.size("t"))

    example = Network(
        (Layer(5, 5, Attention(kind, 2 if heads else 1, 3, 3 if factored else None)),) * layers, 5
    )
    applied = apply(example)
    return None if applied is None else _document(applied.theorem, symbols)


def _heads(path: Path, several: bool) -> Any:
    """One head, or a number of heads that is not one."""
    return path.size("G") + 1 if several else 1


def _document(theorem: Theorem, symbols: Any) -> dict[str, Any]:
    sides: dict[str, tuple[str, str]] = {}

    def conditions(path: Path) -> dict[Any, Any]:
        out = {}
        for one in theorem.hypotheses(symbols(path)):
            sides[one.name] = (one.says, one.relation)
            out[one.name, "left"], out[one.name, "right"] = one.left, one.right
        return out

    trees = traced(conditions, _LAYERS)
    return {
        "name": theorem.name,
        "title": theorem.title,
        "proof": theorem.page,
        "trusts": theorem.trusts,
        "hypotheses": [
            {
                "name": name,
                "says": says,
                "relation": relation,
                "left": trees[name, "left"],
                "right": trees[name, "right"],
            }
            for name, (says, relation) in sides.items()
        ],
        "symmetries": traced(lambda path: theorem.symmetries(symbols(path)), _LAYERS),
    }


class Trees:
    """Trees, each once, and theorems in which numbers stand for them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.every: list[Tree] = []

    def number(self, tree: Tree) -> int:
        """The place of a tree in the list."""
        found = self._numbers.setdefault(repr(tree), len(self.every))
        if found == len(self.every):
            self.every.append(tree)
        return found

    def numbered(self, theorem: dict[str, Any]) -> dict[str, Any]:
        """A theorem with numbers in place of its trees."""
        sides = ("left", "right")
        return {
            **theorem,
            "hypotheses": [
                {**one, **{side: self.number(one[side]) for side in sides}}
                for one in theorem["hypotheses"]
            ],
            "symmetries": {name: self.number(tree) for name, tree in theorem["symmetries"].items()},
        }
