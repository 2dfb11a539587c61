"""Which architecture is an object in memory: a model, its config, a state dict with a config?

Objects are recognised by their attributes, so that no library has to be imported: a config has
`model_type` and `to_dict`, a model has such a `config` and a `state_dict`. Modules of torch.nn are
recognised only if torch has been imported already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from segre.errors import SpecError
from segre.models.modules import module_config

Arrays = Mapping[str, Any]  # by name: arrays of NumPy, or tensors of torch


@dataclass(frozen=True)
class Live:
    """A config, with weights if there are any; `name` is used in errors and reports."""

    name: str
    config: Mapping[str, Any]
    tensors: Callable[[], Arrays] | None = None


def live(source: Any) -> Live | None:
    """The config of an object, if it is one of these; None for names, mappings and specs."""
    source = getattr(source, "as_checkpoint", source)  # what a command of `checkpoints` returned
    if isinstance(source, tuple):
        return _pair(source)
    if isinstance(source, Mapping):
        _refuse_state_dict(source)
        return None
    for wrapper in ("_orig_mod", "module"):  # of torch.compile, of parallel training
        inside = getattr(source, wrapper, None)
        if _is_config(getattr(inside, "config", None)):
            source = inside
    kind = type(source).__name__
    if _is_config(source):
        return Live(kind, _as_saved(source))
    if _is_config(getattr(source, "config", None)) and callable(
        getattr(source, "state_dict", None)
    ):
        config = {**_as_saved(source.config), "architectures": [_class(source)]}
        return Live(kind, config, source.state_dict)
    keys = module_config(source)
    return None if keys is None else Live(kind, keys, source.state_dict)


def _is_config(source: Any) -> bool:
    known = isinstance(getattr(source, "model_type", None), str)
    return known and not isinstance(source, type) and callable(getattr(source, "to_dict", None))


def _as_saved(config: Any) -> dict[str, Any]:
    """The keys that the library would write into config.json."""
    read = getattr(config, "to_diff_dict", config.to_dict)
    return {**read(), "model_type": config.model_type}


def _class(model: Any) -> str:
    """The library's class of a model; the model may be an instance of a subclass."""
    every = [one for one in type(model).__mro__ if one.__module__.startswith("transformers.")]
    return every[0].__name__ if every else type(model).__name__


def _pair(source: tuple[Any, ...]) -> Live:
    """A state dict and a config, in this order."""
    if len(source) == 2:
        tensors, given = source
        held = live(given)
        config = given if held is None else held.config
        if isinstance(tensors, Mapping) and isinstance(config, Mapping):
            return Live(f"a state dict of {config.get('model_type')}", config, lambda: tensors)
    raise SpecError("unknown tuple; allowed: a state dict and a config, in this order")


def _refuse_state_dict(source: Mapping[Any, Any]) -> None:
    """Refuse a state dict alone, which does not determine the architecture."""
    if any(hasattr(value, "shape") for value in source.values()):
        raise SpecError(
            "a state dict alone does not determine the architecture; give it with its config: "
            "(state_dict, config)"
        )
