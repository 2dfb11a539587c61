"""Where checkpoints come from: tiny models, trained here, and what is made of them."""

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bench.descendants import (
    moved,
    multiplied,
    noised,
    pruned,
    quantised,
    rounded,
    smaller_llama,
    stored_as,
    without_heads,
)
from bench.tiny_models import Checkpoint, fine_tuned, taken, trained
from safetensors.numpy import save_file

import segre
from segre.checkpoint.grids import grid_of
from segre.checkpoint.kinship import NULL_MOST, NULL_PAIRS, THRESHOLD
from segre.checkpoint.lineage import Relation
from segre.checkpoint.model import Model
from segre.checkpoint.noise import structure
from segre.errors import SegreError
from segre.report.png import plot
from support.terminal import run

FAMILIES = ("gpt2", "llama")
SEEDS, STEPS = 3, 50
pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def pool() -> dict[str, list[Any]]:
    """By family: models trained apart."""
    return {family: [trained(family, seed, STEPS) for seed in range(SEEDS)] for family in FAMILIES}


@pytest.fixture(scope="module")
def bases(pool: dict[str, list[Any]]) -> dict[str, Checkpoint]:
    return {family: taken(models[0]) for family, models in pool.items()}


def relation(one: Any, two: Any) -> Relation:
    return segre.checkpoints.lineage(one, two).pairs[0]


DONE: dict[str, tuple[str, Callable[[Checkpoint], Checkpoint]]] = {
    "nothing": ("identical", lambda x: x),
    "moved": ("same function, moved", moved),
    "rounded": ("rounded", rounded),
    "bfloat16": ("rounded", lambda x: stored_as(x, ml_dtypes.bfloat16)),
    "noise": ("noise added", lambda x: noised(x, 0.01)),
    "more noise, moved": ("noise added", lambda x: moved(noised(x, 0.1), 2)),
    "moved, then noise": ("noise added", lambda x: noised(moved(x, 3), 0.1)),
    "multiplied": ("noise added", lambda x: multiplied(x, 0.05)),
    "8 bits": ("quantised", lambda x: quantised(x, 8)),
    "4 bits in groups": ("quantised", lambda x: quantised(x, 4, 32)),
    "pruned": ("pruned", pruned),
    "pruned, moved": ("pruned", lambda x: moved(pruned(x), 4)),
    "without a head, moved": ("pruned", lambda x: moved(without_heads(x), 5)),
}


@pytest.mark.parametrize("what", DONE)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_done_is_seen(family: str, what: str, bases: dict[str, Checkpoint]) -> None:
    verdict, make = DONE[what]
    found = relation(bases[family], make(bases[family]))
    assert found.verdict == verdict, found.reason
    assert found.related
    assert found.distance < 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_training_is_told_from_noise(family: str, pool: dict[str, list[Any]]) -> None:
    base, tuned = taken(pool[family][0]), fine_tuned(pool[family][0], family, 20)
    for other in (tuned, moved(tuned)):
        found = relation(base, other)
        assert found.verdict == "fine-tuned", found.reason
        assert found.change is not None
        assert found.change.moved == (other is not tuned)


@pytest.mark.parametrize("stored", ["float32", "float16", "bfloat16"])
def test_training_of_a_part_is_seen(stored: str, bases: dict[str, Checkpoint]) -> None:
    """Only tables; only vectors; only one matrix, by an update of rank 2; the rest is rounded."""
    arrays, config = bases["llama"]
    rng = np.random.default_rng(0)

    def low(shape: tuple[int, ...]) -> np.ndarray:
        left, right = rng.standard_normal((shape[0], 2)), rng.standard_normal((2, shape[1]))
        return 0.01 * left @ right

    for ending, words in {
        "embed_tokens.weight": "only embedding tables differ",
        "model.norm.weight": "only vectors differ",
        "1.mlp.up_proj.weight": "rows changed together",
    }.items():
        changed = {
            n: (x + (low(x.shape) if x.ndim == 2 else 0.1)).astype(x.dtype)
            if n.endswith(ending)
            else x
            for n, x in arrays.items()
        }
        base = stored_as((arrays, config), np.dtype(stored))
        found = relation(base, (changed, config))
        assert found.verdict == "fine-tuned", found.reason
        assert words in found.reason
        assert relation(base, moved((changed, config))).verdict == "fine-tuned"


def test_models_that_were_trained_apart_are_unrelated(pool: dict[str, list[Any]]) -> None:
    for models in pool.values():
        for one, two in combinations([taken(model) for model in models], 2):
            found = relation(one, two)
            assert found.verdict == "unrelated"
            assert found.kinship is not None
            assert found.kinship.share <= NULL_MOST < THRESHOLD <= found.kinship.threshold
            assert found.kinship.error == 3 / NULL_PAIRS
            assert found.distance > 1


def test_what_lost_heads_and_units_is_recognised(pool: dict[str, list[Any]]) -> None:
    one, two = (taken(model) for model in pool["llama"][:2])
    found = relation(one, moved(smaller_llama(one, 3, 64)))
    assert found.verdict == "pruned"
    assert "heads is 4 and 3" in found.reason
    assert relation(two, smaller_llama(one, 3, 64)).verdict == "unrelated"


def test_untrained_models_are_not_related() -> None:
    """Units of random models can be exchanged: half of their relatives are in the other."""
    from bench.tiny_models import new_model

    for family in FAMILIES:
        models = [taken(new_model(family, seed)) for seed in range(4)]
        shares = []
        for one, two in combinations(models, 2):
            found = relation(one, two)
            assert not found.related
            assert found.kinship is not None
            shares.append(found.kinship.units)
        assert abs(np.mean(shares) - 0.5) < 0.1


def test_structure_is_one_for_independent_signs() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.exponential(size=(60, 1)) * rng.exponential(size=(60, 80))
        values = [structure(sizes * rng.choice([-1, 1], sizes.shape)) for _ in range(8)]
        assert abs(np.mean(values) - 1) < 0.15
    low = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 80))
    assert structure(low) > 10


@pytest.mark.parametrize("bits", [3, 4, 8])
def test_levels_are_counted(bits: int, bases: dict[str, Checkpoint]) -> None:
    for group in (0, 32):
        with Model.open(quantised(bases["llama"], bits, group)) as model:
            assert grid_of(model).bits == bits
    with Model.open(bases["llama"]) as model:
        assert grid_of(model).bits is None
        assert grid_of(model).type == "F32"
    with Model.open(rounded(bases["llama"])) as model:
        assert (grid_of(model).type, grid_of(model).bits) == ("BF16", None)


# --- several, and the command -----------------------------------------------------------------


def save(checkpoint: Checkpoint, folder: Path) -> Path:
    arrays, config = checkpoint
    folder.mkdir()
    whole = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_several_models_have_a_tree(
    tmp_path: Path, pool: dict[str, list[Any]], bases: dict[str, Checkpoint]
) -> None:
    base = bases["llama"]
    models = {
        "base": base,
        "moved": moved(base),
        "noisy": noised(base, 0.02),
        "stranger": taken(pool["llama"][1]),
    }
    for name, checkpoint in models.items():
        save(checkpoint, tmp_path / name)
    done = run("model", "lineage", *models, "--plot", "tree.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "origin 1: base, moved, noisy" in done.stdout
    assert (tmp_path / "tree.png").stat().st_size > 10_000
    found = segre.checkpoints.lineage(*(tmp_path / name for name in models))
    assert found.groups == (("base", "moved", "noisy"), ("stranger",))
    distances = found.distances
    assert (distances == distances.T).all()
    assert 0 < distances[0, 1] < 1e-6 < distances[0, 2] < distances[0, 3]
    assert {"moved", "noisy"} & {far for _, far, _ in found.branches}
    assert len(found.branches) == 2
    assert "── noisy  0.0" in done.stdout
    assert found.tree[-1, 2] > 1
    assert len(found.to_pandas()) == 6
    assert json.loads(json.dumps(found.document()))["groups"][0] == ["base", "moved", "noisy"]


def test_a_tree_without_height_is_drawn(tmp_path: Path, bases: dict[str, Checkpoint]) -> None:
    base = bases["llama"]
    plot(segre.checkpoints.lineage(base, base, moved(base)), tmp_path / "flat.png")
    assert (tmp_path / "flat.png").stat().st_size > 10_000


def test_bad_input_is_one_line(tmp_path: Path, bases: dict[str, Checkpoint]) -> None:
    arrays, config = bases["llama"]
    save((arrays, config), tmp_path / "base")
    save(bases["gpt2"], tmp_path / "other")
    worse = {**arrays, "model.norm.weight": arrays["model.norm.weight"] * np.nan}
    save((worse, config), tmp_path / "nan")
    less = {name: x for name, x in arrays.items() if name != "model.norm.weight"}
    save((less, config), tmp_path / "missing")
    other = {**config, "rms_norm_eps": 0.5}
    save((arrays, other), tmp_path / "design")
    said = {
        "other": r"\(llama\) and '.*other' \(gpt2\) have different architectures",
        "nan": "tensor 'model.norm.weight' is nan",
        "missing": "tensor 'model.norm.weight' is missing",
        "design": "have different architectures: eps is",
        "nowhere": "nowhere",
    }
    for name, words in said.items():
        with pytest.raises(SegreError, match=words) as caught:
            segre.checkpoints.lineage(tmp_path / "base", tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(SegreError, match="at least two"):
        segre.checkpoints.lineage(tmp_path / "base")
    done = run("model", "lineage", "base", "nan", cwd=tmp_path)
    assert done.returncode == 2
    assert "tensor 'model.norm.weight' is nan at [0]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
