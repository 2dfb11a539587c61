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
from segre.checkpoint.layout import Held, Tensors, layout
from segre.checkpoint.model import Model, described
from segre.checkpoint.reduce import silent, units_without_effect
from segre.checkpoint.served import require_normal_form
from segre.checkpoint.store import Store
from segre.errors import CheckpointError, UnsupportedError
from segre.fields.interface import Array
from segre.models.registry import from_config
from segre.models.stored import Stored
from segre.symmetry.compact import stream_freedom
from segre.transformer.choices import Bias
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts
from segre.values import counted

TABLES = ("tokens", "positions", "types")  # stored by row, as in all files
UNIT_AXES = {"gate": -2, "up": -2, "down": -1}  # of the units of MLPs, by the end of a name
KEYS_AND_VALUES = ("W_K", "b_K", "W_V", "b_V", "normk.gain")
SIZES = ("vocab", "layers", "ff", "eff", "shared", "kv", "bias", "tied")  # keys that may differ


@dataclass(frozen=True)
class OneForm:
    """Two models of one design, if there is one; how they were brought there, in words."""

    one: Model
    two: Model
    tokens: int | None = None  # compared are the first so many; None: all
    said: tuple[str, ...] = ()


@dataclass
class Part:
    """The tensors of a part of a design, in the types of the file, and how numbers are meant."""

    tensors: Tensors = field(default_factory=dict)
    ways: dict[str, tuple[float, float]] = field(default_factory=dict)  # factor and summand
    constants: list[Held] = field(default_factory=list)

    def floats(self) -> Tensors:
        """The tensors as the model uses them."""
        out = {}
        for name, x in self.tensors.items():
            times, plus = self.ways.get(name, (1.0, 0.0))
            out[name] = as_floats(np.ascontiguousarray(x), np.dtype(np.float64)) * times + plus
        return out


@dataclass
class Parts:
    """A model by the tensors of its design: views of what is stored."""

    model: Model
    spec: Transformer
    parts: dict[str, Part]
    said: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, model: Model) -> Parts:
        """Every tensor of the design by itself."""
        parts: dict[str, Part] = {}
        for part, held in model.held.items():
            own = parts[part] = Part(constants=[x for x in held if x.shape])
            for x in (x for x in held if not x.shape):
                plain = replace(x, times=1.0, plus=0.0)
                plain.put(plain.unpack(model.store.raw(x.file)), own.tensors)
                own.ways |= dict.fromkeys(x.names, x.meaning)
        return cls(model, model.spec, parts)

    def as_model(self) -> Model:
        """The model again, with one tensor of the file for each tensor of the design."""
        arrays: dict[str, Array] = {}
        held: dict[str, list[Held]] = {}
        for part in parts(self.spec):
            given = self.parts[part]
            held[part] = list(given.constants)
            arrays |= {x.file: self.model.store.raw(x.file) for x in held[part]}
            for name, shape in part_shapes(self.spec, part).items():
                stacked = len(shape) == 3 and name[:2] in ("W_", "c_") and name[2:] in UNIT_AXES
                how = Stored((name,), name in TABLES, stacked=stacked)
                plain = Held.of(how, f"{part}/{name}", [shape])
                arrays[plain.file] = plain.pack(given.tensors)
                times, plus = given.ways.get(name, (1.0, 0.0))
                held[part].append(replace(plain, times=times, plus=plus))
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
    keys, given = set(differing_keys(one.spec, two.spec)), OneForm(one, two)
    allowed = {*SIZES, *(("attn", "dense") if "layers" in keys else ())}
    if not keys <= allowed or (not keys and _tensors(one) == _tensors(two)):
        return given
    both = Parts.of(one), Parts.of(two)
    if keys & {"layers", "ff"}:
        for each in both:
            _leave_out(each)
        if both[0].spec.layers != both[1].spec.layers:
            return given
    specs = [_common(own.spec, other.spec) for own, other in (both, both[::-1])]
    if differing_keys(*specs) or (keys - {"vocab"} and not _served(specs[0])):
        return given
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
        own = given.parts[part].tensors
        w = given.parts[part].floats()
        if silent(spec, part, w, unit):
            continue
        kept.append(part)
        found = units_without_effect(spec.at(part), w, unit)
        if found.any():
            dead[part] = int(found.sum())
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
    every = (part.tensors["W_up"] for part in given.parts.values() if "W_up" in part.tensors)
    widths = [len(up) for up in every if up.ndim == 2]  # of MLPs that are not of experts
    given.spec = replace(given.spec, ff=max(widths, default=spec.ff))


def _counted(dead: Mapping[str, int]) -> str:
    first, *others = (f"{n} in layer {part}" for part, n in dead.items())
    units = counted(next(iter(dead.values())), "dead MLP unit")
    if others and len({*dead.values()}) == 1:
        return f"{units} in each of layers {', '.join(dead)}"
    return ", ".join([f"{units} {first.partition(' ')[2]}", *others])


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
    names = zip(parts(given.spec), ("embed", *kept, "head"), strict=True)
    given.parts = {new: given.parts[part] for new, part in names}


# --- what only one of both has --------------------------------------------------------------------


def _common(own: Transformer, other: Transformer) -> Transformer:
    """A design, with everything that the other has and it has not."""
    biases = {own.bias, other.bias} - {"none"}  # of several, the fewest that are at least these
    attention: Bias = "attn" if biases == {"qkv", "attn"} else "all"
    both = attention if len(biases) > 1 else next(iter(biases), own.bias)
    return replace(
        own,
        kv=lcm(own.kv, other.kv),
        bias=both,
        tied=own.tied and other.tied,
        vocab=min(own.vocab, other.vocab),
        **{key: max(getattr(own, key), getattr(other, key)) for key in ("ff", "eff", "shared")},
    )


def _fit(given: Parts, spec: Transformer) -> None:
    """The tensors of a larger design with the same function, and fewer tokens, in place."""
    before, given.spec = given.spec, spec
    if spec.kv != before.kv:
        given.said.append(f"has {before.kv} key-value heads, compared as {spec.kv} with copies")
    if before.tied and not spec.tied:
        given.said.append("has a tied table, which is compared as two equal tables")
        embed, head = given.parts["embed"], given.parts["head"]
        head.tensors["W_U"] = embed.tensors["tokens"].T
        head.ways["W_U"] = embed.ways["tokens"]
    if before.bias != spec.bias:
        given.said.append(f"has {_BIASES[before.bias]}; the missing ones count as zero")
    for part in parts(spec):
        own = given.parts[part].tensors
        some = next((x.dtype for x in own.values()), np.dtype(np.float32))
        for name, shape in part_shapes(spec, part).items():
            x = own.get(name)
            own[name] = np.zeros(shape, some) if x is None else _fitted(name, x, shape)


_BIASES = {
    "none": "no biases",
    "qkv": "biases of queries, keys and values only",
    "attn": "biases of attention only",
    "mlp": "biases of MLPs only",
    "all": "all biases",
}


def _fitted(name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """A tensor in another shape: copied heads, units that are zero, or the first tokens."""
    if x.shape == shape:
        return x
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


def untied(model: Model) -> Model:
    """The model with a copy of its token table as unembedding; unchanged if it has one already.

    The function stays the same. But the gain of the last norm, which a tied table cannot absorb, is
    then absorbed by the unembedding: the stream of a pre-norm model can be rotated by any
    orthogonal matrix, not only permuted.
    """
    if not model.spec.tied:
        return model
    config = {**model.store.config, "tie_word_embeddings": False}
    spec = from_config(config, model.name, defaults=False)
    where = {
        name: held.file
        for every in layout(spec, model.family, config).values()
        for held in every
        for name in held.names
    }
    table = next(held.file for held in model.held["embed"] if "tokens" in held.names)
    if spec.transform or "W_U" not in where or stream_freedom(spec) != "orthogonal":
        raise UnsupportedError(
            f"{model.name!r}: --untie has no effect on a {model.family} model; allowed: pre-norm "
            "models"
        )
    return described(model.store.with_copy(table, where["W_U"], config))
