"""Tokens on which two checkpoints are run side by side: of a text, or random ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.checkpoint.inputs import (
    COUNT,
    LARGEST_TOKENIZER,
    TOKENIZER,
    Inputs,
    random_tokens,
    read_text,
)
from segre.checkpoint.model import Model
from segre.checkpoint.one_form import untied
from segre.checkpoint.outputs import random_tokens as random_inputs
from segre.errors import CheckpointError, SpecError
from segre.files import read_given
from segre.transformer.forward import Tokens

WAYS = ("weights", "activations")


def common_inputs(
    one: Model,
    two: Model,
    text: str | Path | None = None,
    seed: int = 0,
    *,
    count: int = COUNT,
    length: int | None = None,
) -> tuple[Inputs | None, list[Tokens]]:
    """The first pieces of a text, with the common tokenizer; without a text, random tokens.

    Models whose inputs are matrices get random matrices.
    """
    if text is None and not one.spec.embedded:
        return None, [random_inputs(one.spec, seed, batch=32)]
    if text is None:
        found = random_tokens(one, count, length, seed)
    else:
        require_same_tokenizer(one, two)
        reader = one if _file(one) is not None or _file(two) is None else two
        found = read_text(reader, text, count, length)
    return found, [Tokens(batch) for batch in found.batches]


@dataclass(frozen=True)
class Way:
    """How two checkpoints are aligned: by weights, or by activations on a text or random tokens."""

    by: str = "weights"
    text: str | Path | None = None
    rounds: int = 1
    seed: int = 0
    length: int | None = None  # of the sequences, in tokens
    untie: bool = False  # give both an unembedding of their own

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise SpecError(f"by: {self.by!r} is not allowed; allowed: {', '.join(WAYS)}")
        if self.rounds < 1:
            raise SpecError(f"rounds: {self.rounds} is not allowed; allowed: whole numbers from 1")
        if self.text is not None and self.by != "activations":
            raise SpecError("--text is used only with --by activations; add --by activations")

    def opened(self, model: Model) -> Model:
        """A model, prepared for alignment."""
        return untied(model) if self.untie else model

    def inputs(self, one: Model, two: Model) -> tuple[str, list[Tokens]]:
        """A description of the alignment, and the tokens on which both are run."""
        if self.by == "weights":
            return "weights", []
        found, batches = common_inputs(one, two, self.text, self.seed, length=self.length)
        if found is None:
            return f"activations on random inputs, seed {self.seed}", batches
        return f"activations on {found.said}", batches


def require_same_tokenizer(one: Model, two: Model) -> None:
    """Refuse two checkpoints whose tokenizers use an id for different tokens."""
    ours, theirs = _tokens(one), _tokens(two)
    if ours is None or theirs is None:
        return
    apart = [number for number in ours.keys() & theirs.keys() if ours[number] != theirs[number]]
    if apart:
        first = min(apart)
        raise CheckpointError(
            f"{one.name!r} and {two.name!r} have different tokenizers: token {first} is "
            f"{ours[first]!r} in one and {theirs[first]!r} in the other"
        )


def _file(model: Model) -> Path | None:
    file = None if model.folder is None else model.folder / TOKENIZER
    return file if file is not None and file.is_file() else None


def _tokens(model: Model) -> dict[int, str] | None:
    """The tokens by number, as tokenizer.json has them; None if there is none that can be read."""
    file = _file(model)
    if file is None:
        return None
    try:
        data = json.loads(read_given(file, LARGEST_TOKENIZER))
        return _listed(data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # said by what needs it


def _listed(data: Mapping[str, Any]) -> dict[int, str]:
    vocab = data["model"]["vocab"]
    if isinstance(vocab, list):  # of Unigram: tokens with their scores
        out = {number: str(entry[0]) for number, entry in enumerate(vocab)}
    else:
        out = {int(number): str(token) for token, number in vocab.items()}
    added = data.get("added_tokens") or []
    return out | {int(token["id"]): str(token["content"]) for token in added}
