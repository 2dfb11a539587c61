"""Tiny models of six families, trained in seconds on one synthetic language.

The language is a fixed random Markov chain of second order, the same for all seeds: models of
different seeds differ in their first weights and in the order of what they see, and learn the same.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from segre.checkpoint.model import described
from segre.checkpoint.opening import opened

FAMILIES = ("gpt2", "llama", "mistral", "qwen3", "gpt_neox", "bert")
VOCAB, LENGTH, BATCH, KINDS = 96, 16, 32, 8
RATE = {"bert": 1e-3}  # of learning, if not the usual one
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "vocab_size": VOCAB,
    "max_position_embeddings": LENGTH,
}
GPT2: dict[str, Any] = {
    **{"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 96, "n_positions": LENGTH},
    **{"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": 0},
}
Checkpoint = tuple[dict[str, Any], dict[str, Any]]


def new_model(family: str, seed: int, layers: int = 2) -> Any:
    """A model of the transformers library with weights of its own, without dropout."""
    import torch
    import transformers as t

    sizes = {**SIZES, "num_hidden_layers": layers}
    two: dict[str, Any] = {**sizes, "num_key_value_heads": 2}
    makers: dict[str, Any] = {
        "gpt2": lambda: t.GPT2Config(**{**GPT2, "n_layer": layers}),
        "llama": lambda: t.LlamaConfig(**sizes),
        "mistral": lambda: t.MistralConfig(**two, tie_word_embeddings=True),
        "qwen3": lambda: t.Qwen3Config(**two, head_dim=8),
        "gpt_neox": lambda: t.GPTNeoXConfig(**sizes),
        "bert": lambda: t.BertConfig(**sizes),
    }
    config = makers[family]()
    for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout_prob"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    torch.manual_seed(seed)
    maker: Any = t.AutoModelForMaskedLM if family == "bert" else t.AutoModelForCausalLM
    return maker.from_config(config)


class Language:
    """Sequences of tokens: the next one depends on the two before it."""

    def __init__(self, number: int = 0) -> None:
        rng = np.random.default_rng(1000 + number)
        self.next = rng.integers(0, VOCAB, (VOCAB, KINDS, 4))
        self.kind = rng.integers(0, KINDS, VOCAB)

    def batch(self, rng: np.random.Generator) -> Any:
        """Some sequences, (batch, length)."""
        out = np.empty((BATCH, LENGTH), np.int64)
        out[:, :2] = rng.integers(0, VOCAB, (BATCH, 2))
        for i in range(2, LENGTH):
            which = (rng.random(BATCH) ** 2 * 4).astype(int)
            out[:, i] = self.next[out[:, i - 1], self.kind[out[:, i - 2]], which]
        return out


def train(model: Any, family: str, steps: int, rate: float, seed: int, language: int = 0) -> float:
    """Train in place; the last loss."""
    import torch

    words, rng = Language(language), np.random.default_rng([seed, 7])
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    loss = torch.tensor(0.0)
    for _ in range(steps):
        tokens = torch.from_numpy(words.batch(rng))
        labels = tokens
        if family == "bert":
            hidden = torch.from_numpy(rng.random(tokens.shape) < 0.25)
            labels = torch.where(hidden, tokens, -100)
            tokens = torch.where(hidden, 0, tokens)
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def taken(model: Any) -> Checkpoint:
    """Its weights, copied, tied ones once; and its config."""
    with opened(model) as store:
        again = described(store).copies
        arrays = {name: np.array(store.raw(name)) for name in store.entries if name not in again}
        return arrays, store.config


def trained(family: str, seed: int, steps: int = 400, layers: int = 2) -> Any:
    """A model trained from its own first weights."""
    model = new_model(family, seed, layers)
    train(model, family, steps, RATE.get(family, 3e-3), seed)
    return model


def fine_tuned(
    model: Any, family: str, steps: int, rate: float = 1e-3, language: int = 1
) -> Checkpoint:
    """A copy, trained on another language."""
    copy = deepcopy(model)
    train(copy, family, steps, rate, seed=49 + language, language=language)
    return taken(copy)
