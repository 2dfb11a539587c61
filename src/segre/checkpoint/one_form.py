"""Two checkpoints in a common form, if their files store experts or padding differently.

Files have a tensor for each expert, or one for all experts of a layer; tables of tokens often have
rows after the last token, so that their length is a multiple of some number. Both are views of
what is stored: nothing is copied.
"""

from __future__ import annotations

from dataclasses import replace

from segre.checkpoint.function import differing_keys
from segre.checkpoint.layout import Held, Tensors, layout
from segre.checkpoint.model import Model, described
from segre.checkpoint.store import Store
from segre.fields.interface import Array
from segre.transformer.tensors import part_shapes


def in_one_form(one: Model, two: Model) -> tuple[Model, Model, int | None]:
    """Both with experts stored in the same way, restricted to common tokens; and their number."""
    tokens = None
    if differing_keys(one.spec, two.spec) == ["vocab"]:
        tokens = min(one.spec.vocab, two.spec.vocab)
        one, two = first_tokens(one, tokens), first_tokens(two, tokens)
    if labels(one) != labels(two):
        one, two = one_by_one(one), one_by_one(two)
    return one, two, tokens


def labels(model: Model) -> list[list[str]]:
    """What the tensors of the files hold, part by part."""
    return [[held.label for held in every] for every in model.held.values()]


def first_tokens(model: Model, count: int) -> Model:
    """The model on its first tokens: shorter tables, and a config that says so."""
    store = model.store
    if model.spec.vocab == count:
        return model
    shorter = replace(model.spec, vocab=count)
    files = {
        held.file
        for part, every in model.held.items()
        for held in every
        for name in held.names
        if part_shapes(shorter, part)[name] != part_shapes(model.spec, part)[name]
    }
    files |= {copy for copy, original in model.copies.items() if original in files}
    arrays = {
        name: store.raw(name)[:count] if name in files else store.raw(name)
        for name in store.entries
        if name not in model.unused
    }
    config = {**store.config, "vocab_size": count}
    return described(Store.of(store.name, config, arrays), compare=False)


def one_by_one(model: Model) -> Model:
    """The model with a tensor for each expert, as its family stores them."""
    store = model.store
    wanted = layout(model.spec, model.family, store.config)
    arrays: dict[str, Array] = {}
    for part, every in wanted.items():
        there = {held.label: held for held in model.held[part]}
        whole: Tensors = {}
        for held in model.held[part]:
            if held.how.stacked:
                whole |= _plain(held).unpack(store.raw(held.file))
        for held in every:
            found = there.get(held.label)
            arrays[held.file] = _plain(held).pack(whole) if found is None else store.raw(found.file)
    return replace(model, store=Store.of(store.name, store.config, arrays), held=wanted, copies={})


def _plain(held: Held) -> Held:
    """The same tensor as it is stored, without a factor: both ways have the same one."""
    return replace(held, how=replace(held.how, times=1.0))
