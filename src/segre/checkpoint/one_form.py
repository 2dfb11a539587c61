"""Two checkpoints as models of one design, where their files or configs say the same differently.

Files may join tensors, or have one for each expert. A design may have parts without effect: MLP
units and layers that write nothing, biases of zero, copies of key-value heads, a second copy of a
tied table. Units and layers without effect are left out; everything else that only one of two
designs has is added to the other, with values that change nothing. The numbers stay as they are
stored, so that rounding can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

import numpy as np

from segre.checkpoint.dtypes import as_floats
from segre.checkpoint.function import differing_keys
from segre.checkpoint.layout import Held, Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.served import require_normal_form
from segre.checkpoint.store import Store
from segre.checkpoint.without_effect import dead_units, silent
from segre.errors import CheckpointError, UnsupportedError
from segre.fields.interface import Array
from segre.models.stored import Stored
from segre.transformer.choices import Bias
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts

TABLES = ("tokens", "positions", "types")  # stored by row, as in all files
UNIT_AXES = {"gate": -2, "up": -2, "down": -1}  # of the units of MLPs, by the end of a name
KEYS_AND_VALUES = ("W_K", "b_K", "W_V", "b_V", "normk.gain")
SIZES = ("vocab", "layers", "ff", "eff", "shared", "kv", "bias", "tied")  # keys that may differ
Ways = dict[str, tuple[float, float]]  # by tensor: factor and summand of the numbers in the file


@dataclass(frozen=True)
class OneForm:
    """Two models of one design, if there is one; how they were brought there, in words."""

    one: Model
    two: Model
    tokens: int | None = None  # compared are the first so many; None: all
    said: tuple[str, ...] = ()


@dataclass
class Parts:
    """A model as the tensors of its design, in the types of its file."""

    model: Model
    spec: Transformer
    tensors: dict[str, Tensors]
    ways: dict[str, Ways]
    constants: dict[str, list[Held]]
    said: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model) -> Parts:
        """Every tensor of the design by itself: a view of what is stored."""
        tensors: dict[str, Tensors] = {}
        ways: dict[str, Ways] = {}
        constants: dict[str, list[Held]] = {}
        for part, held in model.held.items():
            own = tensors[part] = {}
            ways[part] = {}
            constants[part] = [x for x in held if x.how.shape]
            for x in held:
                if not x.how.shape:
                    plain = replace(x, how=replace(x.how, times=1.0, plus=0.0))
                    plain.put(plain.unpack(model.store.raw(x.file)), own)
                    ways[part] |= dict.fromkeys(x.names, (x.how.times, x.how.plus))
        return cls(model, model.spec, tensors, ways, constants)

    def floats(self, part: str) -> Tensors:
        """The tensors of a part as the model uses them."""
        out = {}
        for name, x in self.tensors[part].items():
            times, plus = self.ways[part].get(name, (1.0, 0.0))
            out[name] = as_floats(np.ascontiguousarray(x), np.dtype(np.float64)) * times + plus
        return out

    def as_model(self) -> Model:
        """The model again, with one tensor of the file for each tensor of the design."""
        arrays: dict[str, Array] = {}
        held: dict[str, list[Held]] = {}
        for part in parts(self.spec):
            held[part] = list(self.constants.get(part, ()))
            arrays |= {x.file: self.model.store.raw(x.file) for x in held[part]}
            for name, shape in part_shapes(self.spec, part).items():
                times, plus = self.ways[part].get(name, (1.0, 0.0))
                stacked = len(shape) == 3 and name[:2] in ("W_", "c_") and name[2:] in UNIT_AXES
                how = Stored((name,), name in TABLES, stacked=stacked, times=times, plus=plus)
                own = Held(f"{part}/{name}", how, (shape,))
                plain = replace(own, how=replace(how, times=1.0, plus=0.0))
                arrays[own.file] = plain.pack(self.tensors[part])
                held[part].append(own)
        store = Store.of(self.model.name, self.model.store.config, arrays)
        return replace(self.model, store=store, spec=self.spec, held=held, copies={}, carried=())


def in_one_form(one: Model, two: Model) -> tuple[Model, Model, int | None]:
    """Both with the same tensors, restricted to common tokens; and their number."""
    if set(differing_keys(one.spec, two.spec)) <= {"vocab"}:
        form = in_one_design(one, two)
        return form.one, form.two, form.tokens
    if _tensors(one) == _tensors(two):
        return one, two, None
    return Parts.of(one).as_model(), Parts.of(two).as_model(), None


def in_one_design(one: Model, two: Model) -> OneForm:
    """Both in one design and with the same tensors, as far as that is possible.

    If the designs still differ, both are returned as they were given.
    """
    keys = set(differing_keys(one.spec, two.spec))
    if not keys and _tensors(one) == _tensors(two):
        return OneForm(one, two)
    with_layers = ("attn", "dense") if "layers" in keys else ()
    if not keys <= {*SIZES, *with_layers}:
        return OneForm(one, two)
    both = Parts.of(one), Parts.of(two)
    if keys & {"layers", "ff"}:
        for each in both:
            _leave_out(each)
        if both[0].spec.layers != both[1].spec.layers:
            return OneForm(one, two)
    specs = [_common(own.spec, other.spec) for own, other in (both, both[::-1])]
    if differing_keys(*specs) or (keys - {"vocab"} and not _served(specs[0])):
        return OneForm(one, two)
    said = []
    for name, each, spec in zip(("the first", "the second"), both, specs, strict=True):
        _fit(each, spec)
        said += [f"{name} {what}" for what in each.said]
    tokens = specs[0].vocab if "vocab" in keys else None
    return OneForm(both[0].as_model(), both[1].as_model(), tokens, tuple(said))


def _served(spec: Transformer) -> bool:
    """Whether a design has a normal form."""
    try:
        require_normal_form(spec)
    except (CheckpointError, UnsupportedError):
        return False
    return True


def _tensors(model: Model) -> list[list[str]]:
    """What the tensors of the files hold, part by part."""
    return [[held.label for held in every] for every in model.held.values()]


# --- what has no effect ---------------------------------------------------------------------------


def _leave_out(given: Parts) -> None:
    """Leave out layers that write nothing, and units that no output depends on."""
    spec, unit = given.spec, given.model.roundoff()
    layers = [part for part in parts(spec) if part not in ("embed", "head")]
    kept, dead = list[str](), dict[str, int]()
    for part in layers:
        w = given.floats(part)
        if silent(spec, part, w, unit):
            continue
        kept.append(part)
        found = dead_units(spec.at(part), w, unit)
        if found.any():
            dead[part] = int(found.sum())
            own = given.tensors[part]
            found[0] &= not found.all()  # an MLP has at least one unit
            for name in list(own):
                axis = _unit_axis(name)
                if axis is not None:
                    own[name] = np.compress(~found, own[name], axis=axis)
    if dead:
        given.said.append(f"has {_counted(dead)}")
    if kept and len(kept) < len(layers):
        gone = [part for part in layers if part not in kept]
        given.said.append(
            f"has {len(gone)} {'layers that write' if gone[1:] else 'layer that writes'} nothing "
            f"({', '.join(gone)})"
        )
        _keep(given, kept)
    widths = [w["W_up"].shape[0] for w in given.tensors.values() if _dense(w)]
    given.spec = replace(given.spec, ff=max(widths, default=spec.ff))


def _dense(w: Tensors) -> bool:
    """Whether a part has an MLP that is not one of experts."""
    return "W_up" in w and w["W_up"].ndim == 2


def _counted(dead: Mapping[str, int]) -> str:
    counts = set(dead.values())
    if len(counts) == 1 and len(dead) > 1:
        return f"{counts.pop()} dead MLP units in each of layers {', '.join(dead)}"
    listed = [f"{n} in layer {part}" for part, n in dead.items()]
    first, _, rest = listed[0].partition(" ")
    word = "unit" if first == "1" else "units"
    return ", ".join([f"{first} dead MLP {word} {rest}", *listed[1:]])


def _keep(given: Parts, kept: list[str]) -> None:
    """Only some of the layers, under their new numbers."""
    spec, old = given.spec, [int(part) - 1 for part in kept]
    lists: dict[str, Any] = {}
    for key in ("window", "base", "rescale", "attn", "dense"):
        values: Any = getattr(spec, key)
        if values and isinstance(values, tuple):
            lists[key] = tuple(values[i % len(values)] for i in old)
    if not isinstance(spec.dense, tuple):
        lists["dense"] = sum(i < spec.dense for i in old)
    given.spec = replace(spec, layers=len(old), **lists)
    names = {"embed": "embed", **{str(i): part for i, part in enumerate(kept, 1)}, "head": "head"}
    given.tensors = {new: given.tensors[part] for new, part in names.items()}
    given.ways = {new: given.ways[part] for new, part in names.items()}
    given.constants = {new: given.constants[part] for new, part in names.items()}


# --- what only one of both has --------------------------------------------------------------------


def _common(own: Transformer, other: Transformer) -> Transformer:
    """A design, with everything that the other has and it has not."""
    return replace(
        own,
        kv=lcm(own.kv, other.kv),
        bias=_both(own.bias, other.bias),
        tied=own.tied and other.tied,
        vocab=min(own.vocab, other.vocab),
        **{key: max(getattr(own, key), getattr(other, key)) for key in ("ff", "eff", "shared")},
    )


def _both(one: Bias, two: Bias) -> Bias:
    """The fewest biases that are at least those of both."""
    if one == two or two == "none":
        return one
    if one == "none":
        return two
    return "attn" if {one, two} == {"qkv", "attn"} else "all"


def _fit(given: Parts, spec: Transformer) -> None:
    """The tensors of a larger design with the same function, and fewer tokens, in place."""
    before, given.spec = given.spec, spec
    if spec.kv != before.kv:
        given.said.append(f"has {before.kv} key-value heads, compared as {spec.kv} with copies")
    if before.tied and not spec.tied:
        given.said.append("has a tied table, which is compared as two equal tables")
        given.tensors["head"]["W_U"] = given.tensors["embed"]["tokens"].T
        given.ways["head"]["W_U"] = given.ways["embed"]["tokens"]
    if before.bias != spec.bias:
        given.said.append(f"has {_BIASES[before.bias]}; the missing ones count as zero")
    for part in parts(spec):
        own = given.tensors[part]
        some = next((x.dtype for x in own.values()), np.dtype(np.float32))
        for name, shape in part_shapes(spec, part).items():
            if name not in own:
                own[name] = np.zeros(shape, some)
            elif own[name].shape != shape:
                own[name] = _fitted(name, own[name], shape)


_BIASES = {
    "none": "no biases",
    "qkv": "biases of queries, keys and values only",
    "attn": "biases of attention only",
    "mlp": "biases of MLPs only",
    "all": "all biases",
}


def _fitted(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """A tensor in another shape: copied heads, units that are zero, or the first tokens."""
    axis = _unit_axis(name)
    if axis is not None:
        more = [(0, 0)] * x.ndim
        more[axis] = (0, shape[axis] - x.shape[axis])
        return np.pad(x, more)
    if name in KEYS_AND_VALUES:
        return np.repeat(x, shape[0] // x.shape[0], axis=0)
    if x.ndim == 4:  # queries stay in their order: every copy of a key-value head has some of them
        return x.reshape(shape)
    return x[tuple(slice(n) for n in shape)]


def _unit_axis(name: str) -> int | None:
    """The axis of a tensor of MLPs that counts its units; None if it has none."""
    kind, _, end = name.partition("_")
    if kind not in ("W", "b", "c", "S") or (kind in "bc" and end == "down"):
        return None
    return UNIT_AXES.get(end)
