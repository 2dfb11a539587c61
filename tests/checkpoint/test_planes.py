"""Queries and keys that turn in planes: what the gauge of heads does leaves attention alone."""

import numpy as np
import pytest

from segre.checkpoint.alignment import LayerAlignment
from segre.checkpoint.heads import balance, unbalance
from segre.checkpoint.move import Draw
from segre.checkpoint.planes import keys, planes, queries, still
from segre.fields import Real
from segre.transformer.layers import attention
from segre.transformer.spec import Transformer
from segre.transformer.tensors import of_mlp, part_shapes

SPECS = [
    f"transformer/d=12/heads=4/kv=2/head=6/pos=rope/norm=rms/eps=1e-5/vocab=9/t=5/{more}"
    for more in (
        "layout=interleaved",
        "layout=interleaved/rotary=4/bias=attn",
        "rotary=2/bias=all",
        "rotary=4/bias=attn/sinks=true/causal=true",
        "rotary=2/layout=interleaved/bias=qkv/cap=3",
    )
]


def layer(spec: Transformer, rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = part_shapes(spec, "1").items()
    return {name: rng.standard_normal(shape) for name, shape in shapes if not of_mlp(name)}


def written(spec: Transformer, w: dict[str, np.ndarray], X: np.ndarray) -> np.ndarray:
    return np.asarray(attention(Real(), spec, w, X, 1))


@pytest.mark.parametrize("text", SPECS)
def test_balanced_turned_and_moved_heads_write_the_same(text: str) -> None:
    spec, rng = Transformer.parse(text), np.random.default_rng(1)
    for seed in range(5):
        w, X = layer(spec, rng), rng.standard_normal((3, 1, 1, spec.d, spec.t))
        before, draw = written(spec, w, X), Draw(seed)
        gauge = balance(spec, w)
        assert np.allclose(written(spec, w, X), before, rtol=1e-9, atol=1e-9)
        q, k = planes(spec, queries(w)), planes(spec, keys(w))
        sizes = [np.sqrt((np.abs(x) ** 2).sum(axis=(1, 3))) for x in (q, k)]
        assert np.allclose(*sizes)
        if spec.still and "b_K" not in w:
            asked, met = still(spec, queries(w)), still(spec, keys(w))[:, 0]
            gram = (asked @ asked.swapaxes(-1, -2)).sum(axis=1)
            assert np.allclose(met @ met.swapaxes(-1, -2), gram)
        turn: LayerAlignment = draw.layer(spec, w)
        turn.units = turn.signs = None  # attention alone is here
        turn.apply(spec, w)
        unbalance(spec, w, draw.heads(spec, gauge))
        assert np.allclose(written(spec, w, X), before, rtol=1e-8, atol=1e-8)
