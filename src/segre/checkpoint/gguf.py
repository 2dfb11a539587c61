"""A GGUF file as a model directory: its numbers unpacked to float32 by the transformers library."""

from __future__ import annotations

import io
import logging
import mmap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from segre.checkpoint.folder import new_directory
from segre.checkpoint.reading import reading, refusal, require_file
from segre.errors import CheckpointError
from segre.files import CHANGED, identity, ordinary_file
from segre.libraries import library
from segre.values import quote

NEEDED = ("torch", "transformers", "gguf", "accelerate")
RESCALED = (b"rope_freqs.weight", b"rope_factors_long.weight", b".rope.scaling.factor")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars, warnings and logs of libraries inside the block."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(level)


def convert(file: str | Path, target: str | Path) -> list[str]:
    """Write the model of a GGUF `file`, and its tokenizer if it has one; returns the file names.

    The whole model is held in memory, in float32.

    >>> convert("nothing.gguf", "model")
    Traceback (most recent call last):
    segre.errors.CheckpointError: ...
    """
    source = Path(file)
    require_file(source)
    before = identity(source)
    with reading(source, "cannot be read"), source.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise refusal(source, "not a GGUF file; give a file that starts with GGUF")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            lost = [name for name in RESCALED if content.find(name) >= 0]
    if lost:
        raise refusal(
            source,
            f"its rotary frequencies are rescaled ({lost[0].decode()}), which the transformers "
            "library would ignore; download the model as safetensors",
        )
    torch, transformers, *_ = [  # which take seconds to import
        library(name, "converting GGUF", extra="models", error=CheckpointError) for name in NEEDED
    ]
    with new_directory(target, [source]) as folder, quiet():
        model = _model(source, torch, transformers)
        try:
            _save(model, folder)
        except SafetensorError as error:
            raise CheckpointError(f"cannot write {str(target)!r}: {error}") from None
        _save_tokenizer(source, transformers, folder)
        if identity(source) != before:
            raise refusal(source, CHANGED)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _model(source: Path, torch: Any, transformers: Any) -> Any:
    """The model with its weights; missing ones are refused, since the library would draw them."""
    unpacked: dict[str, Any] = {}  # libraries that do not know this word unpack in any case
    if hasattr(transformers, "GgufConfig"):
        unpacked = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    try:
        model, found = transformers.AutoModelForCausalLM.from_pretrained(
            source.parent,
            gguf_file=source.name,
            dtype=torch.float32,
            **unpacked,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # whatever libraries raise on a file that they cannot read
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise refusal(
            source, f"cannot be converted ({reason}); it may be damaged, or of an unsupported kind"
        ) from None
    for name in sorted(found["missing_keys"]):
        raise refusal(source, f"tensor {quote(name)} is missing")
    return model


def _save(model: Any, folder: Path) -> None:
    """Write the model. GGUF stores float32, so 1e-05 comes back with extra digits."""
    config = model.config
    for key, value in vars(config).items():
        if isinstance(value, float) and value == np.float32(value):
            setattr(config, key, float(str(np.float32(value))))
    model.save_pretrained(folder)
    for path in folder.glob("*.safetensors"):
        ordinary_file(path)


def _save_tokenizer(source: Path, transformers: Any, folder: Path) -> None:
    """Write the tokenizer if the library can read it; the model is complete without it."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source.parent, gguf_file=source.name, local_files_only=True
        )
    except Exception:  # whatever it raises where there is none, or none that it knows
        return
    tokenizer.save_pretrained(folder)
