"""Polynomial networks as data: every way of writing one gives the same, bad ones are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from segre.analysis.comparison import compare
from segre.collapse.commands import count_paths, decompose, measure
from segre.errors import SpecError, UnsupportedError
from segre.inspect.diagnose import diagnose
from segre.models import architecture
from segre.polynomial.spec import Polynomial, receptive_field
from segre.sequence.cost import cost
from support.polynomials import random_polynomials
from support.terminal import run


def test_what_is_written_is_read_back() -> None:
    for spec in random_polynomials(1, 200):
        assert architecture(str(spec)) == spec
        assert architecture(spec.document()) == spec
        assert Polynomial.parse(str(spec)).digest == spec.digest


def test_widths_may_be_written_in_two_ways() -> None:
    assert architecture("poly/3-5-2/degree=3") == architecture("poly/d=3,5,2/degree=3")
    assert architecture("poly/d=4/layers=2/degree=2") == architecture("poly/4-4-4/degree=2")


def test_the_receptive_field_is_the_shortest_input() -> None:
    for spec in random_polynomials(2, 100):
        if spec.convolutional:
            kernels = [layer.kernel for layer in spec.convolutions]
            strides = [layer.stride for layer in spec.convolutions]
            least = receptive_field(kernels, strides)
            given = {**spec.document(), "n": least}
            assert Polynomial.from_mapping(given).widths[-1] == 1
            if least > 1:
                with pytest.raises(SpecError, match="shorter than the receptive field"):
                    Polynomial.from_mapping({**given, "n": least - 1})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("poly/3-5-2/degree=0", "degree: '0' is not allowed; allowed: whole numbers 1 to 1000"),
        ("poly/3-5-2", "degree is missing"),
        ("poly/3-0-2/degree=2", "d: '0' is not allowed"),
        ("poly/3/degree=2", "d has 1 width"),
        ("poly/3--2/degree=2", "d: '' is not allowed"),
        ("poly/degree=2", "d is missing"),
        ("poly/3-5-2/degree=2/heads=2", "unknown key 'heads'"),
        ("poly/3-5-2/degree=2/bias=1", "bias: '1' is not allowed; allowed: true, false"),
        ("cnn/degree=2", "k is missing"),
        ("cnn/k=3,2/degree=2/n=3", "n=3 is shorter than the receptive field 4"),
        ("cnn/k=3,2/degree=2/stride=1,2,3", "stride has 3 values for 2 layers"),
        ("cnn/k=3,2/degree=2/stride=0", "stride: '0' is not allowed"),
    ],
)
def test_bad_specs_are_one_line(text: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        architecture(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_bad_spec_ends_with_exit_code_2() -> None:
    done = run("dim", "poly/3-5-2/degree=0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "ask", [measure, count_paths, decompose, cost, compare, diagnose], ids=lambda f: f.__name__
)
def test_what_needs_attention_says_so(ask: Callable[[str], object]) -> None:
    with pytest.raises(UnsupportedError, match="does not support polynomial networks"):
        ask("poly/3-5-2/degree=3")
