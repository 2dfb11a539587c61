"""Stacks with a mechanism for every head are read, written and refused."""

import json

import pytest
from tests.support.mixed_stacks import random_mixed_stack

from segre.errors import SpecError
from segre.models import architecture
from segre.spec import Network


@pytest.mark.parametrize("seed", range(200))
def test_specs_read_back(seed: int) -> None:
    spec = random_mixed_stack(seed)
    again = architecture(str(spec))
    assert again == spec or isinstance(again, Network)
    assert Network.parse(json.loads(json.dumps(spec.document()))) == spec
    assert Network.parse(str(spec)).digest == spec.digest


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("softmax/d=3,3/a=2/window=1/t=3", "mix/d=3,3/a=2/heads=softmax:window=1/t=3"),
        ("mix/d=3,3/a=2/heads=softmax*2/t=3", "softmax/d=3,3/a=2/heads=2/t=3"),
        ("mix/d=3,3,3/a=2/heads=lightning/dv=2/t=3", "lightning/d=3,3,3/a=2/dv=2/t=3"),
        ("lightning/d=2,2/a=1/decay=0.5/t=3", "lightning/d=2,2/a=1/decay=1/2/t=3"),
        (
            "double/d=2,2,2/a=1/gate=head,none/t=3",
            "mix/d=2,2,2/a=1/heads=double:gate=head,double/t=3",
        ),
        ("softmax/d=3,3/a=2/kernel=2/t=3", "softmax/d=3,3/a=2/conv=full/kernel=2/t=3"),
    ],
)
def test_two_ways_to_say_the_same(one: str, two: str) -> None:
    assert architecture(one) == architecture(two)
    assert architecture(one).digest == architecture(two).digest


def test_files_say_the_same(tmp_path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(
        'kind = "mix"\nd = [3, 3]\na = 2\nheads = "softmax+lightning:decay=9/10"\nt = 3\n'
    )
    inline = architecture("mix/d=3,3/a=2/heads=softmax+lightning:decay=0.9/t=3")
    assert architecture(str(path)) == inline
    (tmp_path / "spec.json").write_text(json.dumps(inline.document()))
    assert architecture(str(tmp_path / "spec.json")) == inline


def test_equal_heads_are_one_group() -> None:
    spec = Network.parse("mix/d=3,3/a=1/heads=softmax+double+softmax/t=2")
    assert [(g.mechanism.name, g.heads) for g in spec.layers[0].groups] == [
        ("softmax", 2),
        ("double", 1),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mix/d=3,3/a=2/t=3", "mechanisms are missing"),
        ("mix/d=3,3/a=2/heads=2/t=3", "mechanisms are missing"),
        ("mix/d=3,3/heads=softmax/t=3", "a is missing"),
        ("mix/d=3,3/a=2/heads=softmax", "t is missing"),
        ("mix/d=3,3/a=2/heads=soft/t=3", "mechanism: 'soft' is not allowed"),
        ("mix/d=3,3/a=2/heads=softmax,softmax/t=3", "heads has 2 values for 1 layer"),
        ("mix/d=3,3/a=2/heads=softmax*0/t=3", "whole numbers 1 to"),
        ("mix/d=3,3/a=2/heads=softmax*99999999/t=3", "whole numbers 1 to"),
        (
            "mix/d=3,3/a=2/heads=softmax/gate=head/t=3",
            "cannot be combined with heads that name mechanisms",
        ),
        ("softmax/d=3,3/a=2/kernel=9/t=3", "1 to 3, the number of tokens"),
        ("fast/d=3,3/a=1/t=3", "unit=layer is not allowed"),
        ("gapless/d=3,3/a=1/causal=true/t=3", "with a mask"),
        ("softmax/d=3,3/a=2/residual=true/t=3", "unknown key 'residual'"),
        ("lightning/d=3,3/a=2/decay=1.5/t=3", "0 < decay <= 1"),
        ("softmax/d=3,3/a=2/window=-1/t=3", "window: '-1' is not allowed"),
    ],
)
def test_bad_specs_are_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        architecture(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
