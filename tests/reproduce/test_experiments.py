"""The second paper's experiments: their data, their networks, training that can be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from typer.testing import CliRunner

from segre.cli.app import app
from segre.collapse.paths import path_sums
from segre.errors import SegreError
from segre.reproduce import path_lengths
from segre.reproduce.circle import RADIUS, Walk, arcs, walks
from segre.reproduce.path_effectiveness import (
    HULL,
    MEMORIZE,
    PLANS,
    SORT,
    ceiling,
    changed,
    effectiveness,
    verdict,
)
from segre.reproduce.path_tasks import Examples, convex_hull, memorising, sorting
from segre.reproduce.rank_collapse import collapse
from segre.reproduce.rank_collapse import verdict as collapse_verdict
from segre.reproduce.sentences import sentences, vocabulary
from segre.reproduce.training import (
    PathNetwork,
    Settings,
    Shape,
    embedded,
    readout,
    token_loss,
    train,
)

TINY: dict[str, Any] = {"d": 12, "layers": 2, "train": 60, "test": 20, "epochs": 3}


# --- data --------------------------------------------------------------------------------------


def test_labels_of_sorting_are_the_sorted_letters() -> None:
    train_set, test_set = sorting(train=50, test=20, seed=3)
    for letters, labels in zip(train_set.inputs, train_set.labels, strict=True):
        assert sorted(letters.tolist()) == labels.tolist()
    assert test_set.inputs.shape == (20, 8)
    assert set(np.unique(train_set.inputs)) == set(range(10))


def test_labels_of_hulls_are_those_of_scipy() -> None:
    points, _ = convex_hull(train=300, test=1, seed=1)
    for some, labels in zip(points.inputs, points.labels, strict=True):
        corners = np.zeros(len(some), dtype=int)
        corners[ConvexHull(some).vertices] = 1
        assert labels.tolist() == corners.tolist()


def test_sentences_are_words_of_the_vocabulary_and_differ() -> None:
    found = sentences(count=100, length=20, seed=0)
    assert {len(words) for words in found} == {20}
    assert {word for words in found for word in words} <= set(vocabulary())
    assert len({tuple(words) for words in found}) == 100
    examples, same = memorising(count=5, length=9, seed=2)
    assert same is examples
    assert examples.inputs.max() < len(vocabulary())
    assert abs(memorising(500, 32)[0].labels.mean() - 0.5) < 0.02


@pytest.mark.parametrize("draw", [sorting, convex_hull, memorising])
def test_a_seed_gives_the_same_data(draw: Any) -> None:
    one, other, third = draw(5, 4, seed=7)[0], draw(5, 4, seed=7)[0], draw(5, 4, seed=8)[0]
    assert (one.inputs == other.inputs).all()
    assert (one.inputs != third.inputs).any()


def test_the_ceiling_is_that_of_repeated_words() -> None:
    examples = Examples(np.array([[4, 4, 4, 2]]), np.array([[1, 0, 1, 0]]))
    assert ceiling(examples) == 3 / 4
    assert ceiling(Examples(np.array([[1, 2, 3]]), np.array([[1, 0, 1]]))) == 1


# --- the network -------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("mlp", [True, False])
def test_the_module_is_the_stack(mlp: bool, skip: bool) -> None:
    model = PathNetwork(Shape(3, 4, 12, 5, vocabulary=7, positions=6, mlp=mlp, skip=skip), seed=1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
    tokens = np.random.default_rng(0).integers(7, size=(3, 6))
    done = model.stack().forward(embedded(model, tokens))
    with torch.inference_mode():
        expected = model(torch.from_numpy(tokens)).numpy()
    assert expected.dtype == np.float64
    np.testing.assert_allclose(readout(model, done.output), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(path_sums(done).total, done.output, rtol=0, atol=1e-10)


def test_points_are_lifted_to_the_layers() -> None:
    model = PathNetwork(Shape(2, 2, 8, 2), seed=1)
    points = np.random.default_rng(0).normal(size=(4, 5, 2))
    done = model.stack().forward(embedded(model, points))
    with torch.inference_mode():
        expected = model(torch.from_numpy(points).float().double()).numpy()
    np.testing.assert_allclose(readout(model, done.output), expected, rtol=0, atol=1e-10)


def test_heads_divide_the_width() -> None:
    with pytest.raises(SegreError, match="does not divide"):
        PathNetwork(Shape(3, 1, 8, 2))
    with pytest.raises(SegreError, match="does not divide"):
        changed(HULL, d=10)


# --- training ----------------------------------------------------------------------------------


def tiny_run(file: Path | None, epochs: int, **rest: Any) -> PathNetwork:
    train_set, _ = sorting(train=90, seed=0)
    model = PathNetwork(Shape(2, 2, 12, 10, 10, 8), seed=0)
    settings = Settings(epochs, 1e-3, seed=0)
    train(model, train_set.inputs, train_set.labels, settings, loss=token_loss, file=file, **rest)
    return model


def same_weights(one: PathNetwork, other: PathNetwork) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_a_run_that_is_gone_on_with_ends_in_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    tiny_run(file, 3)
    resumed, undisturbed = tiny_run(file, 7), tiny_run(None, 7)
    assert same_weights(resumed, undisturbed)
    assert not same_weights(resumed, tiny_run(None, 6))
    assert list(tmp_path.iterdir()) == [file]


def test_fresh_starts_over(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    tiny_run(file, 4)
    assert same_weights(tiny_run(file, 2, fresh=True), tiny_run(None, 2))


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    tiny_run(None, 1)
    assert torch.get_num_threads() == before


def test_files_of_other_runs_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    tiny_run(file, 2)
    kept = file.read_bytes()
    with pytest.raises(SegreError, match=r"data = .*--fresh"):
        tiny_run(file, 3, data="something else")
    with pytest.raises(SegreError, match="has 2 epochs, not 1"):
        tiny_run(file, 1)
    assert file.read_bytes() == kept
    for wrong in (b"", b"text", kept[: len(kept) // 2]):
        file.write_bytes(wrong)
        with pytest.raises(SegreError, match="cannot be read"):
            tiny_run(file, 3)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_experiments import tiny_run
tiny_run(Path(sys.argv[1]), 100_000)
"""


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.run"
    here = str(Path(__file__).parent)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file), here])
    try:
        limit = time.monotonic() + 600  # a guard against hanging
        while not file.exists() and time.monotonic() < limit:
            time.sleep(0.02)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    done = len(torch.load(file, weights_only=True)["losses"])
    assert done >= 1
    assert same_weights(tiny_run(file, done + 2), tiny_run(None, done + 2))


def test_training_beats_chance(tmp_path: Path) -> None:
    plan = changed(SORT, d=24, layers=2, train=300, test=50, epochs=30, lr=3e-3)
    found = effectiveness(plan, file=tmp_path / "a.run")
    assert found.accuracy > found.majority + 0.2
    assert found.losses[-1] < found.losses[0]
    assert found.rows[-1].up_to == pytest.approx(found.accuracy)
    assert sum(row.paths for row in found.rows) == 3**2
    again = effectiveness(plan, file=tmp_path / "a.run")
    assert again.resumed == 30
    assert again.rows == found.rows


@pytest.mark.slow
def test_sorting_is_learned_and_short_paths_carry_it() -> None:
    """The experiment as users run it: 15 seconds of training."""
    found = effectiveness(SORT)
    assert found.accuracy >= 0.95
    assert found.rows[3].up_to >= 0.9
    assert found.rows[1].exact > 0.6 > 0.3 > max(row.exact for row in found.rows[4:])


@pytest.mark.parametrize("plan", PLANS.values(), ids=lambda plan: plan.name)
@pytest.mark.parametrize("mlp", [False, True])
def test_paths_add_up_to_the_network(plan: Any, mlp: bool) -> None:
    found = effectiveness(changed(plan, **TINY, mlp=mlp), repeats=2, drawn=2)
    assert found.rows[-1].up_to == pytest.approx(found.accuracy)
    assert [row.length for row in found.rows] == [0, 1, 2]
    if not mlp:  # a path that skips all layers still goes through their MLPs
        assert found.rows[0].isolated == pytest.approx(found.rows[0].exact)
    yes, no = verdict(found)
    assert yes + no
    json.dumps(found.document())


def test_the_published_sizes_are_the_defaults() -> None:
    assert [(p.heads, p.layers, p.d) for p in (SORT, HULL, MEMORIZE)] == [
        (2, 6, 48),
        (3, 6, 84),
        (2, 6, 250),
    ]
    assert [(p.train, p.test) for p in (SORT, HULL)] == [(1000, 200), (10000, 300)]


# --- the others --------------------------------------------------------------------------------


def test_path_lengths_are_the_published_ones() -> None:
    for row in path_lengths.rows():
        assert round(row.shares[-1], 4) == row.published[0]
        assert round(row.shares[-2], 4) == row.published[1]
        assert row.agrees
        assert sum(row.shares) == pytest.approx(1)


def test_the_circle_starts_and_moves_on_it() -> None:
    at, to = arcs(20)
    assert np.linalg.norm(at, axis=-1) == pytest.approx(RADIUS)
    assert (at[1:] == to[:-1]).all()
    assert at[:, 0] == pytest.approx(-at[:, 1])
    found = walks(points=20, steps=5, d=8, epochs=1)
    assert len(found) == 4
    assert {walk.tokens.shape for walk in found} == {(6, 2, 2)}


def test_tokens_are_merged_if_they_stay_so() -> None:
    tokens = np.zeros((4, 2, 2))
    tokens[:, 0, 0] = [1, 0.01, 1, 0.01]
    assert Walk("", 0, tokens).merged == 3
    tokens[-1, 0, 0] = 1
    assert Walk("", 0, tokens).merged is None


def test_small_models_collapse_without_skips() -> None:
    found = collapse(["bert", "albert"], count=2, length=16, layers=4, width=32)
    yes, _ = collapse_verdict(found)
    assert any("Attention alone collapses" in sentence for sentence in yes)
    assert [one.layers() for one in found] == [[0, 1, 2, 3, 4]] * 2


# --- commands ----------------------------------------------------------------------------------


def command(*arguments: str) -> dict[str, Any]:
    run = CliRunner().invoke(app, ["reproduce", *arguments, "--json"], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    plot = Path(arguments[arguments.index("-o") + 1])
    assert found["plot"] == plot.name
    assert plot.stat().st_size > 1000
    return dict(found)


def test_commands_print_json_and_plot(tmp_path: Path) -> None:
    small = ("--width", "12", "--layers", "2", "--train", "40", "--epochs", "1")
    for name in PLANS:
        file = tmp_path / f"{name}.svg"
        found = command(name, "-o", str(file), *small)
        assert found["run"] == file.with_suffix(".run").name
        assert [row["length"] for row in found["rows"]] == [0, 1, 2]
        assert {"exact", "up_to", "isolated", "published"} <= set(found["rows"][0])
        assert found["reproduces"] + found["does_not_reproduce"]
        said = CliRunner().invoke(app, ["reproduce", name, "-o", str(file), *small])
        assert "published" in said.stdout
        assert "Does not reproduce: " in said.stdout
    lengths = command("path-lengths", "-o", str(tmp_path / "lengths.png"))
    assert all(row["agrees"] for row in lengths["rows"])


def test_commands_that_run_models(tmp_path: Path) -> None:
    circle = command("circle", "-o", str(tmp_path / "c.pdf"), "--epochs", "1", "--steps", "3")
    assert [len(walk["tokens"]) for walk in circle["walks"]] == [4] * 4
    assert (tmp_path / "c.1.run").exists()
    sizes = ("--layers", "2", "--width", "16", "--count", "1", "--length", "8", "--model", "bert")
    found = command("rank-collapse", "-o", str(tmp_path / "r.svg"), *sizes)
    assert set(found["models"][0]["variants"]) == {
        "attention",
        "attention+mlp",
        "attention+skip",
        "full",
    }
