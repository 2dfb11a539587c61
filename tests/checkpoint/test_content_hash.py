"""Hashes of checkpoints: equal for copies, whatever the files; different for other functions."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import segre
from segre.checkpoint.content_hash import ContentHash
from segre.checkpoint.model import Model
from segre.errors import CheckpointError
from support.terminal import run
from support.zoo import IMAGES, NAMES, save_tiny

content_hash, move = segre.checkpoints.content_hash, segre.checkpoints.move
pytestmark = pytest.mark.models


def kept(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model in memory."""
    with Model.open(model) as opened:
        names = [name for name in opened.store.entries if name not in opened.copies]
        return {name: np.array(opened.store.raw(name)) for name in names}, opened.store.config


@pytest.mark.parametrize("family", [*NAMES, *IMAGES])
def test_moved_copies_have_the_same_hash(family: str, tmp_path: Path) -> None:
    """Of every kind of model; where a number is on an edge, that is said, and it is compared."""
    save_tiny(family, tmp_path / "model")
    one = content_hash(tmp_path / "model")
    two = content_hash(move(tmp_path / "model", seed=1, report=False))
    assert one.values != two.values
    assert one.compare(two).verdict == "same function", one.compare(two).reason
    for level, own in one.functions.items():
        other = two.functions[level]
        if own.edges or other.edges:
            continue
        assert own.hash == other.hash
    assert ContentHash.read(json.loads(json.dumps(one.document()))).compare(two).reason


def test_files_do_not_matter(tmp_path: Path) -> None:
    """Names, shards, order, types that hold the same numbers."""
    save_tiny("llama", tmp_path / "model")
    arrays, config = kept(tmp_path / "model")
    narrow = {name: x.astype(ml_dtypes.bfloat16) for name, x in arrays.items()}
    forms = [
        narrow,
        {name: x.astype(np.float32) for name, x in narrow.items()},
        {name: x.astype(np.float64) for name, x in reversed(narrow.items())},
        {name.removeprefix("model."): x for name, x in narrow.items()},
    ]
    found = [content_hash((form, config), exact=True) for form in forms]
    assert len({one.values for one in found}) == 1
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names, where = sorted(narrow), {}
    for number in range(2):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: narrow[name] for name in names[number::2]}, folder / file)
        where |= dict.fromkeys(names[number::2], file)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert content_hash(folder, exact=True).values == found[0].values
    assert content_hash(folder).compare(content_hash((narrow, config))).verdict == "same values"
    arrays = dict(narrow)
    arrays["model.norm.weight"] = arrays["model.norm.weight"] * ml_dtypes.bfloat16(1.01)
    assert content_hash((arrays, config), exact=True).values != found[0].values


def changes(arrays: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Models that are other functions, by small or by large changes that keep many norms."""
    d = len(arrays["model.norm.weight"])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]

    def with_(ending: str, change: Any) -> dict[str, Any]:
        return {n: change(x) if n.endswith(ending) else x for n, x in arrays.items()}

    swapped = {
        n.replace("layers.0", "layers.x").replace("layers.1", "layers.0").replace("x", "1")
        if ".layers." in n and ".layers.2." not in n
        else n: x
        for n, x in arrays.items()
    }
    return {
        "another sign": with_("1.self_attn.o_proj.weight", lambda x: -x),
        "another sign of queries": with_("1.self_attn.q_proj.weight", lambda x: -x),
        "another sign of units": with_("0.mlp.down_proj.weight", lambda x: -x),
        "another basis": with_("0.self_attn.v_proj.weight", lambda x: (x @ turn).astype(x.dtype)),
        "other tokens": with_("embed_tokens.weight", lambda x: x[::-1].copy()),
        "other labels": with_("lm_head.weight", lambda x: x[::-1].copy()),
        "layers swapped": swapped,
        "slightly trained": {
            n: (x * (1 + 1e-2 * rng.standard_normal(x.shape))).astype(x.dtype)
            for n, x in arrays.items()
        },
    }


def test_other_functions_have_other_hashes(tmp_path: Path) -> None:
    save_tiny("llama", tmp_path / "model")
    arrays, config = kept(tmp_path / "model")
    one = content_hash((arrays, config))
    for what, changed in changes(arrays, np.random.default_rng(0)).items():
        other = content_hash((changed, config))
        assert other.compare(one).verdict == "different", what
        assert other.value != one.value, what


@pytest.mark.parametrize("seed", range(12))
def test_noise_on_any_matrix_is_seen(seed: int, tmp_path: Path) -> None:
    """1 % of noise on one matrix of a model, drawn at random."""
    rng = np.random.default_rng(seed)
    family = str(rng.choice(NAMES))
    save_tiny(family, tmp_path / "model")
    arrays, config = kept(tmp_path / "model")
    one = content_hash((arrays, config))
    matrices = [n for n, x in arrays.items() if min(x.shape) > 2 and x.ndim > 1 and "bias" not in n]
    for name in rng.choice(matrices, 3):
        x = arrays[name]
        noisy = x + 0.01 * x.std() * rng.standard_normal(x.shape).astype(x.dtype)
        other = content_hash(({**arrays, name: noisy}, config))
        assert other.value != one.value, (family, name)
        assert other.compare(one).verdict == "different", (family, name)


def test_hashes_of_version_1_are_compared_by_what_they_have(tmp_path: Path) -> None:
    save_tiny("llama", tmp_path / "model")
    one, two = content_hash(tmp_path / "model"), content_hash(move(tmp_path / "model"))
    assert one.value.startswith("v2:")
    assert not one.values.startswith("v")
    old = one.document() | {"version": 1}
    old["numbers"] = [x for x in old["numbers"] if not x[1][-1].isdigit()]
    old["numbers"].append(["1", "W_Q, probed", 1.0, 0.1])
    found = ContentHash.read(old).compare(two)
    assert found.verdict == "same function"
    assert "both versions" in found.reason
    old["numbers"][0][2] += 1
    assert two.compare(ContentHash.read(old)).verdict == "different"


def test_several_are_grouped(tmp_path: Path) -> None:
    save_tiny("llama", tmp_path / "one")
    save_tiny("mistral", tmp_path / "other")
    move(tmp_path / "one", tmp_path / "moved", report=False)
    done = run("model", "hash", "one", "other", "moved", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "same hash of the function: one, moved" in done.stdout
    said = json.loads(run("model", "hash", "one", "other", "--json", cwd=tmp_path).stdout)
    assert said["groups"] == [["one"], ["other"]]
    (tmp_path / "one.json").write_text(json.dumps(said["models"][0]))
    done = run("model", "hash", "moved", "other", "--compare", "one.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "moved, compared: same function" in done.stdout
    assert "other, compared: different" in done.stdout


def test_an_edge_is_said_and_both_sides_are_listed(tmp_path: Path) -> None:
    """A gain is changed until one number lies on an edge of the grid."""
    save_tiny("llama", tmp_path / "model")
    arrays, config = kept(tmp_path / "model")
    place = next(
        i
        for i, x in enumerate(content_hash((arrays, config)).numbers)
        if (x.part, x.name) == ("head", "W_U, size")
    )
    step = 2.0**-8
    x = content_hash((arrays, config)).numbers[place].value
    factor = 2 ** ((np.floor(x / step) + 0.5) * step - x)
    arrays = {n: x.astype(np.float64) for n, x in arrays.items()}
    moved = {n: x * factor if n == "lm_head.weight" else x for n, x in arrays.items()}
    near = content_hash(({n: x.astype(np.float32) for n, x in moved.items()}, config))
    fine = near.functions["fine"]
    assert "head, W_U, size" in fine.edges
    assert fine.others
    sides = []
    for nudge in (1 - 1e-4, 1 + 1e-4):
        aside = {n: x * nudge if n == "lm_head.weight" else x for n, x in moved.items()}
        sides.append(content_hash(({n: x.astype(np.float32) for n, x in aside.items()}, config)))
    for side in sides:
        assert side.value in (fine.hash, *fine.others) or len(fine.edges) > 1


def test_the_command(tmp_path: Path) -> None:
    save_tiny("llama", tmp_path / "model")
    move(tmp_path / "model", tmp_path / "other", report=False)
    said = run("model", "hash", "model", "--json", cwd=tmp_path).stdout
    (tmp_path / "model.json").write_text(said)
    done = run("model", "hash", "other", "--compare", "model.json", cwd=tmp_path)
    assert done.returncode == 0
    assert "compared: same function" in done.stdout
    arrays = load_file(tmp_path / "other" / "model.safetensors")
    arrays["lm_head.weight"] *= 1.01
    save_file(arrays, tmp_path / "other" / "model.safetensors")
    done = run("model", "hash", "other", "--compare", "model.json", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["compared"]["verdict"] == "different"


@pytest.mark.parametrize("wrong", [{"version": 9}, {"version": 1}, {"version": 1, "functions": 3}])
def test_what_is_no_hash_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="hash") as caught:
        ContentHash.read(wrong)
    assert "\n" not in str(caught.value)
