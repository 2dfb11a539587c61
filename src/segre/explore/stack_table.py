"""All stacks of the static page: their parameters, symmetries and theorems at any size, as data.

A row is a mechanism with at most two options that differ from its usual ones (of two, one is a
gate, a mask, a decay or a feature map). The formulas are those of hybrid/fiber.py and of the
theorems, run on symbols; every row is then compared with segre at random sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

from segre.attention import PLAIN
from segre.attention.mechanism import NAMED, Mechanism
from segre.attention.reading import with_options
from segre.errors import SpecError
from segre.explore.applied import Trees, of_stack
from segre.explore.designs import design
from segre.explore.formulas import DisagreementError
from segre.explore.stack_controls import CONTROLS, USUAL
from segre.explore.stacks import PREDICTED, as_hybrid
from segre.explore.trace import Path, Tree, traced, value
from segre.hybrid.fiber import covered, of_traits, parts
from segre.hybrid.layer import Group, HybridLayer
from segre.hybrid.spec import Hybrid
from segre.transformer.spec import Transformer

# Options whose values are sizes: a row has them or not, and the page fills in the letter.
LETTERS = {"window": "w", "local": "b"}
GIVEN = "+"  # such an option is there
NUMBER = "number"  # a decay between 0 and 1
KEYS = tuple(
    one.key
    for one in CONTROLS
    if one.part != "Sizes" and one.key not in ("kind", "order", "kernel", "stride")
)
_OFTEN = {"gate", "causal", "decay", "window", "feature"}  # of two options one is among these
_EXAMPLE = {"window": 3, "local": 3, "decay": "9/10"}
Row = dict[str, str]


def rows() -> Iterator[Row]:
    """The options of every row, by key; those that contradict each other are left out."""
    options = [
        (key, str(one))
        for control in CONTROLS
        if control.key in KEYS
        for key, one in _values(control.key, control.values, control.kind)
    ]
    for kind in NAMED:
        usual = {"kind": kind, **{key: USUAL[key] for key in KEYS}}
        for number in range(3):
            for chosen in combinations(options, number):
                row = {**usual, **dict(chosen)}
                keys = {key for key, _ in chosen}
                often = number < 2 or keys & _OFTEN
                if often and len(keys) == number and _allowed(row):
                    yield row


def _values(key: str, values: tuple[Any, ...], kind: str) -> Iterator[tuple[str, str]]:
    if key in LETTERS:
        yield key, GIVEN
    elif key == "decay":
        yield from ((key, NUMBER), (key, "learned"))
    elif key == "conv":
        yield from ((key, one) for one in values if one != "none")
    elif kind == "flag":
        yield key, "true"
    else:
        yield from ((key, one) for one in values if one != USUAL[key])


def _allowed(row: Row) -> bool:
    try:
        mechanism(row)
    except SpecError:
        return False
    return True


def mechanism(row: Row) -> Mechanism:
    """The mechanism of a row, with examples for sizes."""
    given = {
        key: _EXAMPLE[key] if row[key] in (GIVEN, NUMBER) else _read(key, row[key])
        for key in KEYS
        if row[key] != USUAL[key]
    }
    return with_options(NAMED[row["kind"]], given)


def _read(key: str, text: str) -> Any:
    return text == "true" if key == "causal" else int(text) if text.isdigit() else text


def stack_table(choose: Callable[[Row], bool] = lambda _: True) -> dict[str, Any]:
    """The rows as data: trees, each once, and for each row which of them it has."""
    rng = random.Random(3)
    trees = Trees()
    labels: dict[tuple[str, ...], int] = {}

    def label(name: tuple[str, ...]) -> int:
        return labels.setdefault(name, len(labels))

    lists: dict[str, Any] = {}
    table: dict[str, int] = {}
    for row in filter(choose, rows()):
        for factored in (False, True):
            formulas = formulas_of(row, factored)
            check(row, formulas, factored, rng)
            entry = [[label(name), trees.number(tree)] for name, tree in formulas.items()]
            table[key_of(row, factored)] = lists.setdefault(repr(entry), [len(lists), entry])[0]
    return {
        "keys": KEYS,
        "letters": LETTERS,
        "labels": list(labels),
        "lists": [entry for _, entry in lists.values()],
        "rows": table,
        "theorems": theorems(trees),
        "trees": trees.every,
        "predicted": PREDICTED.replace(":,}", "}"),
    }


def key_of(row: Row, factored: bool) -> str:
    """How the page finds a row: by what differs from the usual."""
    differs = [f"{key}={row[key]}" for key in KEYS if row[key] != USUAL[key]]
    return "/".join([row["kind"], *differs, *["dv"] * factored])


def formulas_of(row: Row, factored: bool) -> dict[tuple[str, ...], Tree]:
    """Parameters and symmetries of L equal layers by name, and where the formula says anything.

    Each place of a kernel has maps of the same size, so that parameters grow evenly with it.
    """
    base = mechanism(row)
    compressed = row["conv"] != "none"

    def stack(path: Path, layers: int, kernel: Any) -> Hybrid:
        sizes: Any = {key: path.size(LETTERS[key]) for key in LETTERS if row[key] == GIVEN}
        if compressed:
            sizes |= {"kernel": kernel, "stride": path.size("s")}
        group: Any = Group(replace(base, **sizes), path.size("H"))
        d, dv = path.size("d"), path.size("v") if factored else None
        layer = HybridLayer(d, d, (group,), path.size("a"), dv)
        return Hybrid((layer,) * layers, path.size("t"))

    def counts(path: Path) -> Mapping[tuple[str, ...], Any]:
        kernel = path.size("K")
        one, two = (stack(path, layers, kernel) for layers in (1, 2))
        layers = path.size("L")
        within, both = of_traits(one), of_traits(two)
        return {
            ("symmetry", *part): within.get(part, 0) + (layers - 1) * (count - within.get(part, 0))
            for part, count in both.items()
        }

    def parameters(path: Path) -> Mapping[tuple[str, ...], Any]:
        two, three = (stack(path, 1, kernel).parameters for kernel in (2, 3))
        more = (path.size("K") - 2) * (three - two) if compressed else 0
        return {("parameters",): path.size("L") * (two + more)}

    def valid(path: Path, layers: int) -> Mapping[tuple[str, ...], Any]:
        return {("valid", str(layers)): int(covered(stack(path, layers, path.size("K"))))}

    return {
        **traced(parameters),
        **traced(counts),
        **traced(partial(valid, layers=1)),
        **traced(partial(valid, layers=2)),
    }


def check(
    row: Row, formulas: Mapping[tuple[str, ...], Tree], factored: bool, rng: random.Random
) -> None:
    """What the page will say at random sizes is what segre says."""
    at = {"d": rng.randint(5, 40), "a": rng.randint(1, 12), "v": rng.randint(1, 12)}
    at |= {"H": rng.randint(1, 6), "L": rng.randint(1, 9), "t": rng.randint(5, 50)}
    at |= {
        "K": rng.randint(2, 4),
        "w": rng.randint(1, 9),
        "b": rng.randint(1, 9),
        "s": rng.randint(1, 3),
    }
    text = written(row, at, factored)
    here = _counts(text)
    there = {filled(name, at): value(tree, at) for name, tree in formulas.items()}
    valid = there.pop(("valid", "1"), 0), there.pop(("valid", "2"), 0)
    if not valid[at["L"] > 1]:
        there = {}
    if here != {name: count for name, count in there.items() if count}:
        raise DisagreementError(f"{text}: segre counts {here}, the formulas give {there}")


def _counts(text: str) -> dict[tuple[str, ...], int]:
    """Segre's own; none where the formula says nothing, or a design contradicts itself."""
    try:
        stack = design(text)
    except SpecError:
        return {}
    assert not isinstance(stack, Transformer)
    spec = as_hybrid(stack)
    found = parts(spec)
    if found is None:
        return {}
    counts: dict[tuple[str, ...], int] = {("parameters",): spec.parameters}
    return counts | {("symmetry", *part): count for part, count in found.items() if count}


def written(row: Row, at: Mapping[str, int], factored: bool) -> str:
    """The spec of a row at some sizes."""
    options = {key: row[key] for key in KEYS if row[key] != USUAL[key]}
    options |= {key: str(at[letter]) for key, letter in LETTERS.items() if row[key] == GIVEN}
    if row["conv"] != "none":
        options |= {"kernel": str(at["K"]), "stride": str(at["s"])}
    if options.get("decay") == NUMBER:
        options["decay"] = str(_EXAMPLE["decay"])
    sizes = {"d": at["d"], "layers": at["L"], "a": at["a"], "heads": at["H"]}
    if factored:
        sizes["dv"] = at["v"]
    every = {**sizes, **options, "t": at["t"]}
    return "/".join([row["kind"], *(f"{key}={one}" for key, one in every.items())])


def filled(name: tuple[str, ...], at: Mapping[str, int]) -> tuple[str, ...]:
    """The name of a symmetry with its size: {a} and {a-1} stand for numbers."""
    out = []
    for part in name:
        before, brace, rest = part.partition("{")
        letter, _, less = rest.partition("}")[0].partition("-")
        after = rest.partition("}")[2]
        out.append(f"{before}{at[letter] - int(less or 0)}{after}" if brace else part)
    return tuple(out)


def theorems(trees: Trees) -> dict[str, Any]:
    """Of plain stacks, by kind, depth (3 stands for more), heads and value maps."""
    out = {}
    for kind, layers, heads, factored in product(PLAIN, (1, 2, 3), (False, True), (False, True)):
        found = of_stack(kind, layers, heads=heads, factored=factored)
        if found is not None:
            name = (kind, str(layers), "several" if heads else "one", "dv" if factored else "none")
            out["|".join(name)] = trees.numbered(found)
    return out
