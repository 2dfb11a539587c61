"""Shrunk checkpoints: smaller, refused by others, and rebuilt to within rounding."""

import json
from pathlib import Path

import numpy as np
import pytest
import transformers

from segre.checkpoint.commands import canonical, expand, shrink
from segre.errors import CheckpointError, SegreError
from support.checkpoints import apart, rewritten, stored
from support.zoo import IMAGES, NAMES, save_tiny, tiny


@pytest.mark.parametrize("name", [*NAMES, *IMAGES])
def test_what_is_left_out_comes_back(name: str, tmp_path: Path) -> None:
    model = save_tiny(name, tmp_path / "model")
    done = shrink(model, tmp_path / "small")
    assert done.kept == ()
    assert 0 < done.dropped <= done.redundant
    numbers = sum(x.size for x in shrunk_arrays(tmp_path / "small").values())
    assert numbers < done.parameters
    expand(tmp_path / "small", tmp_path / "again")
    assert apart(model, tmp_path / "again") < 1e-5
    canonical(model, tmp_path / "canonical")
    ours, theirs = stored(tmp_path / "canonical"), stored(tmp_path / "again")
    assert list(ours) == list(theirs)
    for key, tensor in ours.items():
        size = max(float(np.linalg.norm(tensor)), 1e-30)
        assert np.linalg.norm(tensor - theirs[key]) / size < 1e-5, key
    config = json.loads((model / "config.json").read_text())
    assert json.loads((tmp_path / "again" / "config.json").read_text()) == config


def shrunk_arrays(directory: Path) -> dict[str, np.ndarray]:
    from segre.checkpoint.store import Store

    with Store.open(directory) as store:
        return {
            name: np.array(store.raw(name))
            for name in store.entries
            if not name.partition("/")[2].startswith("pivots")
        }


def test_nobody_loads_a_shrunk_checkpoint_by_mistake(tmp_path: Path) -> None:
    shrink(save_tiny("llama", tmp_path / "model"), tmp_path / "small")
    with pytest.raises((ValueError, KeyError), match="segre-shrunk"):
        transformers.AutoModel.from_pretrained(tmp_path / "small")
    with pytest.raises(SegreError, match="segre-shrunk"):
        canonical(tmp_path / "small", tmp_path / "out")
    with pytest.raises(CheckpointError, match="cannot be expanded"):
        expand(tmp_path / "model", tmp_path / "out")


def test_ill_conditioned_blocks_are_kept_and_named(tmp_path: Path) -> None:
    """In half precision any gauge but the balanced one would cost accuracy."""
    import torch

    tiny("gpt2").to(torch.bfloat16).save_pretrained(tmp_path / "model")
    done = shrink(tmp_path / "model", tmp_path / "small")
    assert len(done.kept) == 6
    assert "condition number" in done.kept[0]
    expand(tmp_path / "small", tmp_path / "again")

    def degenerate(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "2":
            w["W_V"][1, 0, 0] *= 1e-7

    bad = rewritten(save_tiny("llama", tmp_path / "one"), tmp_path / "bad", degenerate)
    done = shrink(bad, tmp_path / "bad-small")
    assert [text.split(":")[0] for text in done.kept] == ["layer 2"]
    expand(tmp_path / "bad-small", tmp_path / "bad-again")
    assert apart(bad, tmp_path / "bad-again") < 1e-5


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c.pop("original"),
        lambda c: c.update(constants={"1/norm1.gain": [1.0, [10**12]]}),
        lambda c: c.update(constants={"1/nothing": [1.0, [1]]}),
        lambda c: c.update(constants=[]),
        lambda c: c.update(tensors=[["x", "F32", [1], "../x.safetensors"]]),
        lambda c: c.update(tensors=[["x", "F99", [1], "x.safetensors"]]),
        lambda c: c["original"].update(hidden_size=48),
        lambda c: c["original"].update(vocab_size=10**9),
        lambda c: c.update(metadata=3),
        lambda c: c.update(version=2),
    ],
)
def test_damaged_configs(damage: object, tmp_path: Path) -> None:
    shrink(save_tiny("gpt2", tmp_path / "model"), tmp_path / "small")
    file = tmp_path / "small" / "config.json"
    config = json.loads(file.read_text())
    assert callable(damage)
    damage(config)
    file.write_text(json.dumps(config))
    with pytest.raises(SegreError) as caught:
        expand(tmp_path / "small", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_damaged_pivots(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shrink(save_tiny("gpt2", tmp_path / "model"), tmp_path / "small")
    file = tmp_path / "small" / "shrunk-1.safetensors"
    arrays = load_file(file)
    for bad in (9999, 0):
        changed = dict(arrays)
        changed["1/pivots_V"] = np.full_like(arrays["1/pivots_V"], bad)
        save_file(changed, file, metadata={"format": "pt"})
        with pytest.raises(CheckpointError, match="damaged"):
            expand(tmp_path / "small", tmp_path / "out")
