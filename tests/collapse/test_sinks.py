"""One token that is much larger than the others is found, named, and left out."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from segre.checkpoint.inputs import random_tokens
from segre.collapse.curves import curves
from segre.collapse.residual import relative_residual
from segre.collapse.streams import DOMINANT, of_streams
from segre.collapse.variants import FULL
from segre.collapse.verdict import advice
from support.small_models import Read, small


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_token_is_left_out_where_it_dominates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((6, int(rng.integers(3, 12)), 7)) + rng.standard_normal(7)
    places = rng.integers(X.shape[1], size=6)
    grown = np.exp(rng.uniform(-1, 6, 6))
    X[np.arange(6), places] *= grown[:, None]
    found = of_streams(X.astype(np.float32))
    for i, stream in enumerate(X):
        sizes = np.linalg.norm(stream, axis=1)
        place = int(sizes.argmax())
        middle = np.sort(sizes)[(len(sizes) - 1) // 2]
        factor = sizes[place] / middle
        assert int(found["position"][i]) == place
        assert float(found["factor"][i]) == pytest.approx(factor, rel=1e-5)
        kept = np.delete(stream, place, axis=0) if factor >= DOMINANT else stream
        right = float(relative_residual(kept))
        assert float(found["without"][i]) == pytest.approx(right, rel=1e-4, abs=1e-6)


def test_a_model_with_a_sink_has_both_curves() -> None:
    """The first position is made large, by the table of positions: it stays so with skips."""
    loaded = small("gpt2")
    inputs = random_tokens(loaded, 4, 9)
    assert curves(loaded, inputs, [FULL]).curves[0].sink is None

    class Sunk(Read):
        def columns(self, name: str, which: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
            out = super().columns(name, which, dtype).copy()
            if name == "positions":
                out[:, 0] *= 200
            return out

    weights = loaded.tensors
    assert isinstance(weights, Read)
    sunk = replace(loaded, tensors=Sunk(weights.spec, weights.vector))
    found = curves(sunk, inputs, [FULL])
    (curve,) = found.curves
    assert (curve.sink.position, curve.sink.inputs, curve.sink.of) == (0, 4, 4)
    assert curve.sink.factor == pytest.approx(curve.mean("factor").max())
    assert curve.mean("without")[0] < curve.mean()[0]
    sentence = advice(found)[2]
    assert sentence.startswith("In the model, token 0 has ")
    assert sentence.endswith(f"{curve.mean('without')[curve.sink.layer]:.3g} without it.")
    document = json.loads(json.dumps(curve.document()))
    assert document["sink"]["position"] == 0
    assert len(document["without"]["mean"]) == loaded.spec.layers + 1
