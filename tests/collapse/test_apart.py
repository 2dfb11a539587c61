"""Past the floor of single precision: what is continued is the model, in every family."""

import json
from typing import Any

import numpy as np
import pytest
from flint import arb

from segre.checkpoint.inputs import random_tokens
from segre.checkpoint.model import Model
from segre.checkpoint.runnable import load
from segre.collapse.apart import can_continue, continued
from segre.collapse.curves import FLOOR, curves
from segre.collapse.residual import relative_residual
from segre.collapse.variants import ALL, Variant
from segre.fields import Real
from segre.fields.ball import Ball
from segre.transformer.forward import Place, Tokens, at_length, embed, run, sublayer_weights
from segre.transformer.stages import sublayer
from support.small_models import WHOLE, at_depths, small, tokens

BARE = [variant for variant in ALL if not variant.skip]
LIMIT = 1e-13  # double precision has its own floor: rounding, three digits above
DEEP = {
    "bert": "bert/d=12/layers=6/heads=2/ff=20/eps=1e-12/vocab=40/t=12",
    "albert": "albert/d=12/layers=6/heads=2/ff=20/eps=1e-12/embed=5/vocab=40/t=12",
    "gpt2": "gpt2/d=12/layers=30/heads=2/ff=20/eps=1e-5/vocab=40/t=12",
    "llama": "llama/d=12/layers=30/heads=4/kv=2/head=4/ff=20/eps=1e-5/vocab=40/t=12",
    "qwen3": "qwen3/d=12/layers=30/heads=4/kv=2/head=6/ff=20/eps=1e-6/vocab=40/t=12",
    "mistral": "mistral/d=12/layers=30/heads=2/kv=1/head=4/ff=20/eps=1e-5/window=4/vocab=40/t=12",
    "gemma2": "gemma2/d=12/layers=30/heads=2/kv=1/head=4/ff=20/eps=1e-6/cap=5/vocab=40/t=12",
    "deepseek-v3": "deepseek-v3/d=12/layers=30/heads=2/head=4/dv=4/rotary=4/qrank=5/kvrank=6/ff=20/"
    "experts=3/active=2/eff=6/shared=4/dense=2/eps=1e-6/vocab=40/t=12",
    "rotary": "transformer/d=12/layers=6/heads=2/norm=rms/mlp=gelu/ff=20/pos=rope/vocab=40/t=12",
    "relu2": "transformer/d=12/layers=5/heads=2/norm=layer/mlp=relu2/ff=20/vocab=40/t=12",
}


def in_doubles(loaded: Model, ids: np.ndarray) -> np.ndarray:
    """Relative residuals, 0 where the tokens are too small for floats."""
    found = np.zeros((len(BARE), loaded.spec.layers + 1))

    def see(depth: int, place: Place, x: np.ndarray) -> None:
        if np.abs(x).max() > 1e-280:
            found[place.edit, depth] = relative_residual(x[0, 0, 0].T)

    edits = [variant.edit for variant in BARE]
    run(loaded, [Tokens(ids)], Real(), edits, at_depths(see))
    return found


def compared(loaded: Model, ids: np.ndarray) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        logs = continued(loaded, BARE, ids)
        doubles = in_doubles(loaded, ids)
    for log, right in zip(logs, doubles, strict=True):
        end = next((i for i, x in enumerate(right) if not x > LIMIT), len(right))
        error = np.abs(10.0 ** log[:end] / right[:end] - 1)
        assert (error <= 1e-9 + 1e-13 / right[:end]).all()
    return logs


@pytest.mark.parametrize("family", WHOLE)
@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_model_as_far_as_double_precision_goes(family: str, seed: int) -> None:
    compared(small(family), tokens(1, seed=seed))


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("seed", range(2))
def test_random_weights_of_every_design_descend(name: str, seed: int) -> None:
    loaded = load(DEEP[name], seed)
    logs = compared(loaded, random_tokens(loaded, 1, 12, seed).batches[0])
    assert min(np.nanmin(log) for log in logs) < -6


class Exact(Ball):
    """Balls of many bits, from the numbers of a model as they are."""

    def weights(self, w: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: self.floats(x) for name, x in w.items()}

    def floats(self, x: np.ndarray) -> np.ndarray:
        return np.vectorize(arb, otypes=[object])(x)


@pytest.mark.parametrize(
    "spec",
    [
        "llama/d=4/layers=14/heads=2/kv=1/head=2/ff=5/eps=1e-5/vocab=9/t=4",
        "gpt2/d=4/layers=12/heads=2/ff=5/eps=1e-5/vocab=9/t=3",
        "bert/d=4/layers=5/heads=2/ff=5/eps=1e-12/vocab=9/t=4",
        "qwen3/d=4/layers=10/heads=2/kv=1/head=2/ff=5/eps=1e-6/vocab=9/t=3",
        "gemma2/d=4/layers=10/heads=2/kv=1/head=2/ff=5/eps=1e-6/cap=5/vocab=9/t=3",
        "transformer/d=4/layers=4/heads=2/norm=rms/mlp=swiglu/ff=5/pos=rope/vocab=9/t=3",
    ],
)
def test_it_is_the_model_in_balls_of_thousands_of_bits(spec: str) -> None:
    """The same stages by their plain definition, in exact arithmetic with error bounds."""
    loaded, field = load(spec, 3), Exact(6000)
    ids = random_tokens(loaded, 1, loaded.spec.t, 1).batches[0]
    with np.errstate(all="ignore"):
        logs = continued(loaded, BARE, ids)
    length = at_length(loaded.spec, loaded.spec.t)
    start = embed(loaded, Tokens(ids), Real())
    for variant, log in zip(BARE, logs, strict=True):
        with field.precision():
            x = field.floats(start)
            for layer in range(1, loaded.spec.layers + 1):
                for number in (1, 2):
                    edited = variant.edit(length, number)
                    if edited is not None:
                        w = field.weights(sublayer_weights(loaded, layer, number))
                        x = sublayer(field, w, x, spec=edited, layer=layer, number=number)
            X = x[0, 0, 0]
            rest = X - X.sum(axis=1, keepdims=True) / arb(X.shape[1])
            sizes = [
                max(float(sum(map(abs, row)).log()) for row in m) / 2
                + max(float(sum(map(abs, column)).log()) for column in m.T) / 2
                for m in (rest, X)
            ]
        if np.isnan(log[-1]):
            assert sizes[1] / np.log(10) < -280  # the tokens are too small for floats
        else:
            assert log[-1] == pytest.approx((sizes[0] - sizes[1]) / np.log(10), abs=1e-6)


@pytest.mark.parametrize("name", ["bert", "albert"])
@pytest.mark.parametrize("seed", range(3))
def test_the_rate_is_cubic_without_norms_and_skips(name: str, seed: int) -> None:
    loaded = load(DEEP[name], seed)
    found = curves(loaded, random_tokens(loaded, 1, 9, seed), BARE, past_floor=True)
    past = found[Variant(skip=False, mlp=False, norm=False)].past
    steps = np.diff(past)
    assert steps[-1] / steps[-2] == pytest.approx(3, abs=0.1)
    assert past[-1] < -300


@pytest.mark.parametrize("name", [name for name in DEEP if name not in ("gemma2", "deepseek-v3")])
def test_above_the_floor_single_precision_is_right_and_below_it_is_not_shown(name: str) -> None:
    """The floor is one: above it curves are the model's, to within the floor.

    Thirty layers of those that are left out do not make tokens alike before they have made errors
    of rounding larger.
    """
    loaded = load(DEEP[name], 5)
    inputs = random_tokens(loaded, 1, 12, 5)
    found = curves(loaded, inputs, BARE, past_floor=True)
    with np.errstate(all="ignore"):
        logs = continued(loaded, BARE, inputs.batches[0])
    for curve, log in zip(found.curves, logs, strict=True):
        right = 10.0 ** np.maximum(log, -300)
        end = min(x for x in (curve.floored, curve.lost, len(right)) if x is not None)
        assert np.abs(curve.mean()[:end] - right[:end]).max() <= FLOOR
        if curve.floored is not None:
            assert right[curve.floored] < 2 * FLOOR
            assert np.array_equal(
                curve.log10[curve.floored :], curve.past[curve.floored :], equal_nan=True
            )


def test_what_has_skips_is_not_continued_and_ends_at_the_floor() -> None:
    for family in WHOLE:
        assert [v for v in ALL if can_continue(small(family), v)] == BARE
    assert not can_continue(small("llama"), Variant(skip=False, mlp_skip=True))
    bare = load("transformer/d=4/heads=2/residual=false/vocab=9/t=4")
    assert can_continue(bare, Variant())
    loaded = load(DEEP["bert"], 1)
    found = curves(loaded, random_tokens(loaded, 2, 9), BARE[:1]).curves[0]
    assert found.floored is not None
    assert found.past is None
    assert np.isnan(found.log10[found.floored :]).all()
    assert np.isfinite(found.log10[: found.floored]).all()
    document = json.loads(json.dumps(found.document()))
    assert document["floored"] == found.floored
    assert set(document["log10"][found.floored :]) == {None}
