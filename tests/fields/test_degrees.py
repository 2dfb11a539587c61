"""Bounds on degrees and heights, against polynomials computed exactly."""

import random

import pytest

from segre.fields.degrees import Degrees, Size, Sized
from segre.geometry.random_rank import bounds, derivatives
from segre.models import architecture
from segre.network import stages
from support.symbolic import determinant, jacobian

# without divisions: both the degree and the height are those of the polynomials themselves
POLYNOMIAL = (
    "lightning/d=2,2/a=1/t=2",
    "lightning/d=1,1,1/a=1/t=2",
    "lightning/d=2,1/a=2/heads=2/dv=1/t=2",
    "lightning/d=2,2/a=1/causal=true/t=2",
    "poly/2-3-1/degree=3",
    "poly/1-2-2-1/degree=2/bias=true",
    "transformer/d=1/head=1/mlp=bilinear/ff=1/attn=lightning/vocab=2/output=logits/t=1",
)
RATIONAL = (
    "softmax/d=1,1/a=1/t=2",
    "softmax/d=2,1/a=1/t=2",
    "softmax/d=1,1,1/a=1/t=2",
    "softmax/d=1,1/a=1/gate=head/t=2",
    "double/d=1,1/a=1/t=2",
    "fast/d=1,1/a=1/unit=none/t=2",
    "gapless/d=1,1/a=1/t=2",
    "lightning/d=2,1/a=2/unit=sphere/t=1",
    "transformer/d=2/head=1/norm=rms/attn=lightning/t=1",
    "transformer/d=2/head=1/norm=layer/eps=1e-5/attn=lightning/t=1",
    "transformer/d=1/head=2/pos=rope/attn=lightning/t=3",
    "transformer/d=1/head=1/mlp=gelu/ff=1/attn=lightning/t=1",
    "transformer/d=1/head=1/mlp=swiglu/ff=1/attn=lightning/t=1",
    "transformer/d=1/head=1/mlp=gelu-tanh/ff=1/attn=lightning/t=1",
    "transformer/d=1/head=1/vocab=2/t=1",
)


@pytest.mark.parametrize("text", POLYNOMIAL)
def test_polynomials_are_no_larger_than_their_bounds(text: str) -> None:
    spec = architecture(text)
    found = bounds(spec, 0, 1)
    entries = list(jacobian(spec))
    assert max(entry.degree for entry in entries) <= found.degree
    assert max(entry.height for entry in entries) <= found.height + 1e-9
    assert found.degree <= max(entry.degree for entry in entries) + 2  # and not much too large


@pytest.mark.parametrize("text", RATIONAL)
def test_numerators_are_no_larger_than_their_bounds(text: str) -> None:
    spec = architecture(text)
    for words in (False, True) if spec.discrete else (False,):
        entries = list(jacobian(spec, words))
        field, found = derivatives(spec, words=words)
        assert max(entry.degree for entry in entries) <= found.degree
        assert max(entry.height for entry in entries) <= found.height + 1e-9
        below = field.divisor(found)
        assert max(entry.below.total_degree() for entry in entries) <= below.degree


@pytest.mark.parametrize("text", [*POLYNOMIAL, *RATIONAL])
def test_minors_are_no_larger_than_their_bounds(text: str) -> None:
    spec = architecture(text)
    entries = list(jacobian(spec))
    rows = [entries[n : n + spec.parameters] for n in range(0, len(entries), spec.parameters)]
    size = min(2, len(rows))
    found = bounds(spec, size - 1, 1)
    chance = random.Random(text)
    for _ in range(5):
        columns = chance.sample(range(spec.parameters), size)
        minor = determinant([[row[c] for c in columns] for row in rows[:size]])
        assert minor.degree <= found.degree
        assert minor.height <= found.height + 1e-9


def test_a_fraction_has_its_denominator_in_the_height() -> None:
    plain = bounds(architecture("transformer/d=2/head=1/norm=rms/place=post/t=1"), 3, 1)
    fine = bounds(architecture("transformer/d=2/head=1/norm=rms/place=post/eps=1e-5/t=1"), 3, 1)
    assert fine.degree >= plain.degree
    assert fine.height > plain.height + 4 * 16  # 10^5 has 17 bits


def test_deeper_networks_have_larger_polynomials() -> None:
    sizes = [
        bounds(architecture(f"softmax/d={','.join(['2'] * n)}/a=1/t=2"), 5, 3) for n in (2, 3, 4)
    ]
    assert sizes[0].degree < sizes[1].degree < sizes[2].degree
    assert sizes[0].height < sizes[1].height < sizes[2].height


def test_arguments_are_counted() -> None:
    spec, field = architecture("softmax/d=2,2/a=1/heads=3/t=4"), Degrees()
    (stage,) = stages(spec)
    own = {name: Sized(slot.shape, Size(1), Size()) for name, slot in stage.slots.items()}
    stage.apply(field, own, Sized((1, 2, 4), Size(1)))
    assert [count for count, _ in field.arguments] == [3 * 4 * 4]
    assert field.arguments[0][1].degree == 4
