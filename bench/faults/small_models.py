"""Small trained models of six families, and what is done to them: copies and changes.

Copies are the same function: other weights, files or types. Changes are not. Everything is written
with the transformers and safetensors libraries or as plain arithmetic on tensors, except for
`moved` and `canonical`, which are segre's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from segre.checkpoint.commands import canonical, move
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.saving import saving

FAMILIES = ("gpt2", "bert", "llama", "mistral", "qwen2", "qwen3")
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
VOCABULARY, LENGTH = 67, 24

transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

Edit = Callable[[str, Tensors, np.random.Generator], None]  # of a part


def config(family: str, seed: int) -> Any:
    """A config of a family: sizes and options differ from seed to seed."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    heads = int(rng.choice([2, 4]))
    d = heads * int(rng.choice([8, 12]))
    tied = bool(rng.integers(2))
    common: dict[str, Any] = {"tie_word_embeddings": tied, "vocab_size": VOCABULARY}
    if family == "gpt2":
        return transformers.GPT2Config(
            n_embd=d, n_layer=2, n_head=heads, n_positions=LENGTH, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, **common,
        )  # fmt: skip
    common |= {
        "hidden_size": d,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "intermediate_size": int(rng.integers(d, 2 * d)),
        "max_position_embeddings": LENGTH,
    }
    if family == "bert":
        quiet: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return transformers.BertConfig(**common, **quiet)
    common["num_key_value_heads"] = heads // int(rng.choice([1, 2]))
    if family == "llama":
        bias = bool(rng.integers(2))
        return transformers.LlamaConfig(**common, attention_bias=bias, mlp_bias=bias)
    named = {"mistral": "MistralConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}
    more: dict[str, Any] = {"head_dim": 8} if family == "qwen3" else {}
    return getattr(transformers, named[family])(**common, **more)


CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "bert": "BertForMaskedLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from a seed, and leave torch's generator as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def fresh(family: str, seed: int) -> Any:
    """A model as the library initialises it."""
    with seeded(seed):
        return getattr(transformers, CLASSES[family])(config(family, seed))


def train(model: Any, steps: int, rate: float, seed: int) -> Any:
    """Steps of AdamW on sequences that repeat with a period."""
    with seeded(seed):
        torch.set_num_threads(1)
        optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
        model.train()
        for _ in range(steps):
            period = int(torch.randint(2, 6, ()))
            words = torch.randint(VOCABULARY, (8, period)).repeat(1, LENGTH)
            words = words[:, :LENGTH].contiguous()
            model(words, labels=words).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    return model.eval()


def trained(family: str, seed: int) -> Any:
    """A model after some training, so that gains and biases are not what they were."""
    return train(fresh(family, seed), 60, 3e-3, seed)


def save(model: Any, directory: Path, dtype: str) -> Path:
    """Write a model in a number type; the model itself stays in float32."""
    deepcopy(model).to(TYPES[dtype]).save_pretrained(directory)
    return directory


def load(directory: Path) -> Any:
    """A model of a directory, in float32."""
    named = json.loads((directory / "config.json").read_text())["architectures"][0]
    return getattr(transformers, named).from_pretrained(directory, dtype=torch.float32).eval()


def logits(directory: Path, seed: int = 0) -> np.ndarray:
    """What the library computes in float64 on all positions of some random sequences."""
    with seeded(seed), torch.no_grad():
        words = torch.randint(VOCABULARY, (16, LENGTH))
        return np.asarray(load(directory).double()(words).logits)


def outputs_apart(one: Path, two: Path) -> float:
    """The largest difference of the library's outputs, relative to the largest output."""
    a, b = logits(one), logits(two)
    return float(np.abs(a - b).max() / np.abs(a).max())


def edited(source: Path, target: Path, edit: Edit, seed: int) -> Path:
    """A copy in which a function changes the tensors of every part."""
    rng = np.random.default_rng(seed)
    with Model.open(source) as model, saving(model, target) as save_part:
        for part in model.parts:
            tensors = model.part(part)
            edit(part, tensors, rng)
            save_part.part(part, tensors)
    return target


# --- copies -----------------------------------------------------------------------------------


def permute(_part: str, w: Tensors, rng: np.random.Generator) -> None:
    """Units and heads in another order."""
    if "W_up" in w:
        order = rng.permutation(len(w["W_up"]))
        for name in ("W_up", "b_up", "W_gate", "b_gate"):
            if name in w:
                w[name] = w[name][order]
        w["W_down"] = w["W_down"][:, order]
    if "W_Q" in w:
        order = rng.permutation(len(w["W_Q"]))
        for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V"):
            if name in w:
                w[name] = w[name][order]


def rescale(_part: str, w: Tensors, rng: np.random.Generator) -> None:
    """Values against outputs by head, keys against queries where no norm follows, gated units."""
    if "W_V" not in w:
        return
    factor = np.exp(rng.uniform(-1, 1, (len(w["W_V"]), 1, 1, 1)))
    for name in ("W_V", "b_V"):
        if name in w:
            w[name] = w[name] * factor
    w["W_O"] = w["W_O"] / factor
    if "normq.gain" not in w:
        for name in ("W_K", "b_K"):
            if name in w:
                w[name] = w[name] * factor
        for name in ("W_Q", "b_Q"):
            if name in w:
                w[name] = w[name] / factor
    if "W_gate" in w:
        units = np.exp(rng.uniform(-1, 1, (len(w["W_up"]), 1)))
        for name in ("W_up", "b_up"):
            if name in w:
                w[name] = w[name] * units
        w["W_down"] = w["W_down"] / units.T


def rotate(_part: str, w: Tensors, rng: np.random.Generator) -> None:
    """Values and outputs of every head in another orthonormal basis."""
    if "W_V" in w:
        n = w["W_V"].shape[-2]
        q = np.stack([np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in w["W_V"]])[:, None]
        for name in ("W_V", "b_V"):
            if name in w:
                w[name] = q @ w[name]
        w["W_O"] = w["W_O"] @ q.swapaxes(-1, -2)


def resharded(source: Path, target: Path) -> Path:
    """The same tensors in two files with an index."""
    shutil.copytree(source, target)
    tensors = load_file(target / "model.safetensors")
    (target / "model.safetensors").unlink()
    names = sorted(tensors)
    index: dict[str, str] = {}
    for number, some in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({name: tensors[name] for name in some}, target / file, {"format": "pt"})
        index |= dict.fromkeys(some, file)
    total = sum(x.nbytes for x in tensors.values())
    document = {"metadata": {"total_size": total}, "weight_map": index}
    (target / "model.safetensors.index.json").write_text(json.dumps(document))
    return target


def reprefixed(source: Path, target: Path) -> Path:
    """The same tensors under the names of the bare model."""
    shutil.copytree(source, target)
    tensors = load_file(target / "model.safetensors")
    bare = {
        name.removeprefix("model.").removeprefix("transformer.").removeprefix("bert."): value
        for name, value in tensors.items()
    }
    save_file(bare, target / "model.safetensors", {"format": "pt"})
    return target


def copies(source: Path, folder: Path, seed: int) -> Iterator[tuple[str, Path, Path]]:
    """Pairs of checkpoints that are the same function, up to rounding."""
    moved = folder / "moved"
    move(source, moved, seed=seed, report=False)
    yield "moved", source, moved
    move(source, folder / "again", seed=seed + 1000, report=False)
    yield "both moved", moved, folder / "again"
    canonical(source, folder / "canonical", report=False)
    yield "canonical", source, folder / "canonical"
    yield "moved and canonical", moved, folder / "canonical"
    for edit in (permute, rescale, rotate):
        name = {permute: "permuted", rescale: "rescaled", rotate: "rotated"}[edit]
        yield name, source, edited(source, folder / name, edit, seed)
    yield "resharded", source, resharded(source, folder / "resharded")
    yield "re-prefixed", source, reprefixed(source, folder / "re-prefixed")


# --- changes ----------------------------------------------------------------------------------


def noise(_part: str, w: Tensors, rng: np.random.Generator) -> None:
    """Every weight by up to 3 %, either way."""
    for name, value in w.items():
        w[name] = value * (1 + rng.uniform(-0.03, 0.03, value.shape))


def lora(_part: str, w: Tensors, rng: np.random.Generator) -> None:
    """A merged update of rank 2 of queries and values, 3 % of their norm."""
    for name in ("W_Q", "W_V"):
        if name in w:
            value = w[name]
            left = rng.standard_normal((value[..., 0].size, 2))
            update = (left @ rng.standard_normal((2, value.shape[-1]))).reshape(value.shape)
            w[name] = value + 0.03 * np.linalg.norm(value) / np.linalg.norm(update) * update


def ten_rows(part: str, w: Tensors, rng: np.random.Generator) -> None:
    """Ten rows of the table of tokens, drawn afresh."""
    if part == "embed":
        rows = rng.choice(VOCABULARY, 10, replace=False)
        table = w["tokens"]
        table[:, rows] = table.std() * rng.standard_normal((len(table), 10))


def one_head(part: str, w: Tensors, _rng: np.random.Generator) -> None:
    """The values of one head by 3 %."""
    if part == "2":
        w["W_V"][0] *= 1.03


def one_entry(source: Path, target: Path, seed: int) -> Path:
    """One entry of one matrix times 1.001, or the next number where that is the same."""
    shutil.copytree(source, target)
    tensors = load_file(target / "model.safetensors")
    rng = np.random.default_rng(seed)
    seen = ("v_proj.weight", "value.weight", "c_fc.weight", "up_proj.weight", "dense.weight")
    name = rng.choice(sorted(key for key in tensors if key.endswith(seen)))
    flat = tensors[name].view(-1)
    place = int(rng.integers(len(flat)))
    old = flat[place].clone()
    flat[place] = (old.double() * 1.001).to(old.dtype)
    if flat[place] == old:
        flat[place] = torch.nextafter(old.float(), torch.tensor(10.0)).to(old.dtype)
        bits = flat[place : place + 1].view(torch.int16)
        bits += int(flat[place] == old)
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


def changes(source: Path, folder: Path, dtype: str, seed: int) -> Iterator[tuple[str, Path, Path]]:
    """Pairs of checkpoints that are different functions."""
    for rate in (1e-5, 1e-4, 3e-4):
        name = f"10 steps at {rate:.0e}"
        tuned = train(load(source), 10, rate, seed + 7)
        yield name, source, save(tuned, folder / name, dtype)
    for edit, name in (
        (noise, "noise of 3 %"),
        (lora, "LoRA of 3 %"),
        (ten_rows, "ten rows"),
        (one_head, "one head by 3 %"),
    ):
        yield name, source, edited(source, folder / name, edit, seed)
    yield "one entry", source, one_entry(source, folder / "one entry", seed)
    for name in ("noise of 3 %", "LoRA of 3 %", "ten rows", "10 steps at 3e-04"):
        move(folder / name, folder / f"{name}, moved", seed=seed, report=False)
        yield f"{name}, moved", source, folder / f"{name}, moved"
