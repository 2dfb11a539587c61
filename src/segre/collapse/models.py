"""Models that can be run on tokens: a checkpoint, or a spec with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.checkpoint.model import described
from segre.checkpoint.store import CONFIG, Store, has_weights, is_directory
from segre.errors import SpecError, TooLargeError, UnsupportedError
from segre.files import shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.models import KINDS, PRESETS, architecture
from segre.spec import Network
from segre.transformer.drawn import Drawn
from segre.transformer.forward import WeightSource
from segre.transformer.spec import Transformer
from segre.transformer.tensors import largest_stage
from segre.values import quote, read_file

Source = str | Path | Mapping[str, Any] | Network | Transformer


@dataclass(frozen=True)
class Loaded:
    """A transformer up to its last hidden states, its weights, and where they are from."""

    name: str
    family: str
    weights: WeightSource
    folder: Path | None = None  # of its config; there may be a tokenizer
    seed: int | None = None  # of random weights; None: they are trained

    @property
    def spec(self) -> Transformer:
        """Its architecture."""
        return self.weights.spec

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
        """How many tokens it knows."""
        return self.spec.vocab

    @property
    def longest(self) -> int | None:
        """The longest input, if there is a table of positions."""
        return self.spec.positions - self.spec.offset or None

    @property
    def parameters(self) -> int:
        """How many weights it has, those of a head aside."""
        return self.spec.parameters

    def require_memory(self, what: str, needed: int, limit: int) -> None:
        """Stop, saying what would be needed, if so many bytes are over the limit."""
        if needed > limit:
            raise TooLargeError(
                f"model {quote(self.name)}: {self.parameters:,} parameters; {what} are "
                f"{needed / 2**30:,.1f} GiB, over the limit of {limit / 2**30:,.1f} GiB; raise it "
                "with --memory, or take a smaller model"
            )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "model": shown(self.name),
            "family": self.family,
            "weights": "trained" if self.seed is None else "random",
            "seed": self.seed,
            "layers": self.layers,
            "width": self.width,
            "heads": self.heads,
            "parameters": self.parameters,
        }


def load(given: Source, seed: int = 0, *, memory: int = DEFAULT_LIMIT) -> Loaded:
    """The model that is meant; random weights are seeded.

    A directory with weights means them: safetensors files, mapped; pickles are never read and
    nothing is fetched. Random weights are meant by a directory with a config alone, a config.json,
    the name of a preset, and every spec of a transformer with a vocabulary. Only one sub-layer's
    weights are in memory at a time.
    """
    if isinstance(given, str | Path) and _is_checkpoint(given):
        loaded = _trained(Path(given))
    else:
        loaded = _random(given, seed)
    largest = largest_stage(loaded.spec)
    loaded.require_memory("those of one sub-layer, stored and as floats,", 8 * largest, memory)
    if loaded.seed is not None:  # not all at once; but drawing them takes as long as running them
        loaded.require_memory("the random weights", 4 * loaded.parameters, memory)
    return loaded


def _is_checkpoint(given: str | Path) -> bool:
    return given not in PRESETS and not _is_inline(given) and has_weights(Path(given))


def _is_inline(given: str | Path) -> bool:
    return isinstance(given, str) and "=" in given and given.partition("/")[0] in KINDS


def _trained(folder: Path) -> Loaded:
    store = Store.open(folder)
    _require_known(store.config, str(folder))
    model = described(store, trunk=True)
    return Loaded(str(folder), model.family, model, folder)


def _random(given: Source, seed: int) -> Loaded:
    name, folder = str(given), None
    if isinstance(given, Mapping):
        name = str(dict(given))
        _require_known(given, name)
    spec = architecture(given)
    if isinstance(spec, Network):
        raise UnsupportedError(f"spec {quote(name)}: a stack of attention layers takes no tokens")
    if not spec.discrete:
        raise SpecError(f"spec {quote(name)}: give a vocabulary, for example vocab=1000")
    if isinstance(given, str | Path) and not _is_inline(given) and name not in PRESETS:
        folder = Path(given) if Path(given).is_dir() else Path(given).parent
    return Loaded(name, family_of(given), Drawn(spec.trunk(), seed), folder, seed)


def family_of(given: Source) -> str:
    """What the family of an architecture is called: as configs say it, or as inline specs do."""
    config: Mapping[str, Any]
    if isinstance(given, Network | Transformer):
        config = {"kind": "transformer"}
    elif isinstance(given, Mapping):
        config = given
    elif _is_inline(given):
        config = {"kind": str(given).partition("/")[0]}
    elif str(given) in PRESETS:
        config = PRESETS[str(given)]
    else:
        path = Path(given) / CONFIG if is_directory(Path(given)) else Path(given)
        config = read_file(path) if path.suffix in {".json", ".toml"} else {}
    return str(config.get("kind") or config.get("model_type")).replace("-", "_")


def _require_known(config: Mapping[str, Any], name: str) -> None:
    beyond = {
        "relative positions with two streams": config.get("model_type") == "xlnet",
        "quantised weights (quantization_config)": config.get("quantization_config") is not None,
    }
    for what, there in beyond.items():
        if there:
            raise UnsupportedError(f"model {quote(name)}: has {what}, which specs cannot say")
