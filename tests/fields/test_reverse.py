"""Reverse mode gives the derivatives that dual numbers give, through every kind of layer."""

import numpy as np
import pytest

from segre.fields import Dual, DualArray, Real
from segre.fields.reverse import Reverse, Traced
from segre.models import architecture
from segre.transformer.drawn import Drawn
from segre.transformer.forward import ATTENTION, MLP, sublayer_weights
from segre.transformer.stages import head, sublayer

SPECS = (
    "gpt2/d=6/layers=1/heads=2/ff=5/vocab=7/t=4",
    "llama/d=8/layers=1/heads=4/kv=2/head=2/ff=5/vocab=7/t=4",
    "bert/d=6/layers=1/heads=2/ff=5/vocab=7/t=4",
    "gemma2/d=8/layers=1/heads=2/head=4/ff=5/vocab=7/t=4",
    "qwen3/d=8/layers=1/heads=2/kv=1/head=4/ff=5/vocab=7/t=4",
    "mixtral/d=8/layers=1/heads=2/head=4/experts=3/active=2/ff=5/eff=5/vocab=7/t=4",
    "gpt-neox/d=8/layers=1/heads=2/ff=5/vocab=7/t=4",
    "gpt-oss/d=8/layers=1/heads=2/head=4/experts=3/active=2/eff=5/vocab=7/t=4",
    "transformer/d=6/heads=2/ff=5/mlp=gelu/gate=element/norm=rms/place=pre/vocab=7/t=4",
    "transformer/d=6/heads=2/ff=5/mlp=relu/attn=lightning/vocab=7/t=4",
)


@pytest.mark.parametrize("text", SPECS)
@pytest.mark.parametrize("number", [ATTENTION, MLP])
def test_gradients_are_those_of_dual_numbers(text: str, number: int) -> None:
    spec = architecture(text)
    rng = np.random.default_rng(0)
    drawn = sublayer_weights(Drawn(spec), 1, number)
    w = {n: 20 * x if n.startswith("W_") else x for n, x in drawn.items()}
    x, way = rng.standard_normal((2, 1, 1, 1, spec.d, spec.t))
    dual = Dual(Real())
    along = sublayer(
        dual,
        {n: DualArray(value) for n, value in w.items()},
        DualArray(x, way[..., None]),
        spec=spec,
        layer=1,
        number=number,
    )
    back = Reverse()
    variable = back.variable(x)
    traced = {n: Traced(value) for n, value in w.items()}
    out = sublayer(back, traced, variable, spec=spec, layer=1, number=number)
    seed = rng.standard_normal(out.value.shape)
    back.backward(out, seed)
    assert np.allclose(out.value, along.value)
    assert along.tangent is not None
    assert variable.gradient is not None
    expected = float((seed * along.tangent[..., 0]).sum())
    assert float((variable.gradient * way).sum()) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_through_a_head_and_the_double_softmax() -> None:
    spec = architecture("bert/d=6/layers=1/heads=2/ff=5/vocab=7/transform=true/output=logits/t=4")
    rng = np.random.default_rng(1)
    drawn = Drawn(spec)
    w = drawn.part("head") | (drawn.part("embed", ["tokens"]) if spec.tied else {})
    x, way = rng.standard_normal((2, 1, 1, 1, spec.d, spec.t))
    dual = Dual(Real())
    along = head(
        dual, {n: DualArray(v) for n, v in w.items()}, DualArray(x, way[..., None]), spec=spec
    )
    back = Reverse()
    variable = back.variable(x)
    out = head(back, {n: Traced(v) for n, v in w.items()}, variable, spec=spec)
    both = (
        dual.double_softmax(along).tangent,
        back.double_softmax(out),
    )
    seed = rng.standard_normal(out.value.shape)
    back.backward(both[1], seed)
    assert both[0] is not None
    assert variable.gradient is not None
    expected = float((seed * both[0][..., 0]).sum())
    assert float((variable.gradient * way).sum()) == pytest.approx(expected, rel=1e-9, abs=1e-15)
