"""A small language, and tiny models of the transformers library trained on it in seconds.

The next token depends on the one before it and on the class of the one before that, by a fixed
random table. Models of different seeds have other first weights and see other sentences.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from segre.fields.interface import Array

WORDS, CLASSES, LENGTH, BATCH = 64, 4, 32, 64
SPREAD = 2.0  # of the logarithms of probabilities


class Language:
    """Sentences, drawn word by word; `dialect` changes a share of what follows what."""

    def __init__(self, dialect: int = 0, share: float = 0.25, words: int = WORDS) -> None:
        self.words = words
        rng = np.random.default_rng(0)
        logits = rng.gumbel(size=(CLASSES, words, words)) * SPREAD
        self.classes = rng.permutation(words) % CLASSES
        if dialect:
            own = np.random.default_rng([0, dialect])
            changed = own.random((CLASSES, words)) < share
            logits[changed] = own.gumbel(size=(int(changed.sum()), words)) * SPREAD
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        self.sums = np.cumsum(odds / odds.sum(axis=-1, keepdims=True), axis=-1)

    def sentences(self, count: int, rng: np.random.Generator) -> Array:
        """Tokens (count, LENGTH)."""
        out = rng.integers(self.words, size=(count, LENGTH))
        for i in range(2, LENGTH):
            below = self.sums[self.classes[out[:, i - 2]], out[:, i - 1]] < rng.random((count, 1))
            out[:, i] = below.sum(axis=1).clip(max=self.words - 1)
        return out

    def write(self, file: Path, count: int, seed: int) -> Path:
        """Sentences as a text, one a line."""
        found = self.sentences(count, np.random.default_rng([seed, 1]))
        file.write_text("\n".join(" ".join(f"w{word}" for word in line) for line in found) + "\n")
        return file


def new_model(kind: str, seed: int, width: int = 64, words: int = WORDS) -> Any:
    """A model with random weights: gpt2 tied, llama untied or llama tied."""
    import torch
    import transformers as t

    torch.manual_seed(seed)
    made: Any = t
    common: dict[str, Any] = {"vocab_size": words, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2 tied":
        sizes: dict[str, Any] = {"n_positions": LENGTH, "n_embd": width, "n_inner": 4 * width}
        still: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        return made.GPT2LMHeadModel(t.GPT2Config(**common, **sizes, **still, n_layer=2, n_head=4))
    sizes = {"hidden_size": width, "intermediate_size": 2 * width}
    heads: dict[str, Any] = {
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "num_hidden_layers": 2,
    }
    more: dict[str, Any] = {"initializer_range": 0.05, "max_position_embeddings": LENGTH}
    tied = kind == "llama tied"
    config = t.LlamaConfig(**common, **sizes, **heads, **more, tie_word_embeddings=tied)
    return made.LlamaForCausalLM(config)


def trained(
    model: Any, seed: int, steps: int, rate: float = 3e-3, language: Language | None = None
) -> Any:
    """A copy of a model, trained on sentences of its own."""
    import torch

    model, words = deepcopy(model).train(), language or Language()
    rng = np.random.default_rng([seed, 7])
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    for _ in range(steps):
        batch = torch.from_numpy(words.sentences(BATCH, rng))
        optimiser.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimiser.step()
        schedule.step()
    return model.eval()


def saved(model: Any, folder: Path) -> Path:
    """The model in a directory, with a tokenizer of its words."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    vocab = {f"w{number}": number for number in range(model.config.vocab_size)}
    data = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder
