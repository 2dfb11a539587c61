"""Token sequences: seeded, in range, of the length asked for; texts through a tokenizer."""

from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from segre.checkpoint import inputs
from segre.checkpoint.inputs import Inputs, random_tokens, read_text, vocabulary
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import load
from segre.checkpoint.store import Store
from segre.errors import CheckpointError, SpecError, TooLargeError
from support.checkpoints import minilm, save_tokenizer
from support.small_models import FAMILIES, small

WORDS = [f"w{i}" for i in range(40)]


def rows(found: Inputs) -> list[list[int]]:
    return [row for batch in found.batches for row in batch.tolist()]


def beside(model: Model, folder: Path) -> Model:
    """The model, with its tokenizer in a directory."""
    return replace(model, store=Store(folder, {}, None, model.name))


@pytest.fixture
def reader(tmp_path: Path) -> Model:
    """A model with a tokenizer: [CLS] is 0, [SEP] is 1, w0 is 2, ..."""
    save_tokenizer(tmp_path, WORDS)
    return beside(small("bert"), tmp_path)


def written(folder: Path, text: str) -> Path:
    file = folder / "text.txt"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("family", FAMILIES)
def test_random_tokens_are_seeded_and_known_to_the_model(family: str) -> None:
    loaded = small(family)
    found = random_tokens(loaded, 40, 20, seed=3)
    assert rows(found) == rows(random_tokens(loaded, 40, 20, seed=3))
    assert rows(found) != rows(random_tokens(loaded, 40, 20, seed=4))
    assert (found.count, found.length) == (40, 20)
    assert {token for row in rows(found) for token in row} == set(range(vocabulary(loaded.spec)))


def test_the_length_is_what_the_model_takes_unless_given() -> None:
    assert random_tokens(small("bert"), 1).length == 32
    assert random_tokens(small("llama"), 1).length == 128
    with pytest.raises(SpecError, match="length: 33 is more than the 32 positions"):
        random_tokens(small("gpt2"), 1, 33)
    for count, length in ((0, 4), (1, 1), (-1, 4)):
        with pytest.raises(SpecError, match="is not allowed; allowed: whole numbers from"):
            random_tokens(small("bert"), count, length)


def test_batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = small("bert")
    whole = random_tokens(loaded, 7, 5)
    monkeypatch.setattr(inputs, "AT_ONCE", 1)
    parts = random_tokens(loaded, 7, 5)
    assert (len(whole.batches), len(parts.batches)) == (1, 7)
    assert rows(whole) == rows(parts)
    monkeypatch.setattr(inputs, "DEFAULT_LIMIT", 1)
    with pytest.raises(TooLargeError, match="length: 5 tokens need"):
        random_tokens(loaded, 1, 5)


def test_a_text_is_cut_into_pieces_of_one_length(reader: Model, tmp_path: Path) -> None:
    file = written(tmp_path, " ".join(WORDS))
    found = rows(read_text(reader, file, 100, 10))
    assert [row[1:-1] for row in found] == [list(range(8 * i + 2, 8 * i + 10)) for i in range(5)]
    assert all((row[0], row[-1]) == (0, 1) for row in found)
    assert rows(read_text(reader, file, 2, 10)) == found[:2]
    assert rows(read_text(reader, file, 9, 32))[0][1:-1] == list(range(2, 32))
    assert len(rows(read_text(reader, file, 9, 32))) == 1  # the rest is shorter
    assert rows(read_text(reader, written(tmp_path, "w3 w4"), 9, 32)) == [[0, 5, 6, 1]]


def test_texts_that_cannot_be_used_are_refused(reader: Model, tmp_path: Path) -> None:
    file = written(tmp_path, "w0 w1 w2")
    with pytest.raises(SpecError, match="directory"):
        read_text(reader, tmp_path)
    with pytest.raises(SpecError, match="No such file"):
        read_text(reader, "a\0b")
    with pytest.raises(SpecError, match="no room for words"):
        read_text(reader, file, length=2)
    with pytest.raises(SpecError, match="has no tokenizer"):
        read_text(small("bert"), file)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CheckpointError, match="cannot read a tokenizer"):
        read_text(beside(reader, empty), file)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(SpecError, match="cannot be read"):
        read_text(reader, tmp_path / "binary")


def test_a_tokenizer_of_another_model_is_refused(reader: Model, tmp_path: Path) -> None:
    file = written(tmp_path, "w0 w39")
    fewer = load("bert/d=8/heads=2/ff=8/vocab=20/t=32")
    with pytest.raises(CheckpointError, match="has more tokens than the 20"):
        read_text(beside(fewer, tmp_path), file)


def test_a_text_has_the_tokens_that_the_library_gives_it(tmp_path: Path) -> None:
    """MiniLM's own tokenizer, and text with accents, marks of its own and other scripts."""
    text = "Attention is not all [SEP] you need: naïve Ünïcode, 中文 and 100 emoji 🙂. " * 9
    file = written(tmp_path, text)
    loaded = load(minilm())
    library = AutoTokenizer.from_pretrained(minilm())
    pieces = library(text, truncation=True, max_length=16, return_overflowing_tokens=True)
    right = [ids for ids in pieces["input_ids"] if len(ids) == 16]
    assert rows(read_text(loaded, file, 100, 16)) == right
    name = inputs.token_name(loaded, read_text(loaded, file, 3, 16), 0)
    assert name == library.convert_ids_to_tokens(right[0][0]) == "[CLS]"
