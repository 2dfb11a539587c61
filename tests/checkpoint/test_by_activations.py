"""Two checkpoints aligned by what they do on tokens."""

from pathlib import Path

import numpy as np
import pytest

from segre.checkpoint.by_activations import Run
from segre.checkpoint.commands import align, move
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import random_tokens
from segre.checkpoint.reduce import reduced
from segre.errors import SegreError
from segre.transformer.forward import run
from support.checkpoints import apart, rewritten, write_tokenizer
from support.zoo import save_tiny

# One of each kind of stream, heads and units.
MODELS = (
    *("llama", "gpt2", "gpt2-relu", "gpt-neox", "gemma2-untied", "bert-mlm", "albert-mlm"),
    *("qwen3-moe", "deepseek-v3", "vit"),
)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt-neox", "albert", "deepseek-v3", "mixtral"])
def test_reduced_weights_run_as_the_model_does(name: str, tmp_path: Path) -> None:
    with Model.open(save_tiny(name, tmp_path / "model")) as model:
        tokens = random_tokens(model.spec, 0)
        mine = Run(model.spec, [tokens])
        for found in reduced(model):
            if found.part != "head":
                mine.part(found.part, found.tensors)
        ((theirs,),) = run(model, [tokens])
        there = np.moveaxis(theirs[:, 0, 0], 0, 1).reshape(model.spec.d, -1)
    here = np.concatenate(mine.streams[model.spec.layers], axis=-1)
    if model.spec.norm == "layer":  # nobody sees the mean
        here, there = here - here.mean(axis=0), there - there.mean(axis=0)
    shift = (here - there).mean(axis=1, keepdims=True)  # nor what readers make up for
    np.testing.assert_allclose(here - shift, there, atol=1e-10 * np.abs(there).max())


@pytest.mark.parametrize("name", MODELS)
def test_copies_come_back(name: str, tmp_path: Path) -> None:
    model = save_tiny(name, tmp_path / "model")
    move(model, tmp_path / "moved", seed=2)
    way = {"by": "activations", "rounds": 2 if name == "llama" else 1}
    written = align(model, tmp_path / "moved", tmp_path / "back", report=False, **way)
    before, after = written.blocks[-1].distances()
    assert before > 0.5
    assert after < 1e-6
    assert "random tokens" in written.by


@pytest.mark.parametrize("name", ["llama-tied", "gpt2"])
def test_functions_stay(name: str, tmp_path: Path) -> None:
    def fresh(part: str, w: dict[str, np.ndarray]) -> None:
        rng = np.random.default_rng(int.from_bytes(part.encode()))
        for key, value in w.items():
            w[key] = value.mean() + rng.standard_normal(value.shape) * value.std()

    one = save_tiny(name, tmp_path / "one")
    two = rewritten(one, tmp_path / "two", fresh)
    written = align(one, two, tmp_path / "aligned", by="activations")
    before, after = written.blocks[-1].distances()
    assert after < before
    assert written.agrees
    assert apart(two, tmp_path / "aligned") < 1e-5


def test_a_text_is_read_by_the_tokenizer_that_both_have(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    move(one, tmp_path / "two", report=False)
    text = tmp_path / "text"
    text.write_text(" ".join(f"w{i % 20}" for i in range(400)))
    way = {"by": "activations", "text": text}
    with pytest.raises(SegreError, match="tokenizer"):
        align(one, tmp_path / "two", **way)
    words = [f"w{i}" for i in range(20)]
    write_tokenizer(tmp_path / "two", words)  # that of either will do
    written = align(one, tmp_path / "two", **way)
    assert "text" in written.by
    assert written.blocks[-1].distances()[1] < 1e-6
    write_tokenizer(one, words[::-1])
    with pytest.raises(SegreError, match="token 0 is 'w19' in one and 'w0' in the other"):
        align(one, tmp_path / "two", **way)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ({"by": "names"}, "allowed: weights, activations"),
        ({"rounds": 0}, "allowed: whole numbers from 1"),
        ({"text": "words.txt"}, "--by activations"),
        ({"by": "activations", "text": "words.txt"}, "tokenizer|cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(way: dict, said: str, tmp_path: Path) -> None:
    model = save_tiny("llama", tmp_path / "model")
    with pytest.raises(SegreError, match=said):
        align(model, model, tmp_path / "out", **way)
    assert not (tmp_path / "out").exists()


def test_far_models_are_aligned_even_if_their_weights_come_no_nearer(tmp_path: Path) -> None:
    """A gain near 0 makes what reads it large; neighbours stay as they are."""

    def small_gains(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "head":
            w["norm.gain"][::3] = 1e-3

    def fresh(part: str, w: dict[str, np.ndarray]) -> None:
        rng = np.random.default_rng(int.from_bytes(part.encode()))
        for key, value in w.items():
            w[key] = value.mean() + rng.standard_normal(value.shape) * value.std()

    plain = save_tiny("gpt2-untied", tmp_path / "plain")
    one = rewritten(plain, tmp_path / "one", small_gains)
    two = rewritten(plain, tmp_path / "two", fresh)
    far = align(one, two, tmp_path / "far", by="activations")
    before, after = far.blocks[-1].distances()
    assert after > before
    assert far.agrees
    assert "although the distance" in str(far)
    near = align(plain, rewritten(plain, tmp_path / "near", lambda *_: None), by="activations")
    assert near.blocks[-1].distances() == (0.0, 0.0)
