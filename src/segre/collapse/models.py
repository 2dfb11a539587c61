"""Models of the transformers library, ready to be run: single precision, patterns computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.checkpoint.reading import refusal
from segre.collapse.library import libraries, quiet, reason
from segre.collapse.sources import Source, source
from segre.errors import SpecError, TooLargeError
from segre.files import shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.models.registry import MODEL_TYPES
from segre.spec import DEEPEST
from segre.values import quote

XLNET = "XLNet"  # the third model of the paper; segre has no family for it
# What changes how a model computes, but not what.
COMPUTING: dict[str, Any] = {
    "chunk_size_feed_forward": 0,
    "reorder_and_upcast_attn": False,
    "use_cache": False,
    "use_mems_eval": False,
    "output_attentions": False,
    "output_hidden_states": False,
    "return_dict": True,
}


@dataclass(frozen=True)
class Loaded:
    """A model without a head, and where it is from."""

    name: str
    family: str
    model: Any
    folder: Path | None = None  # of its config; there may be a tokenizer
    seed: int | None = None  # of random weights; None: they are trained

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return int(self.model.config.num_hidden_layers)

    @property
    def width(self) -> int:
        """The width of the stream."""
        return int(self.model.config.hidden_size)

    @property
    def heads(self) -> int:
        """Heads of a layer."""
        return int(self.model.config.num_attention_heads)

    @property
    def activation(self) -> str:
        """What the library calls the activation of its MLPs."""
        config = self.model.config
        return str(getattr(config, "hidden_act", getattr(config, "activation_function", "")))

    @property
    def decoder_of_an_encoder(self) -> bool:
        """Whether a model that sees all tokens is used with a causal mask."""
        return bool(getattr(self.model.config, "is_decoder", False))

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        return int(self.model.config.vocab_size)

    @property
    def longest(self) -> int | None:
        """The longest input, if there is a table of positions."""
        if self.family not in MODEL_TYPES or MODEL_TYPES[self.family].rotary:
            return None
        return int(self.model.config.max_position_embeddings)

    @property
    def parameters(self) -> int:
        """How many weights it has, those of a head aside."""
        return sum(int(weight.numel()) for weight in self.model.parameters())

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


def load(
    given: str | Path | Mapping[str, Any], seed: int = 0, *, memory: int = DEFAULT_LIMIT
) -> Loaded:
    """A model, by what `segre.collapse.sources.source` reads; random weights are seeded.

    Weights are those of safetensors files, in float32, and finite; pickles are never read and
    nothing is fetched. Attention is computed in the way that has patterns ("eager").
    """
    found = source(given)
    torch, transformers = libraries()
    with quiet():
        config = _config(found, transformers)
        family = str(found.config["model_type"])
        known = MODEL_TYPES.get(family)
        kind = getattr(transformers, known.base_class if known else f"{XLNET}Model")
        rest = {"add_pooling_layer": False} if known and known.pooler else {}
        require_memory(found.name, _size(found, torch, kind, config, rest), 4, memory)
        if found.trained:
            model = _trained(found, torch, kind, config, rest)
        else:
            model = _random(torch, kind, config, rest, seed)
    _require_finite(found, torch, model)
    random = None if found.trained else seed
    return Loaded(found.name, family, model.eval(), found.folder, random)


def _config(found: Source, transformers: Any) -> Any:
    """The config as the library reads it."""
    family = str(found.config["model_type"])
    aside = (*COMPUTING, "dtype", "torch_dtype", "attn_implementation", "_attn_implementation")
    given = {key: value for key, value in found.config.items() if key not in aside}
    try:
        known = MODEL_TYPES.get(family)
        stem = known.base_class.removesuffix("Model") if known else XLNET
        config = getattr(transformers, f"{stem}Config").from_dict(given)
        layers = int(config.num_hidden_layers)
    except Exception as error:  # whatever the library raises on values that it does not know
        raise SpecError(f"model {quote(found.name)}: config: {reason(error)}") from None
    if not 1 <= layers <= DEEPEST:
        raise SpecError(
            f"model {quote(found.name)}: {layers} layers; allowed: 1 to {DEEPEST}"
        ) from None
    for key, value in COMPUTING.items():
        if hasattr(config, key):
            setattr(config, key, value)
    return config


def _size(found: Source, torch: Any, kind: Any, config: Any, rest: Mapping[str, Any]) -> int:
    """How many weights the model has; nothing is allocated."""
    try:
        with torch.device("meta"):
            model = kind._from_config(config, attn_implementation="eager", **rest)
        return sum(int(weight.numel()) for weight in model.parameters())
    except Exception as error:  # whatever torch raises on sizes that do not go together
        raise SpecError(f"model {quote(found.name)}: config: {reason(error)}") from None


def require_memory(name: str, parameters: int, each: int, limit: int) -> None:
    """Stop, saying what would be needed, if so many bytes for each weight are over the limit."""
    if each * parameters > limit:
        raise TooLargeError(
            f"model {quote(name)}: {parameters:,} parameters need "
            f"{each * parameters / 2**30:,.1f} GiB of memory, over the limit of "
            f"{limit / 2**30:,.1f} GiB; raise it with --memory, or take a smaller model"
        )


def _random(torch: Any, kind: Any, config: Any, rest: Mapping[str, Any], seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind._from_config(config, dtype=torch.float32, attn_implementation="eager", **rest)


def _trained(found: Source, torch: Any, kind: Any, config: Any, rest: Mapping[str, Any]) -> Any:
    """The weights of a directory; the library would draw missing ones at random."""
    folder = Path(found.name)
    try:
        with torch.random.fork_rng(devices=[]):
            model, report = kind.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                attn_implementation="eager",
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **rest,
            )
    except Exception as error:  # whatever libraries raise on files that they cannot read
        raise refusal(folder, f"cannot be loaded ({reason(error)})") from None
    for name in sorted(report["missing_keys"]):
        raise refusal(folder, f"tensor {quote(name)} is not in it")
    return model


def _require_finite(found: Source, torch: Any, model: Any) -> None:
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise refusal(
                Path(found.name),
                f"tensor {quote(name)} is not finite in float32; weights must be finite",
            )
