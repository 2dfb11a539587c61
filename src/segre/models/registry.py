"""The list of families, used by every command.

>>> from_config({"model_type": "gpt2"}, "gpt2").parameters
124439808
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from segre.errors import SpecError
from segre.models.config import Config
from segre.models.family import Family
from segre.models.modules import MODULES
from segre.transformer.spec import Transformer
from segre.values import choice, quote

# The modules of this room with families, in the order in which pages show them.
MODULE_NAMES = (
    *("gpt2", "gpt_neox", "gpt_oss", "opt", "bert", "roberta", "distilbert", "electra"),
    *("modernbert", "llama", "mistral", "minimax", "qwen", "gemma", "smollm3", "granite", "phi3"),
    *("olmo2", "deepseek_v3", "vit"),
)
_EVERY = [
    family
    for name in MODULE_NAMES
    for family in vars(import_module(f"segre.models.{name}")).values()
    if isinstance(family, Family)
]
FAMILIES = {family.name: family for family in _EVERY}
MODEL_TYPES = {family.model_type: family for family in _EVERY}
PRESETS = {name: config for family in _EVERY for name, config in family.presets.items()}


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
