"""Which model of the transformers library is meant: its config, and where its weights are.

>>> found = source("llama/d=8/heads=4/kv=2/ff=16/vocab=11/t=32")
>>> found.config["model_type"], found.config["num_key_value_heads"], found.trained
('llama', 2, False)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from segre.checkpoint.reading import read_json
from segre.checkpoint.store import CONFIG, LONGEST_CONFIG, PICKLES, Store
from segre.errors import UnsupportedError
from segre.files import is_standard_input
from segre.models import KINDS, PRESETS, architecture
from segre.models.registry import to_config
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.values import quote, read_file, show

SUPPORTED = ("bert", "albert", "xlnet", "gpt2", "llama", "mistral", "qwen2", "qwen3")
# The third model of the paper; segre has no family for it.
NAMED: dict[str, dict[str, Any]] = {
    "xlnet-base-cased": {
        "model_type": "xlnet",
        "architectures": ["XLNetLMHeadModel"],
        "attn_type": "bi",
        "bi_data": False,
        "d_head": 64,
        "d_inner": 3072,
        "d_model": 768,
        "ff_activation": "gelu",
        "n_head": 12,
        "n_layer": 12,
        "untie_r": True,
        "vocab_size": 32000,
    }
}
# What would change the layers in ways that surgery does not know, by key: the values allowed.
ONLY: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "inner_group_num": (1,),
    "is_encoder_decoder": (False,),
    "num_hidden_groups": (1,),
    "pruned_heads": ({},),
    "quantization_config": (),
}


@dataclass(frozen=True)
class Source:
    """A config of the library, and the folder it is from; with its weights, if `trained`."""

    name: str
    config: Mapping[str, Any]
    folder: Path | None = None
    trained: bool = False


def source(given: str | Path | Mapping[str, Any]) -> Source:
    """The model that is meant.

    A directory with weights means them. Random weights are meant by a directory with a config
    alone, a config.json, the name of a preset, an inline spec of a family that the library has
    (it needs `vocab`, and `t` rows of positions), and a mapping: a config, or a spec.
    """
    if isinstance(given, Mapping):
        return _described(given, str(dict(given)))
    name = str(given)
    if isinstance(given, str):
        kind, _, rest = given.partition("/")
        if given in NAMED or given in PRESETS:
            return _described(NAMED.get(given) or PRESETS[given], name)
        if kind in KINDS and "=" in rest:
            return _of_spec(kind, architecture(given), name)
    path = Path(given)
    if _is_directory(path):
        return _directory(path)
    if path.suffix in {".json", ".toml"} or is_standard_input(path):
        return replace(_described(read_file(path), name), folder=path.parent)
    architecture(given)  # says what is wrong with names that are not known
    raise _no_model(name, "this")


def _is_directory(path: Path) -> bool:
    try:
        return str(path).isprintable() and path.is_dir()
    except OSError:  # a name too long, a directory closed to us
        return False


def has_weights(path: Path) -> bool:
    """Whether it is a directory with files that would be weights, or one that cannot be read."""
    if not _is_directory(path):
        return False
    weights = (".safetensors", ".safetensors.index.json", ".gguf", *PICKLES)
    try:
        return any(name.endswith(weights) for name in os.listdir(path))  # noqa: PTH208 (names)
    except OSError:
        return True  # let the store say why


def _directory(path: Path) -> Source:
    """A model directory; what would be weights in it must be weights that can be read."""
    if has_weights(path):
        with Store.open(path) as store:
            return Source(str(path), _allowed(store.config, str(path)), path, trained=True)
    return replace(_described(read_json(path / CONFIG, LONGEST_CONFIG), str(path)), folder=path)


def _described(given: Mapping[str, Any], name: str) -> Source:
    """Random weights of a config, or of a spec."""
    if "kind" not in given and "model_type" in given:
        return Source(name, _allowed(given, name))
    return _of_spec(str(given.get("kind")), architecture(given), name)


def _of_spec(family: str, spec: Network | Transformer, name: str) -> Source:
    if isinstance(spec, Network):
        raise _no_model(name, "a stack of attention layers")
    if family == "transformer":
        raise _no_model(name, "the kind transformer")
    _allowed({"model_type": family.replace("-", "_")}, name)
    return Source(name, _allowed(to_config(family, spec, name), name))


def _no_model(name: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"spec {quote(name)}: {what} has no model in the transformers library; allowed: "
        f"{', '.join(SUPPORTED)}"
    )


def _allowed(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    kind = config.get("model_type")
    if kind not in SUPPORTED:
        raise UnsupportedError(
            f"model {quote(name)}: model_type {quote(str(kind))} cannot be operated on; allowed: "
            f"{', '.join(SUPPORTED)}"
        )
    for key, allowed in ONLY.items():
        if config.get(key) not in (None, *allowed):
            listed = ", ".join(map(show, allowed)) or "none"
            raise UnsupportedError(
                f"model {quote(name)}: {key}={quote(str(config[key]))} is not supported; allowed: "
                f"{listed}"
            )
    return config
