"""Past the floor of single precision: what is continued is the model, and what is not is marked."""

import json
from typing import Any

import numpy as np
import pytest

from collapse.small_models import CONFIGS, FAMILIES, small
from segre.collapse.continued import can_continue, continued
from segre.collapse.curves import FLOOR, curves
from segre.collapse.double import in_double
from segre.collapse.inputs import random_tokens
from segre.collapse.models import Loaded, load
from segre.collapse.residual import relative_residual
from segre.collapse.surgery import ALL, Variant, operated, run

CONTINUED = ("bert", "albert", "gpt2")
BARE = [variant for variant in ALL if not variant.skip]
LIMIT = 1e-13  # double precision has its own floor: rounding, three digits above


def deep(family: str, seed: int, **more: Any) -> Loaded:
    key = "n_layer" if family == "gpt2" else "num_hidden_layers"
    return load({**CONFIGS[family], key: 6, **more}, seed)


def in_doubles(loaded: Loaded, variant: Variant, ids: Any) -> list[np.ndarray]:
    streams: list[np.ndarray] = []
    with in_double(loaded), operated(loaded, variant):
        run(loaded, ids, lambda _, X: streams.append(X[0].numpy().copy()))
    return streams


@pytest.mark.parametrize("family", CONTINUED)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", BARE, ids=str)
def test_it_is_the_model_as_far_as_double_precision_goes(
    family: str, seed: int, variant: Variant
) -> None:
    loaded = small(family) if seed == 0 else deep(family, seed)
    ids = random_tokens(loaded, 1, 9, seed).batches[0]
    streams = in_doubles(loaded, variant, ids)
    logs = continued(loaded, variant, streams[0])
    right = np.array([relative_residual(X) for X in streams])
    end = next((i for i, value in enumerate(right) if value < LIMIT), len(right))
    assert end > 1
    assert 10.0 ** logs[:end] == pytest.approx(right[:end], rel=1e-2 if end < len(right) else 1e-9)
    assert 10.0 ** logs[: end - 1] == pytest.approx(right[: end - 1], rel=1e-4)
    assert (logs[end:] < np.log10(LIMIT) + 1).all()


@pytest.mark.parametrize("act", ["relu", "silu", "gelu_new"])
def test_whatever_the_activation(act: str) -> None:
    loaded, variant = deep("bert", 3, hidden_act=act), Variant(skip=False, norm=False)
    streams = in_doubles(loaded, variant, random_tokens(loaded, 1, 9).batches[0])
    assert 10.0 ** continued(loaded, variant, streams[0])[:2] == pytest.approx(
        [float(relative_residual(X)) for X in streams[:2]], rel=1e-9
    )


@pytest.mark.parametrize("family", ["bert", "albert"])
@pytest.mark.parametrize("seed", range(3))
def test_the_rate_is_cubic_without_norms_and_skips(family: str, seed: int) -> None:
    loaded = deep(family, seed)
    found = curves(loaded, random_tokens(loaded, 1, 9, seed), BARE, past_floor=True)
    past = found[Variant(skip=False, mlp=False, norm=False)].past
    steps = np.diff(past)
    assert steps[-1] / steps[-2] == pytest.approx(3, abs=0.1)
    assert past[-1] < -300


@pytest.mark.parametrize("family", CONTINUED)
@pytest.mark.parametrize("seed", range(3))
def test_above_the_floor_single_precision_is_right_and_below_it_is_not_shown(
    family: str, seed: int
) -> None:
    """The floor is one: above it curves are the model's, to within the floor."""
    loaded = deep(family, seed)
    found = curves(loaded, random_tokens(loaded, 1, 9, seed), BARE, past_floor=True)
    for curve in found.curves:
        right = 10.0 ** np.maximum(continued_of(loaded, curve.variant, seed), -300)
        end = curve.floored if curve.floored is not None else (curve.lost or len(right))
        assert np.abs(curve.mean()[:end] - right[:end]).max() <= FLOOR
        if curve.floored is not None:
            assert right[curve.floored] < 2 * FLOOR
            assert np.array_equal(curve.log10[curve.floored :], curve.past[curve.floored :])


def continued_of(loaded: Loaded, variant: Variant, seed: int) -> np.ndarray:
    ids = random_tokens(loaded, 1, 9, seed).batches[0]
    return continued(loaded, variant, in_doubles(loaded, variant, ids)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_what_cannot_be_continued_ends_at_the_floor(family: str) -> None:
    loaded = small(family)
    assert [v for v in ALL if can_continue(loaded, v)] == (BARE if family in CONTINUED else [])
    xlnet = load({**CONFIGS["xlnet"], "n_layer": 12})
    found = curves(xlnet, random_tokens(xlnet, 2, 9), BARE[:1], past_floor=True).curves[0]
    assert found.floored is not None
    assert found.past is None
    assert np.isnan(found.log10[found.floored :]).all()
    assert np.isfinite(found.log10[: found.floored]).all()
    document = json.loads(json.dumps(found.document()))
    assert document["floored"] == found.floored
    assert set(document["log10"][found.floored :]) == {None}
