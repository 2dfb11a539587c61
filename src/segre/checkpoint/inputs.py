"""Token sequences to run one model on, or two side by side: random, or read from a text.

A text is read with the tokenizer of the model's directory.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segre.checkpoint.model import Model
from segre.checkpoint.one_form import untied
from segre.checkpoint.outputs import random_tokens as random_inputs
from segre.checkpoint.reading import refusal
from segre.errors import CheckpointError, SegreError, SpecError, TooLargeError
from segre.fields.interface import Array
from segre.files import read_given, shown
from segre.geometry.memory import DEFAULT_LIMIT
from segre.json_data import stated
from segre.libraries import library
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer
from segre.values import choice, quote

COUNT, LENGTH = 32, 128  # as in the paper
AT_ONCE = 1 << 28  # bytes of one batch
RANDOM = "random tokens"
TOKENIZER = "tokenizer.json"
LARGEST_TOKENIZER = 200_000_000
LETTERS = 40  # that a token has at most, on average: no more of a text is read
PATCHES = 1 << 20  # random patches have numbers below
WAYS = ("weights", "activations")  # to align


def vocabulary(spec: Transformer) -> int:
    """Size of the vocabulary; for a model of patches, the number of random patches."""
    return spec.vocab or PATCHES


def longest(spec: Transformer) -> int | None:
    """The longest input, if there is a table of positions."""
    return spec.positions - spec.offset or None


@dataclass(frozen=True)
class Inputs:
    """Token sequences of one length, in batches."""

    batches: tuple[Array, ...]  # tokens (inputs, length)
    kind: str  # "random tokens", or the name of a text
    seed: int | None = None  # of random tokens

    @property
    def count(self) -> int:
        """How many sequences."""
        return sum(int(batch.shape[0]) for batch in self.batches)

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return int(self.batches[0].shape[1])

    @property
    def said(self) -> str:
        """In words: random tokens (32 x 128, seed 0)."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.kind} ({self.count} x {self.length}{seed})"

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return stated(self, "kind count length seed")


def random_tokens(
    model: Model, count: int = COUNT, length: int | None = None, seed: int = 0
) -> Inputs:
    """Sequences of independent, uniform tokens, as long as the model allows, at most 128 tokens."""
    length = _length(model, length)
    _require("count", count, 1)
    ids = np.random.default_rng(seed).integers(vocabulary(model.spec), size=(count, length))
    return Inputs(tuple(_batches(model, ids)), RANDOM, seed)


def read_text(
    model: Model, file: str | Path, count: int = COUNT, length: int | None = None
) -> Inputs:
    """The first pieces of a text file, each of `length` tokens.

    A shorter piece is left out unless it is the only one. The tokenizer is that of the model's
    directory, and adds its special tokens.
    """
    length = _length(model, length)
    _require("count", count, 1)
    rows = _tokenized(model, _read(Path(file), count * length * LETTERS), length)[:count]
    if len(rows[0]) < 2:
        raise SpecError(f"text {quote(str(file))}: fewer than 2 tokens; give a longer text")
    if max(map(max, rows)) >= vocabulary(model.spec):
        raise refusal(
            Path(model.name),
            f"the tokenizer has more tokens than the {vocabulary(model.spec)} of the model",
        )
    return Inputs(tuple(_batches(model, np.array(rows))), shown(file))


def shortened(
    model: Model, text: str | Path | None, count: int, length: int, seed: int = 0
) -> Inputs:
    """Sequences of a text, or random ones; shorter if the model has fewer positions."""
    _require("length", length, 2)
    fits = min(length, longest(model.spec) or length)
    if text is None:
        return random_tokens(model, count, fits, seed)
    return read_text(model, text, count, fits)


def require_tokens(model: Model, ids: Any) -> Array:
    """Numbers of tokens (n,), or of a batch of sequences (b, n), which the model must know."""
    given = np.asarray(ids)
    if given.ndim not in (1, 2) or given.shape[-1] < 1:
        raise SpecError(f"tokens have shape {list(given.shape)}; allowed: (n,) or (b, n)")
    most = vocabulary(model.spec) - 1
    if given.size and not 0 <= given.min() <= given.max() <= most:
        worst = given.min() if given.min() < 0 else given.max()
        raise SpecError(f"tokens: {worst} is not in the vocabulary; allowed: 0 to {most}")
    return given


def token_name(model: Model, inputs: Inputs, position: int) -> str | None:
    """The token at a position, if it is the same in all inputs and there is a tokenizer to ask."""
    found = {int(ids[position]) for batch in inputs.batches for ids in batch}
    try:
        text = _tokenizer(model).id_to_token(found.pop()) if len(found) == 1 else None
    except SegreError:
        return None
    return None if text is None else str(text)


def token_texts(model: Model, numbers: Sequence[int]) -> dict[int, str]:
    """The texts of tokens; empty without a tokenizer."""
    try:
        tokenizer = _tokenizer(model)
    except SegreError:
        return {}
    return {n: str(tokenizer.decode([n], skip_special_tokens=False)) for n in numbers}


def _length(model: Model, given: int | None) -> int:
    most = longest(model.spec)
    length = min(LENGTH, most or LENGTH) if given is None else given
    _require("length", length, 2)
    if most is not None and length > most:
        raise SpecError(
            f"length: {length} is more than the {most} positions of {quote(model.name)}; give at "
            f"most {most}"
        )
    return length


def _require(key: str, value: int, smallest: int) -> None:
    if value < smallest:
        raise SpecError(f"{key}: {value} is not allowed; allowed: whole numbers from {smallest}")


def _read(file: Path, letters: int) -> str:
    """The beginning of a text; letters have up to four bytes, and the last may be cut in two."""
    try:
        data = read_given(file, 4 * letters, cut=True)
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < 4 * letters)[
            :letters
        ]
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise SpecError(f"text {quote(str(file))}: cannot be read ({said})") from None


def _tokenized(model: Model, text: str, length: int) -> list[list[int]]:
    """Pieces of a text as tokens; a shorter one only if there is no other."""
    tokenizer = _tokenizer(model)
    if tokenizer.num_special_tokens_to_add(False) >= length:
        raise SpecError(
            f"length: {length} leaves no room for words beside special tokens; give a larger length"
        )
    tokenizer.enable_truncation(length)
    found = tokenizer.encode(text)
    pieces = [found.ids, *(more.ids for more in found.overflowing)]
    return [ids for ids in pieces if len(ids) == length] or pieces[:1]


def _tokenizer(model: Model) -> Any:
    """The tokenizer of the model's directory, as its tokenizer.json has it."""
    if model.store.tokenizer is not None:
        return model.store.tokenizer
    if model.folder is None:
        raise SpecError(
            f"model {quote(model.name)} has no tokenizer, which --text needs; give a model "
            "directory with one, or leave out --text"
        )
    tokenizers = library("tokenizers", "reading a text", extra="models")
    file = model.folder / TOKENIZER
    try:
        text = read_given(file, LARGEST_TOKENIZER).decode()
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # whatever the library raises on files that it cannot read
        said = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise refusal(model.folder, f"cannot read a tokenizer from {TOKENIZER} ({said})") from None
    tokenizer.no_padding()
    model.store.tokenizer = tokenizer
    return tokenizer


def _batches(model: Model, rows: Array) -> Iterator[Array]:
    """Batches of sequences that fit into memory."""
    length = rows.shape[1]
    one = 4 * length * (3 * model.spec.heads * length + 24 * model.spec.d)
    if one > DEFAULT_LIMIT:
        raise TooLargeError(
            f"length: {length} tokens need about {one / 2**30:,.1f} GiB of memory; give a "
            "smaller length"
        )
    step = max(1, AT_ONCE // one)
    return (rows[start : start + step] for start in range(0, len(rows), step))


# --- two models side by side ----------------------------------------------------------------------


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
        choice("by", self.by, WAYS)
        _require("rounds", self.rounds, 1)
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
    apart = [number for number in ours.keys() & theirs.keys() if ours[number] != theirs[number]]
    if apart:
        first = min(apart)
        raise CheckpointError(
            f"{one.name!r} and {two.name!r} have different tokenizers: token {first} is "
            f"{ours[first]!r} in one and {theirs[first]!r} in the other"
        )


def _file(model: Model) -> Path | None:
    """The tokenizer of the model's directory, if there is one."""
    file = None if model.folder is None else model.folder / TOKENIZER
    return file if file is not None and file.is_file() else None


def _tokens(model: Model) -> dict[int, str]:
    """The tokens by number, as tokenizer.json has them; none if it cannot be read, or is missing.

    It is read without the library, so that models can be merged where that is not installed.
    """
    file = _file(model)
    if file is None:
        return {}
    try:
        data = json.loads(read_given(file, LARGEST_TOKENIZER))
        vocab, added = data["model"]["vocab"], data.get("added_tokens") or []
        if isinstance(vocab, list):  # of Unigram: tokens with their scores
            found = {number: str(entry[0]) for number, entry in enumerate(vocab)}
        else:
            found = {int(number): str(token) for token, number in vocab.items()}
        return found | {int(token["id"]): str(token["content"]) for token in added}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}  # said by what needs it
