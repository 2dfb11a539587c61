"""The spec of a transformer: what it says, what it refuses, and that it reads back."""

import contextlib
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SpecError
from segre.transformer.choices import KEYS
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors
from support.architectures import random_transformers


def test_defaults_are_those_of_the_general_family() -> None:
    net = Transformer.parse("transformer/d=8/heads=2")
    assert (net.layers, net.norm, net.mlp, net.bias, net.pos) == (1, "none", "none", "none", "none")
    assert (net.residual, net.gain, net.causal, net.vocab, net.output) == (
        True,
        True,
        False,
        0,
        "hidden",
    )
    assert (net.eps, net.attn, net.kv, net.head, net.dv) == (0, "softmax", 2, 4, 4)


def test_a_language_model_is_its_distribution() -> None:
    net = Transformer.parse("transformer/d=8/heads=2/norm=rms/vocab=11")
    assert (net.output, net.final) == ("softmax", True)
    assert not Transformer.parse("transformer/d=8/norm=layer/place=post/vocab=11").final


@pytest.mark.parametrize("spec", list(random_transformers(0, 60)), ids=str)
def test_specs_read_back(spec: Transformer) -> None:
    assert Transformer.parse(str(spec)) == spec
    assert Transformer.from_mapping(spec.document()) == spec
    assert Transformer.from_mapping(spec.document()).digest == spec.digest


@pytest.mark.parametrize("spec", list(random_transformers(3, 20)), ids=str)
def test_what_a_spec_keeps_stays_where_it_is(spec: Transformer) -> None:
    """Hashes of words are others in other processes: a copy has the keys, and nothing else."""
    assert len(tensors(spec)) == len(tensors(Transformer.parse(str(spec))))
    assert spec.at(1) is spec.at("1")
    assert {spec: 1}[Transformer.parse(str(spec))] == 1
    copy = pickle.loads(pickle.dumps(spec))
    assert set(vars(copy)) == set(KEYS) < set(vars(spec))
    assert copy == spec
    assert hash(copy) == hash(spec)


@pytest.mark.parametrize("spec", list(random_transformers(1, 40)), ids=str)
def test_tensors_tile_the_weights(spec: Transformer) -> None:
    slots = list(tensors(spec).values())
    assert [slot.start for slot in slots[1:]] == [slot.range.stop for slot in slots[:-1]]
    assert slots[-1].range.stop == spec.parameters


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-5", Fraction(1, 10**5)), ("0.001", Fraction(1, 1000)), ("1", Fraction(1)), ("0", 0)],
)
def test_eps_is_exact(text: str, value: Fraction) -> None:
    assert Transformer.parse(f"transformer/d=4/norm=rms/eps={text}").eps == value


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("transformer/heads=2", "d is missing"),
        ("transformer/d=5/heads=2", "heads"),
        ("transformer/d=4/heads=4/kv=3", "kv"),
        ("transformer/d=4/mlp=gelu", "ff"),
        ("transformer/d=4/ff=8", "ff"),
        ("transformer/d=4/norm=batch", "norm"),
        ("transformer/d=4/mlp=maxout/ff=3", "mlp"),
        ("transformer/d=4/eps=-1/norm=rms", "eps"),
        ("transformer/d=4/eps=1e-5", "eps"),
        ("transformer/d=4/eps=nan/norm=rms", "eps"),
        ("transformer/d=4/pos=rope/rotary=3", "rotary"),
        ("transformer/d=4/tied=true", "vocab"),
        ("transformer/d=4/place=post", "norm"),
        ("transformer/d=4/qrank=2", "kvrank"),
        ("transformer/d=4/experts=2/mlp=swiglu/ff=3", "active"),
        ("transformer/d=4/router=softmax", "router, groups and within need experts"),
        ("transformer/d=4/experts=6/active=2/eff=2/mlp=swiglu/groups=4/within=2", "groups"),
        ("transformer/d=4/experts=6/active=2/eff=2/mlp=swiglu/within=2", "within needs groups"),
        ("transformer/d=4/experts=6/active=5/eff=2/mlp=swiglu/groups=3/within=2", "within"),
        ("transformer/d=4/experts=6/active=2/eff=2/mlp=swiglu/groups=3/within=4", "within"),
        (
            "transformer/d=4/experts=6/active=2/eff=2/mlp=swiglu/groups=3/within=1/router=softmax",
            "groups need router",
        ),
        ("transformer/d=4/experts=2/active=1/eff=2/mlp=swiglu/router=top", "router"),
        ("transformer/d=4/colour=red", "colour"),
        ("transformer/d=4/d=5", "twice"),
        ("transformer/d=4/layers=100000000", "layers"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(text: str, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        Transformer.parse(text)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_crash(text: str) -> None:
    with contextlib.suppress(SpecError):
        Transformer.parse("transformer/d=4/" + text)
