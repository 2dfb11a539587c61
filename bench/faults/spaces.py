"""Entries of upper bounds that were altered: does a lemma accept one that changes the function?

Ports are dropped, added and aimed elsewhere, groups widened, degrees and gains changed, constants
added, and tensors named that have nothing to do with it. Whatever the lemmas accept must keep all
outputs at random inputs (token sequences, if there are words), where roots and functions are drawn.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from bench.faults.tally import Tally
from segre.architectures import Architecture
from segre.kernel.arrays import Array
from segre.kernel.document import RejectionError, Spec, read_spec
from segre.kernel.graph import Graph
from segre.kernel.group import GROUPS
from segre.kernel.network import graph_of
from segre.kernel.point import Batch, Point
from segre.kernel.residues import FreeRoots
from segre.kernel.spaces import facts_of, generators
from segre.models import architecture
from segre.symmetry.document import entries

PRIME = 8388587
SPECS = (
    "gpt2/d=4/heads=2/ff=3/eps=1e-5/vocab=5/t=2",
    "transformer/d=3/head=2/norm=rms/eps=1e-5/embnorm=true/firstnorm=false/mlp=silu/ff=2/"
    "vocab=5/t=2",
    "albert/d=4/layers=2/heads=2/head=2/ff=3/eps=1e-5/embed=3/vocab=5/t=2",
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=5/t=2",
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=5/tied=true/t=2",
    "qwen3/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=5/t=2",
    "olmo2/d=4/heads=2/ff=3/eps=0/vocab=5/t=2",
    "gemma2/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=5/t=2",
    "mixtral/d=4/heads=2/kv=1/eps=1e-5/experts=3/eff=2/vocab=5/t=2",
    "deepseek-v3/d=4/heads=2/head=2/rotary=2/dv=2/qrank=3/kvrank=2/ff=4/t=2",
    "dinov2/d=4/layers=2/heads=2/ff=3/eps=1e-5/patch=5",
    "transformer/d=4/heads=2/norm=layer/mlp=relu/ff=3/bias=all/t=2",
    "transformer/d=4/heads=2/mlp=relu2/ff=3/bias=all/layers=2/t=2",
    "transformer/d=3/layers=2/share=true/place=post/norm=layer/mlp=gelu/ff=2/bias=all/t=2",
    "transformer/d=4/heads=2/norm=rms/eps=0/transform=true/mlp=relu/ff=3/labels=3/vocab=3/types=1/"
    "read=last/t=4",
    "lightning/d=3,4,2,3/a=2,1,2/heads=2,1,2/dv=1,none,2/t=2",
    "softmax/d=4,4,4/a=2/heads=2,1/dv=2,none/t=3",
    "mix/d=3,3,3/a=2/heads=softmax:bias=both,double:unit=layer/t=3",
    "mix/d=4,4/a=3/heads=linear+softmax:causal:gate=element/dv=2/t=3",
    "poly/3-4-3-2/degree=2/bias=true",
)
Entry = dict[str, Any]
Chance = random.Random


def altered(entry: Entry, graph: Graph, chance: Chance) -> Entry:
    """The entry with one to three changes that mean something."""
    found = copy.deepcopy(entry)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if found["free"] == "basis":
            chance.choice(_OF_BASES)(found, graph, chance)
        elif found["free"] == "constants":
            chance.choice(_OF_CONSTANTS)(found, graph, chance)
        else:
            _special(found, graph, chance)
    return found


def _tensor(graph: Graph, chance: Chance) -> str:
    return "/".join(chance.choice(list(graph.tensors)))


def _gain(graph: Graph, chance: Chance) -> str:
    gains = [place for place in graph.tensors if "gain" in place[1] or "scale" in place[1]]
    return "/".join(chance.choice(gains or list(graph.tensors)))


def _new_port(entry: Entry, graph: Graph, chance: Chance) -> None:
    name = _tensor(graph, chance)
    port = {"tensor": name, "reads": chance.random() < 0.5}
    entry["ports"].append(port | ({} if entry["group"] == "scale" else {"axis": -1}))
    _axis(entry, graph, chance, port=entry["ports"][-1])


def _axis(entry: Entry, graph: Graph, chance: Chance, port: Entry | None = None) -> None:
    port = chance.choice(entry["ports"]) if port is None else port
    part, name = port["tensor"].split("/")
    shape = graph.tensors[part, name].shape
    fitting = [i - len(shape) for i, size in enumerate(shape) if size == entry.get("width")]
    if entry["group"] != "scale":
        port["axis"] = chance.choice(fitting or [-1, -2])


def _less_ports(entry: Entry, _graph: Graph, chance: Chance) -> None:
    if len(entry["ports"]) > 1:
        entry["ports"].pop(chance.randrange(len(entry["ports"])))


def _elsewhere(entry: Entry, graph: Graph, chance: Chance) -> None:
    port = chance.choice(entry["ports"])
    port["tensor"] = _tensor(graph, chance)
    _axis(entry, graph, chance, port)


def _turned_round(entry: Entry, _graph: Graph, chance: Chance) -> None:
    port = chance.choice(entry["ports"])
    port["reads"] = not port["reads"]


def _other_gain(entry: Entry, graph: Graph, chance: Chance) -> None:
    port = chance.choice(entry["ports"])
    if chance.random() < 0.2:
        port["normed"] = not port.get("normed", False)
    elif "gain" in port and chance.random() < 0.6:
        del port["gain"]
    elif chance.random() < 0.5:
        port["gain"] = _gain(graph, chance)
    else:
        port["under"] = not port.get("under", False)


def _other_group(entry: Entry, _graph: Graph, chance: Chance) -> None:
    entry["group"] = chance.choice(GROUPS)


def _wider(entry: Entry, _graph: Graph, chance: Chance) -> None:
    key = chance.choice(["start", "planes", "copies", "degree"])
    if key == "start":
        entry["start"] = 0
    elif key == "planes":
        entry["planes"] = [[0, 1]] if chance.random() < 0.5 else []
    elif key == "copies":
        entry["copies"] = entry["copies"][:-1] if entry["copies"] else [2]
    else:
        chance.choice(entry["ports"])["degree"] = chance.choice([1, 2, 3])


def _less_sources(entry: Entry, _graph: Graph, chance: Chance) -> None:
    if len(entry["sources"]) > 1:
        entry["sources"].pop(chance.randrange(len(entry["sources"])))


def _more_sources(entry: Entry, graph: Graph, chance: Chance) -> None:
    source: Entry = {"tensor": _tensor(graph, chance)}
    if chance.random() < 0.6:
        source["along"] = {chance.choice(["-1", "-2"]): []}
    entry["sources"].append(source)


def _other_source(entry: Entry, graph: Graph, chance: Chance) -> None:
    chance.choice(entry["sources"])["tensor"] = _tensor(graph, chance)


def _other_direction(entry: Entry, graph: Graph, chance: Chance) -> None:
    source = chance.choice(entry["sources"])
    along = source.setdefault("along", {})
    kind = chance.randrange(4)
    if kind == 0 and along:
        along.pop(chance.choice(list(along)))
    elif kind == 1:
        along[chance.choice(["-1", "-2", "-3"])] = []
    elif kind == 2:
        along[chance.choice(["-1", "-2"])] = [_gain(graph, chance)]
    elif along:
        along[chance.choice(list(along))] = []


def _other_ties(entry: Entry, _graph: Graph, chance: Chance) -> None:
    source = chance.choice(entry["sources"])
    kind = chance.randrange(7)
    if kind == 5:
        source["where"] = chance.choice(["unreached", "unread"])
    elif kind == 6:
        source.pop("where", None)
    elif kind == 0:
        source.pop("columns", None)
    elif kind == 1:
        source["columns"] = [0, chance.randint(1, 3)]
    elif kind == 2:
        entry.pop("vanish", None)
    elif kind == 3:
        source.pop("as", None)
        source.pop("times", None)
    else:
        source["as"], source["times"] = 0, chance.choice([-2, -1, 1, 2])


def _special(entry: Entry, graph: Graph, chance: Chance) -> None:
    for key, value in entry.items():
        if isinstance(value, int) and not isinstance(value, bool):
            entry[key] = max(0, value + chance.choice([-1, 1]))
        elif key in ("tensor", "norm", "part", "table") and chance.random() < 0.7:
            entry[key] = _tensor(graph, chance) if key != "part" else chance.choice(["1", "2"])
    if "ports" in entry:
        _less_ports(entry, graph, chance)
    if entry.get("sources"):
        _less_sources(entry, graph, chance)


Change = Callable[[Entry, Graph, Chance], None]
_OF_BASES: tuple[Change, ...] = (
    *(_new_port, _less_ports, _elsewhere, _turned_round, _other_gain, _other_group, _wider),
    *(_axis, _less_ports),
)
_OF_CONSTANTS: tuple[Change, ...] = (
    *(_less_sources, _more_sources, _other_source, _other_direction, _other_ties, _less_sources),
)


def forgeries(spec: Architecture, count: int, seed: int = 0) -> Iterator[tuple[Entry, bool, bool]]:
    """Altered entries of a network: whether a lemma accepts each, and whether it may."""
    known = read_spec(spec.document())
    graph = graph_of(known)
    facts = facts_of(known, graph, PRIME, seed)
    jacobian = _jacobian(known, graph, seed)
    honest = list(entries(spec))
    chance = random.Random(f"{spec} {seed}")
    for _ in range(count):
        entry = altered(chance.choice(honest), graph, chance)
        try:
            rows = generators(facts, entry, "entry")
        except RejectionError:
            yield entry, False, True
            continue
        changes = facts.field.matmul(jacobian[None], rows.T[None]).any() if len(rows) else False
        yield entry, True, not changes


def _jacobian(spec: Spec, graph: Graph, seed: int) -> Array:
    """Rows at some inputs, with drawn roots: every symmetry is orthogonal to them."""
    field = FreeRoots(PRIME, seed)
    point = Point(graph, field, field.weights(graph))
    chance = np.random.default_rng(seed)
    blocks = [size for size in (getattr(spec, "vocab", 0), getattr(spec, "types", 0)) if size]

    def inputs(numbers: Sequence[int]) -> Batch:
        if not blocks:
            salts = np.zeros((len(numbers), graph.input_shape[1]), np.uint64)
            return Batch(field.inputs(graph.input_shape, numbers, salts))
        shape = len(numbers), graph.input_shape[1]
        parts = [np.eye(size, dtype=np.int64)[chance.integers(0, size, shape)] for size in blocks]
        return Batch(np.concatenate(parts, axis=2).swapaxes(1, 2))

    outputs, count = prod(graph.shape(graph.output)), 10 if blocks else 3
    return point.jacobian([(n, o) for n in range(count) for o in range(outputs)], inputs)


def tally(quick: bool) -> list[Tally]:
    """Alter entries of all kinds of networks."""
    found = []
    for text in SPECS[:3] if quick else SPECS:
        tried = passed = wrong = 0
        for _, accepted, holds in forgeries(architecture(text), 60 if quick else 400):
            tried += 1
            passed += accepted
            wrong += not holds
        note = f"{passed} are accepted, and change nothing; all others are refused"
        found.append(Tally(f"spaces of {text.partition('/')[0]}, altered", tried, wrong, note))
    return found
