"""Models that can be run on tokens: a checkpoint, or a spec with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.checkpoint.inputs import longest, vocabulary
from segre.checkpoint.model import described
from segre.checkpoint.opening import opened, trained
from segre.errors import SpecError, TooLargeError, UnsupportedError
from segre.files import shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.models import PRESETS, Source, called, only
from segre.models.live import live
from segre.models.names import meaning
from segre.spec import Network
from segre.transformer.drawn import Drawn
from segre.transformer.forward import WeightSource
from segre.transformer.spec import Transformer
from segre.transformer.tensors import largest_stage
from segre.values import quote, read_file


@dataclass(frozen=True)
class Runnable:
    """A transformer, its weights, and where they are from."""

    name: str
    weights: WeightSource
    folder: Path | None = None  # of its config; there may be a tokenizer
    seed: int | None = None  # of random weights; None: they are trained

    @property
    def spec(self) -> Transformer:
        """Its architecture."""
        return self.weights.spec

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "model": shown(self.name),
            "weights": "trained" if self.seed is None else "random",
            "seed": self.seed,
            "layers": self.spec.layers,
            "width": self.spec.d,
            "heads": self.spec.heads,
            "parameters": self.spec.parameters,
        }


@dataclass(frozen=True)
class Loaded(Runnable):
    """A transformer up to its last hidden states."""

    family: str = ""

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return self.spec.layers

    @property
    def width(self) -> int:
        """The width of the stream."""
        return self.spec.d

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return self.spec.heads

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows; of a model of patches, how many random ones there are."""
        return vocabulary(self.spec)

    @property
    def longest(self) -> int | None:
        """The longest input, if there is a table of positions."""
        return longest(self.spec)

    @property
    def parameters(self) -> int:
        """How many weights it has, those of a head aside."""
        return self.spec.parameters

    def require_memory(self, what: str, needed: int, limit: int) -> None:
        """Raise an error that names the memory needed, if it is over the limit."""
        if needed > limit:
            raise TooLargeError(
                f"model {quote(self.name)}: {self.parameters:,} parameters; {what} need "
                f"{needed / 2**30:,.1f} GiB, over the limit of {limit / 2**30:,.1f} GiB; "
                "raise the limit with --memory, or choose a smaller model"
            )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {**super().document(), "family": self.family}


def load(given: Source, seed: int = 0, *, memory: int = DEFAULT_LIMIT) -> Loaded:
    """Load a model; random weights are seeded.

    A directory with safetensors files (memory-mapped; pickles are never read and nothing is
    downloaded) and a model in memory have their own weights. A directory with only a config, a
    config.json, the name of a preset and the spec of a transformer with a vocabulary get random
    weights. Only the weights of one sub-layer are in memory at a time.
    """
    loaded = _trained(given) if trained(given) else _random(given, seed)
    largest = largest_stage(loaded.spec)
    loaded.require_memory(
        "the weights of one sub-layer, stored and as floats,", 8 * largest, memory
    )
    if loaded.seed is not None:  # not all at once; but drawing them takes as long as running them
        loaded.require_memory("the random weights", 4 * loaded.parameters, memory)
    return loaded


def _trained(given: Source) -> Loaded:
    store = opened(given)
    _require_known(store.config, store.name)
    model = described(store, trunk=True)
    return Loaded(store.name, model, store.directory, family=model.family)


def _random(given: Source, seed: int) -> Loaded:
    if isinstance(given, Mapping):
        name = str(dict(given))
        _require_known(given, name)
    else:
        name = called(given)
    spec = with_vocabulary(given)
    found = meaning(given) if isinstance(given, str | Path) else None
    folder = None if found is None else found.folder
    return Loaded(name, Drawn(spec.trunk(), seed), folder, seed, family_of(given))


def with_vocabulary(given: Source) -> Transformer:
    """The transformer of a spec, which must take tokens."""
    spec = only(
        Transformer,
        given,
        "a stack of attention layers does not take tokens; give a transformer with a vocabulary",
    )
    if not spec.embedded:
        raise SpecError(
            f"spec {quote(called(given))} has no vocabulary; add one, for example vocab=1000"
        )
    return spec


def family_of(given: Source) -> str:
    """What the family of an architecture is called: as configs say it, or as inline specs do."""
    config: Mapping[str, Any] = {}
    held = live(given)
    if isinstance(given, Network | Transformer):
        config = {"kind": "transformer"}
    elif held is not None:
        config = held.config
    elif isinstance(given, Mapping):
        config = given
    elif isinstance(given, str | Path) and (found := meaning(given)) is not None:
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
