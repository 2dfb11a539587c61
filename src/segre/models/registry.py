"""The list of families, used by every command.

>>> from_config({"model_type": "gpt2"}, "gpt2").parameters
124439808
>>> to_config("llama", from_config(PRESETS["llama-3-8b"], "it"), "it")["num_key_value_heads"]
8
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from segre.errors import SpecError
from segre.models.config import Config
from segre.models.family import Family
from segre.models.modules import MODULES
from segre.transformer.choices import KEYS
from segre.transformer.spec import Transformer
from segre.values import choice, quote, show

# The modules of this room with a family, in the order in which pages show them.
MODULE_NAMES = (
    *("gpt2", "gpt_neox", "gpt_oss", "opt", "bert", "roberta", "xlm_roberta", "distilbert"),
    *("electra", "albert", "modernbert", "llama", "mistral", "mixtral", "minimax", "qwen2"),
    *("qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "smollm3", "granite", "phi3"),
    *("olmo2", "deepseek_v3", "vit", "dinov2"),
)
_EVERY: list[Family] = [import_module(f"segre.models.{name}").FAMILY for name in MODULE_NAMES]
FAMILIES = {family.name: family for family in _EVERY}
MODEL_TYPES = {family.model_type: family for family in _EVERY}
PRESETS = {name: config for family in _EVERY for name, config in family.presets.items()}
# What a spec says beside the layers and their input.
ASIDE = ("t", "output", "tied", "transform", "outbias", "pooler", "logitcap")


def family_of(config: Mapping[str, Any]) -> Family:
    """The family of a config, or of a module of torch.nn."""
    given = config.get("model_type")
    if isinstance(given, str) and given in MODULES:
        return MODULES[given]
    if "model_type" not in config:
        raise SpecError(f"model_type is missing; allowed: {', '.join(MODEL_TYPES)}")
    if isinstance(config.get("text_config"), Mapping) and given not in MODEL_TYPES:
        raise SpecError(
            f"model_type: {quote(str(given))} has a language model inside, which is read if "
            "config.json is what is here in text_config"
        )
    return MODEL_TYPES[choice("model_type", config["model_type"], tuple(MODEL_TYPES))]


def from_config(config: Mapping[str, Any], quoted: str, *, defaults: bool = True) -> Transformer:
    """The architecture of a config; `quoted` is how errors name it.

    Missing sizes are taken from the library's config class or, with `defaults` = False, refused by
    name.
    """
    try:
        family = family_of(config)
        keys = Config(config, family)
        values = family.read(keys)
        if keys.missing and not defaults:
            raise SpecError(
                f"the config of {family.model_type} lacks {', '.join(keys.missing)}; add them, or "
                "use the defaults of the library's config class (--defaults; in Python "
                "architecture(config, defaults=True))"
            )
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    return Transformer.from_mapping(values, quoted, family.inline(values))


def to_config(family: str, spec: Transformer, quoted: str) -> dict[str, Any]:
    """The config of a spec with a vocabulary, in a family; refused if it does not read back.

    The head is that of the family's class: other keys of the spec about it are ignored.
    """
    found = FAMILIES[family]
    words = "vocab_size" in found.defaults
    if spec.discrete != words or bool(spec.patch) == words:
        wanted = (
            "a vocabulary, for example vocab=1000" if words else "patches, for example patch=12"
        )
        raise SpecError(f"spec {quote(quoted)}: give {wanted}")
    labels = spec.labels or (spec.relation if found.related is None else 0)
    config = {
        "model_type": found.model_type,
        "architectures": [found.class_of(spec)],
        **({"vocab_size": spec.vocab, "tie_word_embeddings": spec.tied} if words else {}),
        **({"num_labels": labels} if labels else {}),
        **found.write(spec),
    }
    back = from_config(config, quoted)
    for key in KEYS:
        value, allowed = getattr(spec, key), getattr(back, key)
        if key not in ASIDE and allowed != value:
            raise SpecError(
                f"spec {quote(quoted)}: {key}={show(value)} cannot be expressed in a config of "
                f"{family}; allowed: {show(allowed)}"
            )
    return config
