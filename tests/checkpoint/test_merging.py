"""Two checkpoints merged: aligned, then added up."""

import json
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from bench.small_language import LENGTH, Language, new_model, saved, trained
from safetensors.numpy import load_file, save_file

from segre.checkpoint.barrier import Between, loss
from segre.checkpoint.model import Model
from segre.checkpoint.one_form import untied
from segre.checkpoint.outputs import outputs, random_tokens
from segre.checkpoints import align, barrier, merge, move, same
from segre.errors import SegreError
from segre.report.png import plot
from segre.transformer.forward import Tokens
from support.checkpoints import apart, rewritten, stored
from support.zoo import save_tiny

# One of each kind of stream, heads and units.
MODELS = ("llama", "gpt2", "gemma2", "bert-mlm", "albert-mlm", "mixtral", "deepseek-v3", "vit")


# --- two fine-tunes of one base -----------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, two fine-tunes a and b on two dialects, b moved, and a text of both."""
    folder = tmp_path_factory.mktemp("tuned")
    base = trained(new_model("llama untied", 0, width=32), 0, 150)
    saved(base, folder / "base")
    lines = []
    for number, name in enumerate("ab", 1):
        words = Language(number)
        saved(trained(base, number, 40, 1e-3, words), folder / name)
        lines.append(words.write(folder / f"{name}.txt", 16, 5).read_text().splitlines())
    (folder / "text").write_text(
        "\n".join(line for both in zip(*lines, strict=True) for line in both)
    )
    move(folder / "b", folder / "moved", report=False)
    return folder


def test_a_moved_fine_tune_merges_as_if_it_had_not_moved(tuned: Path, tmp_path: Path) -> None:
    a, b, moved = (tuned / name for name in ("a", "b", "moved"))
    on: dict[str, Any] = {"text": tuned / "text", "length": LENGTH}
    by_weights = align(a, moved)
    by_activations = align(a, moved, by="activations", **on)
    found = barrier(a, b, moved, by_weights, by_activations, points=5, **on)
    plain, naive, *aligned = found.lines
    ends = plain.losses[0], plain.losses[-1]
    assert plain.middle < min(ends)  # the average knows both dialects
    assert naive.middle > max(ends) + 0.5
    assert naive.barrier > 0.5
    for line in aligned:
        assert line.middle < plain.middle + 0.02
        assert line.losses[-1] == pytest.approx(ends[1], abs=1e-4)  # the same function as b
    assert found.value == found.lines[-1].barrier
    plot(found, tmp_path / "line.png")
    assert (tmp_path / "line.png").stat().st_size > 5000

    # what is written is the middle of the line
    merged = merge(a, moved, tmp_path / "merged")
    middle = barrier(merged, a, points=2, **on).lines[0].losses[0]
    assert middle == pytest.approx(aligned[0].middle, abs=1e-4)
    assert "text" not in merged.by


def test_a_task_vector_is_found_wherever_its_ends_have_moved(tuned: Path) -> None:
    a, b, base = (tuned / name for name in ("a", "b", "base"))
    on: dict[str, Any] = {"text": tuned / "text", "length": LENGTH}
    plain = merge(a, b, task_vector=base, by="none")
    tensors = [load_file(folder / "model.safetensors") for folder in (a, b, base)]
    for name, value in plain.tensors.items():
        one, two, start = (np.float64(each[name]) for each in tensors)
        np.testing.assert_allclose(value, one + two - start, atol=1e-6)
    assert plain.formula == "A + 1 (B - BASE)"

    far = [move(each, seed=seed) for seed, each in enumerate((a, b), 1)]
    found = merge(*far, task_vector=base)
    assert [one.moved for one in found.aligned] == [True, True]
    losses = [barrier(base, each, points=2, **on).lines[0].losses[1] for each in (plain, found)]
    assert losses[1] == pytest.approx(losses[0], abs=0.02)
    half = merge(*far, task_vector=base, weight=0)  # a alone, in the basis of the base
    assert same(a, half).verdict == "same function"


def test_neighbours_are_merged_as_they_are(tuned: Path) -> None:
    a, b = tuned / "a", tuned / "b"
    found, plain = merge(a, b), merge(a, b, by="none")
    (side,) = found.aligned
    if not side.moved:
        for name, value in plain.tensors.items():
            np.testing.assert_array_equal(value, found.tensors[name])
    assert side.whole.distances()[1] <= side.whole.distances()[0]


# --- laws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_and_its_moved_copy_merge_to_the_same_function(name: str, tmp_path: Path) -> None:
    model = save_tiny(name, tmp_path / "model")
    merged = merge(model, move(model, seed=3), tmp_path / "merged", weight=0.3)
    assert apart(model, merged.directory) < 1e-5
    assert merged.formula == "0.7 A + 0.3 B'"


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_the_ends_of_the_line(weight: float, tmp_path: Path) -> None:
    one = save_tiny("qwen3", tmp_path / "one")
    two = rewritten(one, tmp_path / "two", _fresh)
    merged = merge(one, two, tmp_path / "merged", weight=weight, by="activations")
    assert apart(two if weight else one, tmp_path / "merged") < 1e-5
    assert "random tokens" in merged.by


def _fresh(part: str, w: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(int.from_bytes(part.encode()))
    for key, value in w.items():
        w[key] = value.mean() + rng.standard_normal(value.shape) * value.std()


def test_types_files_and_tokenizer_are_those_of_the_first(tmp_path: Path) -> None:
    one = save_tiny("llama-tied", tmp_path / "one")
    two = move(one, tmp_path / "two", report=False).directory
    tensors = stored(one)
    (one / "model.safetensors").unlink()
    files = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        own = {n: x.astype(ml_dtypes.bfloat16) for n, x in tensors.items() if files[n] == file}
        save_file(own, one / file)
    (one / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (one / "tokenizer_config.json").write_text("{}")
    merged = merge(one, two, tmp_path / "merged")
    written = stored(merged.directory)
    assert {str(x.dtype) for x in written.values()} == {"bfloat16"}
    assert sorted(p.name for p in merged.directory.iterdir()) == sorted(
        p.name for p in one.iterdir()
    )
    assert "lm_head.weight" not in written
    for name, value in written.items():
        near = np.abs(np.float64(value) - np.float64(tensors[name])).max()
        assert near < 0.02 * np.abs(tensors[name]).max(), name


@pytest.mark.parametrize(
    "name", ["llama-tied", "gpt2", "gpt-neox-tied", "qwen3-moe", "granite-tied"]
)
def test_untied_models_are_the_same_function(name: str, tmp_path: Path) -> None:
    model = save_tiny(name, tmp_path / "model")
    with Model.open(model) as one:
        tokens = random_tokens(one.spec, 0)
        here, there = (outputs(each, tokens) for each in (one, untied(one)))
    np.testing.assert_allclose(here, there, atol=1e-12 * np.abs(here).max())
    merged = merge(model, move(model, seed=1), tmp_path / "merged", untie=True)
    assert apart(model, merged.directory) < 1e-5
    assert not json.loads((merged.directory / "config.json").read_text())["tie_word_embeddings"]


def test_losses_are_those_of_the_library(tuned: Path) -> None:
    from transformers import LlamaForCausalLM

    words = Language().sentences(4, np.random.default_rng(0))
    theirs = LlamaForCausalLM.from_pretrained(tuned / "a")
    with torch.no_grad():
        wanted = float(theirs(input_ids=torch.tensor(words), labels=torch.tensor(words)).loss)
    with Model.open(tuned / "a") as a, Model.open(tuned / "b") as b:
        assert loss(Between(a, b, 0.0), [Tokens(words)]) == pytest.approx(wanted, abs=1e-5)
    found = barrier(tuned / "a", tuned / "b", tokens=words, points=2)
    assert found.lines[0].losses[0] == pytest.approx(wanted, abs=1e-5)


# --- what is refused ----------------------------------------------------------------------------


def test_what_cannot_be_merged_is_refused(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    out = tmp_path / "out"

    def refused(said: str, *given: Path, **options: Any) -> None:
        with pytest.raises(SegreError, match=said) as caught:
            merge(*given, out, **options)
        assert "\n" not in str(caught.value)
        assert not out.exists()

    other = save_tiny("gpt2", tmp_path / "gpt2")
    refused(r"one' \(llama\) and .*gpt2' \(gpt2\) have different architectures", one, other)
    refused("kv", one, save_tiny("llama-mha", tmp_path / "mha"))
    refused("allowed: weights, activations, none", one, one, by="names")
    refused("weight: nan", one, one, weight=float("nan"))
    refused("--text is used only with --by activations", one, one, text=tmp_path / "text")
    refused("has no effect", *[save_tiny("bert-mlm", tmp_path / "bert")] * 2, untie=True)

    tensors = load_file(one / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"

    def damaged(folder: str, changed: dict[str, np.ndarray]) -> Path:
        shutil.copytree(one, tmp_path / folder)
        save_file(changed, tmp_path / folder / "model.safetensors")
        return tmp_path / folder

    less = damaged("less", {key: value for key, value in tensors.items() if key != name})
    refused(f"tensor '{name}' is missing", one, less)
    broken = tensors[name].copy()
    broken[2, 3] = np.nan
    worse = damaged("worse", {**tensors, name: broken})
    refused(rf"tensor '{name}' is nan at \[2, 3\]", one, worse)
    refused("less", one, one, task_vector=less)

    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(SegreError, match="out"):
        merge(one, one, out)
    assert [file.name for file in out.iterdir()] == ["mine"]


def test_other_tokenizers_are_refused(tuned: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tuned / "b", tmp_path / "other")
    data = json.loads((other / "tokenizer.json").read_text())
    data["model"]["vocab"] |= {"w3": 4, "w4": 3}
    (other / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(SegreError, match="token 3 is 'w3' in one and 'w4' in the other"):
        merge(tuned / "a", other)


def test_barriers_that_cannot_be_measured_are_refused(tuned: Path, tmp_path: Path) -> None:
    a, text = tuned / "a", tuned / "text"
    bert = save_tiny("bert-mlm", tmp_path / "bert")
    with pytest.raises(SegreError, match="no next-token loss"):
        barrier(bert, bert, text=text)
    for tokens in ([1, 2], [[0.5, 1.0]], [[1]], [[1, 64]], [[-1, 2]]):
        with pytest.raises(SegreError, match=r"^tokens"):
            barrier(a, a, tokens=tokens)
    with pytest.raises(SegreError, match="give a text, or tokens"):
        barrier(a, a)
    with pytest.raises(SegreError, match="points: 1 is not allowed"):
        barrier(a, a, text=text, points=1)
    with pytest.raises(SegreError, match="different architectures"):
        barrier(a, save_tiny("llama", tmp_path / "llama"), text=text)
    with pytest.raises(SegreError, match="cannot be read"):
        barrier(a, a, text=tmp_path / "none")
    bare = shutil.copytree(a, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    with pytest.raises(SegreError, match="tokenizer"):
        barrier(bare, bare, text=text)
