"""Equal tensors, another config: is a change of the function ever called the same?

Tiny random models of the six families of checkpoints, built and run by the transformers library.
Each config is changed in many ways. Where the library's outputs change by more than rounding,
`segre same` must not answer "same" or "identical"; where they do not, it must.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.faults.tally import Tally
from segre.checkpoint.commands import same
from segre.checkpoint.gguf import quiet

FAMILIES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Model"),
    "bert": ("BertForMaskedLM", "BertModel"),
    "llama": ("LlamaForCausalLM", "LlamaModel"),
    "mistral": ("MistralForCausalLM", "MistralModel"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Model"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Model"),
}
LENGTH = 14  # of the inputs
CONTEXT = 16  # of the models
ROUNDING = 2e-5  # outputs in float32 that are further apart are not those of one function
MODELS = 8  # of each family

Change = dict[str, Any]


@dataclass
class Count:
    """How many changes of one kind there were, and which answers were wrong."""

    tried: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, what: str, good: bool) -> None:
        """Count one."""
        self.tried += 1
        if not good:
            self.wrong.append(what)


def tally(quick: bool) -> list[Tally]:
    """Try all changes of a few models, or of many."""
    counts = {name: Count() for name in ("outputs change", "outputs stay", "unknown key", "moved")}
    for family in FAMILIES:
        for seed in range(1 if quick else MODELS):
            _try_model(family, seed, counts, share=0.3 if quick else 1.0)
    said = {
        "outputs change": "never same, never identical",
        "outputs stay": "always same or identical",
        "unknown key": "always undecided, the key named",
        "moved": "scale of scores moved into the queries: always same",
    }
    return [
        Tally(
            f"config changed, tensors equal: {name}" if name != "moved" else "scale moved",
            count.tried,
            len(count.wrong),
            "; ".join(count.wrong[:3]) or said[name],
        )
        for name, count in counts.items()
    ]


def _try_model(family: str, seed: int, counts: dict[str, Count], share: float) -> None:
    """Try a share of all changes of a model, drawn at random."""
    rng = random.Random(f"{family} {seed}")
    with tempfile.TemporaryDirectory() as work:
        original = Path(work) / "original"
        build(family, rng, original)
        config = json.loads((original / "config.json").read_text())
        before = run(original)
        every = list(changes(family, config, rng))
        for number, change in enumerate(every):
            if number and rng.random() > share:
                continue
            changed = copied(original, Path(work) / str(number), change)
            unknown = "mystery" in change
            apart = 0.0 if unknown else furthest(before, run(changed))
            found = same(original, changed)
            what = f"{family} {seed} {change} {apart:.1e}: {found.verdict} ({found.reason})"
            if unknown:
                named = found.verdict == "undecided" and "mystery" in found.reason
                counts["unknown key"].add(what, named)
            elif apart > ROUNDING:
                good = not found.same
                counts["outputs change"].add(what, good)
            else:
                good = found.same
                counts["outputs stay"].add(what, good)
        if family == "gpt2":
            moved = scale_moved(original, Path(work) / "moved")
            found = same(original, moved)
            equal = furthest(before, run(moved)) <= ROUNDING
            what = f"{family} {seed}: {found.verdict} ({found.reason})"
            counts["moved"].add(what, equal and found.verdict == "same function")


def build(family: str, rng: random.Random, directory: Path, **more: Any) -> None:
    """Write a tiny model of random sizes, with random gains and biases."""
    import torch
    import transformers

    heads, width = rng.choice([2, 4]), rng.choice([6, 8])
    given: dict[str, Any] = {
        "hidden_size": heads * width,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.choice([2, 3]),
        "vocab_size": rng.randint(40, 60),
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": rng.random() < 0.5,
    }
    if family == "gpt2":
        given |= {"bos_token_id": 0, "eos_token_id": 0}
    else:
        given["intermediate_size"] = rng.randint(20, 30)
    if family not in ("gpt2", "bert"):
        given |= {"num_key_value_heads": heads // rng.choice([1, 2]), "head_dim": width}
    if family == "mistral":
        given["sliding_window"] = rng.choice([None, CONTEXT, 5])
    if family in ("qwen2", "qwen3") and rng.random() < 0.5:
        given |= {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
    given |= more
    with quiet(), torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(rng.randrange(2**31))
        kind = getattr(transformers, rng.choice(FAMILIES[family]))
        model = kind(transformers.AutoConfig.for_model(family, **given)).eval()
        for weight in model.parameters():
            if weight.ndim > 1:
                weight *= 10
            else:
                weight += 0.3 * torch.randn_like(weight)
        if family == "bert" and hasattr(model, "cls"):  # one bias under two names
            model.cls.predictions.decoder.bias.copy_(model.cls.predictions.bias)
        model.save_pretrained(directory)


def changes(family: str, config: dict[str, Any], rng: random.Random) -> Iterator[Change]:
    """Changes of a config that the tensors go with, some of them without effect."""
    yield {"mystery": rng.randint(1, 9)}
    yield {"initializer_range": 0.5, "use_cache": False, "_name_or_path": "other", "dtype": None}
    yield {"eos_token_id": 3, "attention_dropout": 0.5, "id2label": {"0": "a", "1": "b"}}
    if family == "gpt2":
        yield {"scale_attn_weights": False}
        yield {"scale_attn_by_inverse_layer_idx": True}
        yield {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}
        yield {"layer_norm_epsilon": 0.1}
        for name in ("relu", "quick_gelu", "silu", "gelu_pytorch_tanh"):
            yield {"activation_function": name}
        return
    for name in ("relu", "quick_gelu", "gelu_new") if family == "bert" else ("quick_gelu", "gelu"):
        yield {"hidden_act": name}
    if family == "bert":
        yield {"layer_norm_eps": 0.1}
        return
    yield {"rms_norm_eps": 0.1}
    yield {"max_position_embeddings": 4 * CONTEXT, **_plain_rope(config)}
    yield from _ropes(config, rng)
    yield from _windows(family, config, rng)


def _plain_rope(config: dict[str, Any]) -> Change:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": _theta(config)}}


def _theta(config: dict[str, Any]) -> float:
    return float(config["rope_parameters"]["rope_theta"])


def _ropes(config: dict[str, Any], rng: random.Random) -> Iterator[Change]:
    """Other frequencies, in all the places where configs have had them."""
    length = rng.choice([4, 8])
    kinds: list[dict[str, Any]] = [
        {"rope_type": "linear", "factor": rng.choice([2.0, 3.5])},
        {"rope_type": "dynamic", "factor": 4.0},  # begins beyond the context
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 0.5,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": length,
        },
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": length},
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": length,
            "attention_factor": rng.choice([0.7, 1.3]),
        },
        {
            "rope_type": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": length,
            "mscale": 0.7,
            "mscale_all_dim": 0.7,
            "beta_fast": 4,
        },
        {"rope_type": "linear", "factor": 1.0},
        {"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": length},
    ]
    theta = _theta(config)
    for kind in kinds:
        if rng.random() < 0.5:
            yield {"rope_parameters": {**kind, "rope_theta": theta}}
        else:
            yield {"rope_parameters": None, "rope_scaling": kind, "rope_theta": theta}
    yield {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}


def _windows(family: str, config: dict[str, Any], rng: random.Random) -> Iterator[Change]:
    layers = int(config["num_hidden_layers"])
    if family == "mistral":
        for window in (None, 3, rng.randint(4, 9), 2 * CONTEXT):
            yield {"sliding_window": window}
    if family in ("qwen2", "qwen3"):
        none = {"layer_types": None, "max_window_layers": layers}
        yield {**none, "use_sliding_window": False, "sliding_window": rng.randint(2, 9)}
        yield {**none, "use_sliding_window": True, "sliding_window": 3}
        slides = {"use_sliding_window": True, "sliding_window": rng.randint(2, 9)}
        yield {**none, **slides, "max_window_layers": rng.randrange(layers)}
        types = ["full_attention", "sliding_attention", "full_attention"][:layers]
        yield {**slides, "layer_types": types}
        yield {**slides, "layer_types": types, "sliding_window": 5 * CONTEXT}


def copied(source: Path, target: Path, change: Change) -> Path:
    """The same tensors with another config."""
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, **change}))
    return target


def scale_moved(source: Path, target: Path) -> Path:
    """A GPT-2 whose scores are not scaled, and whose queries make up for it."""
    from safetensors.numpy import load_file, save_file

    copied(source, target, {"scale_attn_weights": False})
    config = json.loads((source / "config.json").read_text())
    width = config["n_embd"]
    tensors = load_file(target / "model.safetensors")
    for name, value in tensors.items():
        if ".c_attn." in name:
            value[..., :width] /= math.sqrt(width // config["n_head"])
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


def run(directory: Path) -> np.ndarray:
    """All outputs of the library in float32, on random tokens."""
    import torch
    import transformers

    with quiet(), torch.no_grad():
        config = transformers.AutoConfig.from_pretrained(directory)
        kind = getattr(transformers, config.architectures[0])
        model = kind.from_pretrained(directory, dtype=torch.float32).eval()
        tokens = np.random.default_rng(0).integers(config.vocab_size, size=(2, LENGTH))
        out = model(torch.tensor(tokens))
    named = [out[key] for key in ("logits", "last_hidden_state", "pooler_output") if key in out]
    return np.concatenate([x.numpy().ravel() for x in named])


def furthest(one: np.ndarray, two: np.ndarray) -> float:
    """The largest difference, relative to the largest output."""
    return float(np.abs(one - two).max() / np.abs(one).max())
