"""What does the static page know? A table of answers for the designs of a grid.

The page looks a design up and shows segre's own answer, computed when the page is written; nothing
is interpolated. The designs are every preset; around the design with which each family begins,
every value of one control, and two of the values that designers weigh against each other
(`_PAIRED`); around every other model, single changes of a few choices (`_SINGLE`). A change is what
the page makes of it: keys that belong to the old value are dropped, and so are keys that no longer
mean anything.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any

from segre.errors import SegreError
from segre.explore import controls, stack_controls
from segre.explore.control import NONE, Control
from segre.explore.designs import FIRST, STACK, design, families, family_of, presets
from segre.explore.known import by_formulas
from segre.explore.stack_controls import FIRST_STACK
from segre.geometry.progress import Progress, quiet
from segre.json_data import strict_json

_FLAG = ("false", "true")
_PAIRED: Mapping[str, Mapping[str, Sequence[str]]] = {
    "transformer": {
        "layers": ("16", "32", "64"),
        "kv": ("1", "4", "8", "16", "32"),
        "mlp": ("gelu", "swiglu"),
        "norm": ("none", "rms", "layer"),
        "place": ("pre", "post"),
        "bias": ("none", "qkv", "all"),
        "gate": ("none", "head", "element"),
        "pos": ("none", "rope", "learned"),
        "qknorm": ("false", "true"),
        "tied": _FLAG,
    },
    STACK: {
        "layers": ("2", "6", "12"),
        "heads": ("4", "8", "16"),
        "a": ("4", "8", "16"),
        "dv": (NONE, "8", "16"),
        "kind": ("softmax", "lightning", "linear", "fast", "double", "gapless"),
        "gate": ("none", "head", "element"),
        "bias": ("none", "key", "query", "both"),
        "causal": _FLAG,
    },
}
_SINGLE: Mapping[str, Sequence[str]] = {
    "kv": ("1", "8"),
    "norm": ("rms", "layer"),
    "pos": ("none", "rope", "learned"),
    "tied": _FLAG,
}
_CONTROLS = {"transformer": controls.CONTROLS, STACK: stack_controls.CONTROLS}


def as_written(text: str) -> str:
    """A spec as the page writes it: the width of a stack once, and the number of its layers.

    >>> as_written("softmax/d=8,8,8/a=2/t=3")
    'softmax/d=8/layers=2/a=2/t=3'
    """
    if family_of(text) != STACK:
        return text
    given = [pair.split("=", 1) for pair in text.split("/")[1:]]
    widths = next((value for name, value in given if name == "d"), "").split(",")
    if len(widths) == 1:
        return text
    every = {name: value for name, value in given if name != "layers"}
    every["d"] = widths[0] if len(set(widths)) == 1 else every["d"]
    every["d"] += f"/layers={len(widths) - 1}"
    return "/".join([text.partition("/")[0], *(f"{name}={one}" for name, one in every.items())])


def in_words(first: Mapping[str, str]) -> list[str]:
    """Which designs the table has, in phrases; `first` names the first design of each family."""
    said = []
    for family, name in first.items():
        labels = [one.label for one in _CONTROLS[family] if one.key in _PAIRED[family]]
        said.append(f"{name}; with any one control changed; with two changed of {_listed(labels)}")
    few = _listed([one.label for one in controls.CONTROLS if one.key in _SINGLE])
    return [*said, f"every other preset; the models among them also with a change of {few}"]


def _listed(labels: Sequence[str]) -> str:
    words = [label[0].lower() + label[1:] if label[1:2].islower() else label for label in labels]
    return f"{', '.join(words[:-1])} or {words[-1]}"


def key_of(text: str) -> str:
    """The spec with its keys in order, so that it is the same however they were given."""
    kind, *pairs = text.split("/")
    return "/".join([kind, *sorted(pairs)])


def changed(text: str, control: Control, value: str) -> str:
    """The spec of a design after one change on the page, in no particular order.

    >>> norm = next(one for one in controls.CONTROLS if one.key == "norm")
    >>> changed("transformer/d=8/norm=rms/eps=1e-05/final=true/t=3", norm, "none")
    'transformer/d=8/t=3'
    """
    family = family_of(text)
    known, usual = _CONTROLS[family], families()[family]["usual"]
    kind, *pairs = text.split("/")
    given = dict(pair.split("=", 1) for pair in pairs)
    if family == STACK:
        given["kind"] = kind
    reset = control.resets if value != usual[control.key] else ()
    given = {name: one for name, one in given.items() if name not in (*control.drops, *reset)}
    given[control.key] = value
    for one in known:
        if one.key in given and one.key != "t" and not _means(one, given, usual):
            del given[one.key]
    kind = given.pop("kind", kind)
    always = ("d", "t")
    kept = {name: one for name, one in given.items() if name in always or one != usual.get(name)}
    return "/".join([kind, *(f"{name}={one}" for name, one in kept.items())])


def _means(control: Control, given: Mapping[str, str], usual: Mapping[str, str]) -> bool:
    """Whether a control means something for a design."""
    for key, allowed in control.when.items():
        value = given.get(key, usual[key])
        if value not in allowed and (allowed[0] != "+" or value in ("", "0")):
            return False
    return True


def _singles(text: str, values: Mapping[str, Sequence[str]] | None = None) -> Iterator[str]:
    for control in _CONTROLS[family_of(text)]:
        every = control.values or _FLAG
        for value in every if values is None else values.get(control.key, ()):
            yield changed(text, control, str(value))


def _pairs(text: str) -> Iterator[str]:
    family = family_of(text)
    paired = _PAIRED[family]
    for one, two in combinations([c for c in _CONTROLS[family] if c.key in paired], 2):
        for first in paired[one.key]:
            for second in paired[two.key]:
                yield changed(changed(text, one, first), two, second)
                yield changed(changed(text, two, second), one, first)


def designs_around(bases: Sequence[str], others: Sequence[str]) -> list[str]:
    """All designs of the table that segre accepts, each once: around `bases`, and near `others`."""
    every: dict[str, str] = {}
    for text in others:
        every.setdefault(key_of(text), text)
    for base in bases:
        for text in (base, *_singles(base), *_pairs(base)):
            every.setdefault(key_of(text), text)
    for text in others:
        if family_of(text) != STACK:
            for one in _singles(text, _SINGLE):
                every.setdefault(key_of(one), one)
    return [text for text in every.values() if _accepted(text)]


def _accepted(text: str) -> bool:
    try:
        design(text)
    except SegreError:
        return False
    return True


def table(first: str, progress: Progress = quiet) -> dict[str, dict[str, Any]]:
    """The answers for all designs of the page that begins with this one, by `key_of`.

    What each choice costs takes most of the time, and is there for presets and first designs.
    """
    named = presets()
    bases = [named[FIRST], named[FIRST_STACK]]
    bases[family_of(first) == STACK] = as_written(first)
    designs = designs_around(bases, [as_written(text) for text in named.values()])
    complete = {*bases, *map(as_written, named.values())}
    found = {}
    for done, text in enumerate(designs):
        progress("designs", done, len(designs))
        found[key_of(text)] = by_formulas(text, undo=text in complete)
    return found


@cache
def packed_table(first: str, progress: Progress = quiet) -> tuple[str, int]:
    """The table as the page carries it, compressed and in letters; and how many designs it has."""
    found = table(first, progress)
    data = strict_json(found).encode("utf-8")
    return base64.b64encode(gzip.compress(data, mtime=0)).decode("ascii"), len(found)
