"""The second paper's experiments: their data, their networks, training that can be killed."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from segre.collapse.paths import path_sums
from segre.collapse.variants import FULL
from segre.errors import SegreError
from segre.fields import Real
from segre.reproduce import path_lengths
from segre.reproduce.circle import RADIUS, arcs, merged, walk
from segre.reproduce.experiment import perform
from segre.reproduce.networks import (
    PathNetwork,
    embedded,
    plain_norm,
    readout,
    token_loss,
    train,
)
from segre.reproduce.path_effectiveness import trained
from segre.reproduce.path_reading import Isolated, ceiling
from segre.reproduce.path_tasks import (
    HULL,
    MEMORIZE,
    PLANS,
    SORT,
    Examples,
    Settings,
    Shape,
    convex_hull,
    memorising,
    sentences,
    sorting,
    vocabulary,
)
from segre.reproduce.rank_collapse import WithoutMatrices, config
from segre.reproduce.registry import experiment
from segre.reproduce.state import Kept

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


@pytest.mark.parametrize("norms", [True, False])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("mlp", [True, False])
def test_the_module_is_what_is_recorded(mlp: bool, skip: bool, norms: bool) -> None:
    shape = Shape(3, 4, 12, 5, 7, 6, mlp=mlp, skip=skip, norms=norms, dropout=0.5)
    model = PathNetwork(shape, seed=1).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
    tokens = np.random.default_rng(0).integers(7, size=(3, 6))
    done = model.recorded(embedded(model, tokens))
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
        HULL.changed(d=10)


# --- training ----------------------------------------------------------------------------------


class Memory(Kept):
    """What was kept last."""

    def keep(self, state: Any) -> None:
        self.state = dict(state)


def tiny_run(epochs: int, kept: Kept | None = None, dropout: float = 0.2) -> PathNetwork:
    train_set, _ = sorting(train=90, seed=0)
    model = PathNetwork(Shape(2, 2, 12, 10, 10, 8, norms=True, dropout=dropout), seed=0)
    settings = Settings(epochs, 1e-3, seed=0)
    train(model, train_set.inputs, train_set.labels, settings, loss=token_loss, kept=kept)
    return model


def same_weights(one: PathNetwork, other: PathNetwork) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_training_that_is_gone_on_with_ends_in_the_same_bits() -> None:
    kept = Memory()
    tiny_run(3, kept)
    resumed, undisturbed = tiny_run(7, kept), tiny_run(7)
    assert same_weights(resumed, undisturbed)
    assert not same_weights(resumed, tiny_run(6))
    assert not same_weights(tiny_run(2), tiny_run(2, dropout=0.0))
    assert not resumed.training


def test_threads_and_random_numbers_are_as_before() -> None:
    before = torch.get_num_threads(), torch.random.get_rng_state()
    tiny_run(1)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


@pytest.mark.parametrize("plan", PLANS.values(), ids=lambda plan: plan.name)
@pytest.mark.parametrize("network", ["published", "clean"])
def test_paths_add_up_to_the_network(plan: Any, network: str) -> None:
    run: Any = type("Quiet", (), {"progress": staticmethod(lambda *_: None)})
    found = trained(plan.changed(**TINY), network, (2, 3), run, 0, Kept())
    assert found["up_to"][-1] == pytest.approx(found["accuracy"])
    assert found["isolated"].shape == (2, 3)
    if network == "clean":  # the path of length 0 is the embedding itself
        assert found["isolated"][0, 0] == pytest.approx(found["exact"][0])


def test_isolated_paths_with_norms_are_those_of_the_published_code() -> None:
    """One head after the other, each followed by a norm without gain; written out by hand."""
    model = PathNetwork(Shape(2, 3, 8, 5, 7, 6, norms=True), seed=3)
    X = embedded(model, np.random.default_rng(0).integers(7, size=(2, 6)))
    tokens = X
    for layer, h in ((0, 1), (2, 0)):
        heads = model.stack().layers[layer][0]
        assert heads.b_V is not None
        assert heads.b_O is not None
        values = tokens @ heads.W_V[h] + heads.b_V[h]
        tokens = heads.patterns(tokens)[..., h, :, :] @ values @ heads.W_O[h] + heads.b_O
        tokens = tokens - tokens.mean(axis=-1, keepdims=True)
        tokens = tokens / tokens.std(axis=-1, keepdims=True)
    np.testing.assert_allclose(Isolated(model, X).output((2, 0, 1)), tokens, atol=1e-9)
    np.testing.assert_allclose(
        Isolated(model, X).sum([(2, 0, 1), (0, 0, 0)]), plain_norm(tokens + X), atol=1e-9
    )


def test_the_published_sizes_are_the_defaults() -> None:
    assert [(p.heads, p.layers, p.d) for p in (SORT.shape, HULL.shape, MEMORIZE.shape)] == [
        (2, 6, 48),
        (3, 6, 84),
        (2, 6, 250),
    ]
    assert [(p.train, p.test) for p in (SORT, HULL)] == [(1000, 200), (10000, 300)]


# --- the others --------------------------------------------------------------------------------


def test_path_lengths_are_the_published_ones() -> None:
    for row in path_lengths.MODELS:
        assert round(row.shares[-1], 4) == row.published[0]
        assert round(row.shares[-2], 4) == row.published[1]
        assert row.apart <= 0.5001e-4
        assert sum(row.shares) == pytest.approx(1)


def test_the_circle_starts_and_moves_on_it() -> None:
    at, to = arcs(20)
    assert np.linalg.norm(at, axis=-1) == pytest.approx(RADIUS)
    assert (at[1:] == to[:-1]).all()
    assert at[:, 0] == pytest.approx(-at[:, 1])
    found = walk("attention + skip", 0, points=20, steps=5, d=8, epochs=1)
    assert found["tokens"].shape == (6, 2, 2)


def test_tokens_are_merged_if_they_stay_so() -> None:
    tokens = np.zeros((4, 2, 2))
    tokens[:, 0, 0] = [1, 0.01, 1, 0.01]
    assert merged(tokens) == 3
    tokens[-1, 0, 0] = 1
    assert merged(tokens) == float("inf")


def test_small_models_collapse_without_skips() -> None:
    sizes = {"count": 2, "length": 16, "layers": 4, "width": 32}
    found = perform(experiment("rank-collapse"), seeds=1, options=sizes)
    status = {claim.says: claim.status for claim in found.claims}
    assert status["BERT: attention alone collapses"] == "reproduced"
    assert status["ALBERT: attention alone collapses"] == "reproduced"
    assert found.found.tables[0].columns[2:] == ("0", "1", "2", "3", "4")


def test_the_published_surgery_leaves_the_activation() -> None:
    """y = N(x + gelu(x)) in the place of the MLP of ALBERT, by hand."""
    from segre.checkpoint.runnable import load
    from segre.transformer.forward import Tokens, run
    from support.small_models import at_depths

    loaded = load(config("albert", 1, 24), 0)
    words = np.random.default_rng(0).integers(100, size=(1, 5))
    seen: dict[tuple[str, int], Any] = {}

    def streams(name: str, weights: Any, edit: Any) -> None:
        def see(depth: int, _place: Any, x: Any) -> None:
            seen[name, depth] = x[0, 0, 0].T

        run(weights, [Tokens(words)], Real(), [edit], at_depths(see))

    streams("cut", WithoutMatrices(loaded), FULL.edit)
    streams("attention", loaded, lambda spec, number: spec if number == 1 else None)
    x = torch.from_numpy(np.ascontiguousarray(seen["attention", 1]))
    y = x + torch.nn.functional.gelu(x, approximate="tanh")
    expected = torch.nn.functional.layer_norm(y, [24], eps=1e-12).numpy()
    np.testing.assert_allclose(seen["cut", 1], expected, atol=1e-9)
