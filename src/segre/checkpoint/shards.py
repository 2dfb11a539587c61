"""Which files of a model directory hold its weights? One, or the shards that an index names.

Names of shards stay in the directory. Pickles are never read.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from segre.checkpoint.reading import read_json, refusal
from segre.values import quote

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
LONGEST_INDEX = 100_000_000


def is_directory(path: Path) -> bool:
    """Whether it is a directory that can be seen."""
    try:
        return str(path).isprintable() and path.is_dir()
    except OSError:  # a name too long, a directory closed to us
        return False


def is_tensor_file(path: Path) -> bool:
    """Whether it is named like a safetensors file and is not a directory."""
    return path.suffix == ".safetensors" and not is_directory(path)


def has_weights(path: Path) -> bool:
    """Whether it is a directory with files that would be weights, or one that cannot be read."""
    if not is_directory(path):
        return is_tensor_file(path)
    weights = (".safetensors", ".safetensors.index.json", ".gguf", *PICKLES)
    try:
        return any(name.endswith(weights) for name in os.listdir(path))  # noqa: PTH208 (names)
    except OSError:
        return True  # let the store say why


def is_shard_name(name: str) -> bool:
    """Whether this names a safetensors file, and cannot lead to another directory."""
    return name.endswith(".safetensors") and not set(name) & {"/", "\\", "\0"}


def listing(directory: Path) -> list[str]:
    """The names of the files of a model directory."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 (names are wanted)
    except NotADirectoryError:
        if directory.suffix == ".gguf":
            raise refusal(directory, _convert(directory)) from None
        raise refusal(directory, "this is a file; give a model directory") from None
    except OSError as error:
        reason = error.strerror or error
        raise refusal(directory, f"{reason}; give a model directory") from None
    except ValueError:
        raise refusal(directory, "not the name of a directory") from None


def weight_files(directory: Path, names: list[str]) -> tuple[list[str], dict[str, Any] | None]:
    """The files that hold the weights, and the index of them if they are shards."""
    if WEIGHTS in names:
        return [WEIGHTS], None
    if INDEX in names:
        return _shards(directory, names)
    seen = [name for name in names if not name.startswith(".")]
    found = [name for name in seen if name.endswith(".safetensors")]
    if len(found) == 1:
        return found, None
    if found:
        problem = (
            f"it has {len(found)} safetensors files but no {INDEX}; download the index, or "
            "keep only one file"
        )
    elif ggufs := [name for name in seen if name.endswith(".gguf")]:
        problem = _convert(directory / ggufs[0])
    elif pickles := [name for name in seen if name.endswith(PICKLES)]:
        problem = (
            f"its weights are a pickle ({quote(pickles[0])}), which can run code and is never "
            "read; save the model as safetensors (save_pretrained does)"
        )
    elif CONFIG in names:
        problem = f"it has no weights; allowed: {WEIGHTS}, or {INDEX} and its shards"
    else:
        problem = f"it has no {CONFIG}; {without_config(names)}"
    raise refusal(directory, problem)


def without_config(names: list[str]) -> str:
    """What to do about a directory without a config."""
    if ADAPTER in names:
        return (
            f"it is an adapter ({ADAPTER}), not a model; merge it into its base model first "
            "(merge_and_unload of peft) and save that"
        )
    return "give a model directory"


def _convert(file: Path) -> str:
    return (
        f"GGUF files must be converted first: segre model convert {shlex.quote(str(file))} -o DIR"
    )


def _shards(directory: Path, names: list[str]) -> tuple[list[str], dict[str, Any]]:
    path = directory / INDEX
    index = read_json(path, LONGEST_INDEX, unique=True)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise refusal(path, 'it has no "weight_map" from tensors to files')
    for name, file in weight_map.items():
        if not isinstance(file, str) or not is_shard_name(file):
            raise refusal(
                path,
                f"the index places tensor {quote(name)} in {quote(str(file))}; allowed: names of "
                ".safetensors files beside the index",
            )
    files = sorted(set(weight_map.values()))
    for file in files:
        if file not in names:
            raise refusal(
                path, f"{quote(file)} is in the index, but the file is missing; download it"
            )
    return files, index
