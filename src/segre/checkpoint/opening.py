"""Open the weights of a directory, a file, a hub model or a model in memory.

This is the only place that decides it. Torch tensors are used in place; tensors on another device
are copied. Quantised weights, which are codes and scales, are refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from segre.checkpoint.layout import Held, layout
from segre.checkpoint.reading import has_weights, is_directory, is_tensor_file, refusal
from segre.checkpoint.store import Store
from segre.errors import CheckpointError, SpecError
from segre.fields.interface import Array
from segre.models.family import BEFORE
from segre.models.live import Live, live
from segre.models.names import advice, is_id, meaning, snapshot
from segre.models.registry import PRESETS, family_of, from_config
from segre.values import quote

# Types of torch that NumPy has no name for, as integers of the same width and what they are.
_VIEWED = {
    "torch.bfloat16": ("int16", ml_dtypes.bfloat16),
    "torch.float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "torch.float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
}


def opened(source: Any) -> Store:
    """The store of what a user gave: a model directory, a .safetensors file with its config beside
    it, the id of a model in the local cache of the Hugging Face hub, a model of the transformers
    library or of torch.nn, a pair of a state dict and a config, or what `canonical` and others
    returned.
    """
    source = getattr(source, "as_checkpoint", source)
    if isinstance(source, str | Path):
        return _found(source)
    held = live(source)
    if held is None:
        raise CheckpointError(
            f"a {type(source).__name__} is not a checkpoint; allowed: a directory, a .safetensors "
            "file, a model, or (state_dict, config)"
        )
    if held.tensors is None:
        raise refusal(
            held.name, "this is a config without weights; give a model, or (state_dict, config)"
        )
    arrays = {name: _array(held.name, name, tensor) for name, tensor in _named(held).items()}
    return Store.of(held.name, held.config, arrays)


def trained(source: Any) -> bool:
    """Whether something has weights; otherwise it is an architecture."""
    source = getattr(source, "as_checkpoint", source)
    if isinstance(source, str | Path):
        found = meaning(source)
        return found is not None and found.weights is not None and has_weights(found.weights)
    held = live(source)
    return held is not None and held.tensors is not None


def in_place(source: Any) -> dict[str, Any]:
    """The tensors of a model in memory, by their names in files, for writing."""
    held = None if isinstance(source, str | Path) else live(source)
    if held is None or held.tensors is None:
        raise CheckpointError(
            f"a {type(source).__name__} has no weights to write to; give a model in memory"
        )
    return _named(held)


def _found(source: str | Path) -> Store:
    path, name = Path(source), str(source)
    if is_directory(path) or (is_tensor_file(path) and path.exists()):
        return Store.open(path)
    try:
        cached = snapshot(name)
    except SpecError as error:
        raise CheckpointError(str(error)) from None
    if cached is not None and has_weights(cached):
        return Store.open(cached, name)
    if cached is not None or ("/" in name and is_id(name) and not path.exists()):
        what = "its weights are" if cached is not None else "no such directory, and it is"
        raise refusal(name, f"{what} {advice(name)}")
    if name in PRESETS and not path.exists():
        raise refusal(
            name, "this name stands for an architecture without weights; give a model directory"
        )
    return Store.open(path)


def _named(held: Live) -> dict[str, Any]:
    """The tensors of a model by the names that they have in files."""
    assert held.tensors is not None
    found = dict(held.tensors())
    try:
        spec = from_config(held.config, held.name).trunk()
    except SpecError:  # whoever reads the config says why
        return found
    family = family_of(held.config)
    alike = layout(spec, family.model_type, held.config, instead=True)
    for part, every in layout(spec, family.model_type, held.config).items():
        for whole in alike[part]:
            for before in (family.prefix, *BEFORE):
                tensor = found.pop(before + whole.file.removeprefix(family.prefix), None)
                if tensor is not None:
                    views = _taken_apart(whole, every, tensor)
                    found |= {before + name.removeprefix(family.prefix): x for name, x in views}
    return found


def _taken_apart(whole: Held, every: list[Held], tensor: Any) -> Iterator[tuple[str, Any]]:
    """Views of the experts of a layer, where the library holds all of them in one tensor."""
    rows = [shape[-2] for shape in whole.shapes]
    for one in every:
        if one.names[0] in whole.names:
            place = whole.names.index(one.names[0])
            start = sum(rows[:place])
            own = tensor if one.member is None else tensor[one.member]
            yield one.file, own if len(rows) == 1 else own[start : start + rows[place]]


def _array(model: str, name: str, tensor: Any) -> Array:
    """The numbers of a tensor, without a copy."""
    if isinstance(tensor, np.ndarray):
        return tensor
    try:
        plain = tensor.detach().cpu()
        if str(plain.dtype) in _VIEWED:
            integers, kind = _VIEWED[str(plain.dtype)]
            viewed: Array = plain.view(getattr(sys.modules["torch"], integers)).numpy()
            return viewed.view(kind)
        found: Array = plain.numpy()
    except Exception as error:  # whatever torch raises: no numbers there, a type of its own
        said = " ".join(str(error).split())[:200]
        raise refusal(model, f"tensor {quote(name)} cannot be read ({said})") from None
    return found


def write_back(tensors: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Copy arrays into the tensors of a model, number by number, in the types that they have."""
    torch = sys.modules.get("torch")
    for name, array in arrays.items():
        target = tensors[name]
        if isinstance(target, np.ndarray):
            target[...] = array
            continue
        assert torch is not None
        kind = str(target.dtype)
        plain = np.array(array)  # torch wants to be able to write to it
        if kind in _VIEWED:
            integers, _ = _VIEWED[kind]
            source = torch.from_numpy(plain.view(integers)).view(target.dtype)
        else:
            source = torch.from_numpy(plain)
        with torch.no_grad():
            target.copy_(source)


# --- what is quantised ----------------------------------------------------------------------

# Names of codes and scales in files of each method, where a config does not say which it is.
_CODES = {
    "mxfp4": r"_(blocks|scales)$",
    "GPTQ or AWQ": r"\.(qweight|qzeros|g_idx|scales)$",
    "bitsandbytes": r"\.(SCB|absmax|quant_map|nested_absmax|weight_format)$|\.quant_state\.",
    "fp8": r"\.(weight_scale_inv|weight_scale|input_scale)$",
    "compressed-tensors": r"\.weight_(packed|shape)$",
    "hqq": r"\.W_q$",
}


def require_plain(store: Store) -> None:
    """Refuse quantised weights in one line that says so."""
    given = store.config.get("quantization_config")
    named = given.get("quant_method") if isinstance(given, dict) else None
    said = quote(named) if isinstance(named, str) and named else "quantization_config"
    found = [(n, method) for n in store.entries for method, x in _CODES.items() if re.search(x, n)]
    if not given and not found:
        return
    example = f"; tensor {quote(found[0][0])} is one of its codes or scales" if found else ""
    raise refusal(
        store.name,
        f"its weights are quantised ({said if given else found[0][1]}){example}; allowed: floating "
        "point; load the model with dequantised weights and write it with save_pretrained",
    )
