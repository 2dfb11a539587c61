"""Opening whatever can be run on tokens: a checkpoint, or a design, which gets random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from segre.checkpoint.model import Model, described
from segre.checkpoint.opening import opened, trained
from segre.errors import SegreError, SpecError, UnsupportedError
from segre.geometry.memory import DEFAULT_LIMIT
from segre.models import PRESETS, Source, called, only, with_attention
from segre.models.live import live
from segre.models.names import meaning
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.transformer.tensors import largest_stage
from segre.values import quote, read_file


def open_model(source: Source, seed: int = 0) -> Model:
    """Open a model, once for all questions about it: `with segre.open("directory") as model:`.

    A `source` that is a directory with safetensors files (memory-mapped; pickles are never read and
    nothing is downloaded) or a model in memory has its own weights. A directory with only a config,
    a config.json, the name of a preset and the spec of a transformer with a vocabulary get random
    weights, which are drawn with the `seed` when they are needed. Every function that takes a
    checkpoint or an architecture also takes an opened model. Where the head of a checkpoint is of a
    kind that is not known, the model ends with its hidden states.

    >>> model = open_model("gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16", seed=1)
    >>> model
    <Model: gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16 (gpt2), 2 layers of width 16, ...>
    >>> model.spec.output, model.part("1")["W_Q"].shape
    ('logits', (2, 1, 8, 16))
    """
    if isinstance(source, Model):
        return replace(source, lent=True)
    if not trained(source):
        return _drawn(source, seed)
    store = opened(source)
    try:
        return described(store)
    except SegreError:
        _require_known(store.config, store.name)
        return described(store, trunk=True)


def load(source: Source, seed: int = 0, *, memory: int = DEFAULT_LIMIT) -> Model:
    """The model up to its last hidden states. Only one sub-layer's weights are in memory at a time.

    Other tensors than those of the layers and embeddings do not matter, and may be unknown.
    """
    found = open_model(source, seed).trunk
    largest = largest_stage(found.spec)
    found.require_memory("the weights of one sub-layer, stored and as floats,", 8 * largest, memory)
    if found.random is not None:  # not all at once; but drawing them takes as long as running them
        found.require_memory("the random weights", 4 * found.spec.parameters, memory)
    return found


def _drawn(source: Source, seed: int) -> Model:
    if isinstance(source, Mapping):
        _require_known(source, str(dict(source)))
    with_attention(source, "this command")
    spec = only(
        Transformer,
        source,
        "a stack of attention layers does not take tokens; give a transformer with a vocabulary",
    )
    if not spec.embedded:
        raise SpecError(
            f"spec {quote(called(source))} has no vocabulary; add one, for example vocab=1000"
        )
    found = meaning(source) if isinstance(source, str | Path) else None
    folder = None if found is None else found.folder
    return Model.drawn(spec, seed, called(source), family_of(source), folder)


def family_of(source: Source) -> str:
    """What the family of an architecture is called: as configs say it, or as inline specs do."""
    config: Mapping[str, Any] = {}
    held = live(source)
    if isinstance(source, Model):
        return source.family
    if isinstance(source, Network | Transformer):
        config = {"kind": "transformer"}
    elif held is not None:
        config = held.config
    elif isinstance(source, Mapping):
        config = source
    elif isinstance(source, str | Path) and (found := meaning(source)) is not None:
        if found.inline:
            config = {"kind": found.kind}
        elif found.preset:
            config = PRESETS[found.preset]
        elif found.file is not None:
            config = read_file(found.file)
    return str(config.get("kind") or config.get("model_type")).replace("-", "_").lower()


def _require_known(config: Mapping[str, Any], name: str) -> None:
    beyond = {
        "relative positions with two streams": config.get("model_type") == "xlnet",
        "quantised weights (quantization_config)": config.get("quantization_config") is not None,
    }
    for what, there in beyond.items():
        if there:
            raise UnsupportedError(f"model {quote(name)} has {what}, which specs do not support")
