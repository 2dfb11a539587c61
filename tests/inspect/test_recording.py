"""Recorded values have the names and shapes that are promised, and are those of the library."""

import numpy as np
import pytest

import segre
from segre.errors import SpecError, TooLargeError
from segre.inspect.recorded import recorded
from segre.inspect.recording import record
from segre.transformer.points import points
from support.small_models import CAUSAL, FAMILIES, small, states, tokens

IDS = tokens(count=1, length=7)[0]
SPEC = "gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_point_has_its_name_and_shape(family: str) -> None:
    model = small(family)
    found = record(model, "*", ids=IDS)
    assert {name: x.shape for name, x in found.items()} == points(model.spec, len(IDS))
    assert list(found) == sorted(found, key=list(points(model.spec, len(IDS))).index)
    assert found.nbytes == sum(8 * x.size for x in found.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_streams_are_those_of_the_library(family: str) -> None:
    model = small(family)
    found = record(model, ["*.hook_resid_p*", "*.hook_normalized"], ids=IDS)
    *theirs, last = states(family, IDS[None])
    for layer, right in enumerate(theirs):
        np.testing.assert_allclose(found[f"blocks.{layer}.hook_resid_pre"], right[0], atol=1e-9)
    name = "ln_final.hook_normalized"
    end = found[name] if name in found else found[f"blocks.{len(theirs) - 1}.hook_resid_post"]
    np.testing.assert_allclose(end, last[0], atol=1e-9)
    np.testing.assert_allclose(end, found.outputs, atol=1e-9)


@pytest.mark.parametrize("family", ["gpt2", "llama", "albert", "gemma2", "gpt_neox", "deepseek_v3"])
def test_values_fit_together(family: str) -> None:
    model = small(family)
    found, seen = record(model, "*", ids=IDS), recorded(model, IDS)
    for block, layer in enumerate(seen.layers):
        own = {n.removeprefix(f"blocks.{block}."): x for n, x in found.items()}
        np.testing.assert_array_equal(own["attn.hook_pattern"], layer.patterns)
        v, heads = own["attn.hook_v"], model.spec.heads
        v = np.repeat(v, heads // v.shape[1], axis=1)
        mixed = np.einsum("hqk,khv->qhv", own["attn.hook_pattern"], v)
        np.testing.assert_allclose(own["attn.hook_z"], mixed, atol=1e-12)
        np.testing.assert_array_equal(own["hook_resid_pre"], seen.streams[block])
        if family in CAUSAL:  # no norm after the sum
            after = own["hook_resid_pre"] + own["hook_attn_out"]
            np.testing.assert_allclose(own["hook_resid_mid"], after, atol=1e-12)
            after = own["hook_resid_mid"] + own["hook_mlp_out"]
            np.testing.assert_allclose(own["hook_resid_post"], after, atol=1e-12)


def test_what_is_ablated_writes_nothing() -> None:
    found = record(SPEC, ["*.hook_z", "*.hook_mlp_out"], ablations=["1.2", "mlp:2"], length=6)
    assert not found["blocks.0.attn.hook_z"][:, 1].any()
    assert found["blocks.0.attn.hook_z"][:, 0].any()
    assert not found["blocks.1.hook_mlp_out"].any()
    assert found["blocks.0.hook_mlp_out"].any()


def test_what_is_not_there_or_too_large_is_refused() -> None:
    with pytest.raises(SpecError, match=r"point 'blocks.2.hook_z' is not there; allowed: hook_emb"):
        record(SPEC, "blocks.2.hook_z")
    with pytest.raises(SpecError, match="is not in the vocabulary; allowed: 0 to 49"):
        record(SPEC, ids=[3, 50])
    with pytest.raises(TooLargeError, match="the recorded arrays need"):
        record(SPEC, "*", memory=1000)
    assert segre.record is record
