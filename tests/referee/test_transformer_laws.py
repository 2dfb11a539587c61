"""The referee's transformer computes what the page says, in every field, with its derivatives."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from bench.random_specs import random_transformer
from flint import arb, arb_mat, ctx, nmod_mat

from segre.models import architecture
from segre.referee.rejection import RejectionError
from segre.referee.residues import Stream
from segre.referee.transformers.angles import factors, rational
from segre.referee.transformers.balls import Balls, UncertainError, real_input, real_weights
from segre.referee.transformers.forward import record
from segre.referee.transformers.jacobian import jacobian
from segre.referee.transformers.modular import Modular, NoRootError
from segre.referee.transformers.numbers import Radicand, Salts
from segre.referee.transformers.regular import prove_regular
from segre.referee.transformers.stages import argument_count, root_counts, seen, sources
from segre.referee.transformers.symmetries import families, symmetry_rank
from segre.referee.transformers.tangents import Point
from segre.referee.transformers.weights import Layout
from segre.transformer.spec import Transformer
from support.rooted_inputs import rooted
from support.scalar_transformer import Dual, Reals, Residues, Scalar

P = 2147483647
SPECS = [
    "transformer/d=4/layers=3/heads=2/causal=true/window=2,0/scale=3/bylayer=true/mlp=gelu-quick/ff=2/t=4",
    "transformer/d=3/layers=2/head=4/pos=rope/base=100/rescale=yarn:4:16:fast=3/causal=true/window=2/t=3",
    "transformer/d=3/head=6/pos=rope/base=64/rescale=llama3:8:1:4:64/mlp=geglu-quick/ff=2/t=2",
    "transformer/d=3/head=4/pos=rope/base=16/rescale=linear:3/qknorm=true/scale=1/eps=1e-5/t=3",
    "transformer/d=3/head=4/pos=rope/base=16/rescale=dynamic:2:2/t=4",
    "transformer/d=3/head=4/pos=rope/base=16/rescale=longrope:8:3:short=1+2.5:long=3+7/t=3",
    "transformer/d=3/head=4/pos=rope/base=16/rescale=longrope:8:2:short=1+2.5:long=3+7/t=3",
    "transformer/d=4/heads=2/kvrank=3/rotary=4/pos=rope/rescale=yarn:40:64:mscale=1:all=0.5/t=3",
    "transformer/d=4/layers=2/heads=4/kv=2/head=2/mlp=swiglu/ff=3/norm=rms/pos=rope/causal=true/t=3",
    "transformer/d=3/head=4/pos=rope/layout=interleaved/base=100/mlp=bilinear/ff=2/t=2",
    "transformer/d=3/head=5/rotary=2/pos=rope/mlp=geglu-tanh/ff=2/qknorm=true/eps=1e-5/t=2",
    "transformer/d=3/head=6/pos=rope/base=64/t=2",
    "transformer/d=3/heads=2/head=2/norm=layer/place=post/bias=all/mlp=gelu/ff=2/vocab=4/types=2/t=2",
    "transformer/d=3/head=2/norm=layer/place=sandwich/bias=all/mlp=relu2/ff=3/cap=3/layers=2/share=true/t=2",
    "transformer/d=4/heads=2/kvrank=3/qrank=2/rotary=2/pos=rope/norm=rms/mlp=silu/ff=2/t=3",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/shared=2/norm=rms/t=2",
    "transformer/d=3/mlp=geglu/experts=3/active=2/eff=2/router=softmax/norm=rms/t=2",
    "transformer/d=3/mlp=reglu/experts=3/active=2/eff=2/router=softmax-raw/norm=layer/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/router=sigmoid-raw/norm=rms/t=2",
    "transformer/d=3/mlp=swiglu/experts=6/active=3/eff=1/groups=3/within=2/norm=rms/t=2",
    "transformer/d=3/attn=lightning/causal=true/residual=false/pos=learned/positions=4/t=3",
    "transformer/d=3/norm=layer/mlp=gelu/ff=2/vocab=4/embed=2/embnorm=true/transform=true/tied=true"
    "/outbias=true/pos=learned/t=2",
    "transformer/d=3/norm=rms/bias=qkv/vocab=4/tied=true/embscale=true/logitcap=7/t=2",
    "transformer/d=3/norm=rms/vocab=4/pooler=true/output=hidden/gain=false/t=2",
    "transformer/d=4/heads=4/kv=2/head=2/norm=rms/place=after/mlp=silu/ff=2/qknorm=all/pos=rope/t=2",
    "transformer/d=3/heads=2/head=2/norm=rms/place=after/qknorm=all/gain=false/bias=attn/eps=1e-5/t=2",
    "transformer/d=3/layers=3/head=4/pos=rope/base=100,0/rescale=linear:3/bias=attn/causal=true/t=3",
    "transformer/d=3/layers=2/head=4/pos=rope/base=16,100/rescale=none,yarn:4:16/qknorm=true/eps=1e-5/t=3",
    "transformer/d=4/layers=2/heads=2/norm=layer/bias=all/mlp=gelu/ff=2/parallel=true/pos=rope/t=2",
    "transformer/d=4/layers=2/heads=2/kv=1/norm=rms/bias=attn/sinks=true/pos=rope/causal=true/window=2,0/t=3",
    "transformer/d=3/bias=qkv/sinks=true/cap=3/mlp=silu/ff=2/t=2",
    "transformer/d=3/mlp=clamped/limit=0.5/ff=2/bias=all/norm=rms/t=2",
    "transformer/d=3/mlp=clamped/limit=0.5/experts=3/active=2/eff=2/expbias=true/router=softmax/norm=rms/t=2",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/expbias=true/norm=rms/vocab=4/t=2",
    "transformer/d=3/head=6/pos=rope/base=64/rescale=yarn:4:64:truncate=0/mlp=silu/ff=2/t=2",
    "transformer/d=3/layers=2/qknorm=true/mlp=swiglu/ff=2/bias=all/parallel=true/vocab=4/outbias=true/t=2",
    "transformer/d=3/norm=rms/vocab=4/pooler=true/labels=3/read=first/outbias=true/t=2",
    "transformer/d=3/norm=layer/bias=all/vocab=4/labels=2/read=last/causal=true/t=3",
    "transformer/d=3/norm=rms/vocab=4/labels=2/outbias=true/output=logits/t=3",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=gelu/ff=2/vocab=4/embnorm=true/tied=true"
    "/transform=true/outbias=true/pooler=true/relation=2/t=2",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=relu/ff=2/vocab=5/embed=2/project=true"
    "/tied=true/pos=learned/causal=true/t=2",
    "transformer/d=3/norm=rms/mlp=silu/ff=2/vocab=4/embed=2/project=true/pos=learned/t=2",
    "transformer/d=3/norm=layer/bias=all/vocab=4/embed=2/project=true/output=hidden/pos=learned/t=2",
    "transformer/d=4/layers=2/heads=4/kv=2/head=2/gate=element/bias=qkv/norm=rms/pos=rope/t=2",
    "transformer/d=3/heads=2/head=2/gate=head/norm=layer/bias=all/mlp=silu/ff=2/vocab=4/t=2",
    "transformer/d=3/heads=2/kv=1/head=2/gate=element/attn=lightning/causal=true/t=3",
    "transformer/d=3/heads=2/kv=1/head=2/gate=element/attn=lightning/feature=silu/mixnorm=true/t=2",
    "transformer/d=3/heads=2/head=2/gate=element/mixnorm=true/norm=rms/bias=qkv/eps=1e-5/t=2",
    "transformer/d=3/layers=3/heads=3/kv=1/head=2/gate=element/attn=softmax,lightning/feature=silu"
    "/mixnorm=true/mixeps=1e-3/decay=slopes/norm=rms/place=post/skip=1.5/pos=rope/causal=true/t=4",
    "minimax/d=3/layers=2/heads=2/kv=1/head=2/experts=3/eff=2/eps=1e-5/vocab=4/window=2/t=3",
    "transformer/d=3/mlp=swiglu/experts=3/active=2/eff=2/shared=2/sharedgate=true/norm=rms/t=2",
    "vit/d=3/heads=1/layers=2/mlp=silu/ff=2/eps=1e-5/patch=2/labels=2/output=logits/t=3",
    "vit/d=3/heads=1/ff=2/patch=4/cls=false/output=hidden/t=2",
    "transformer/d=3/norm=layer/bias=all/mlp=gelu/ff=2/vocab=4/labels=2/read=first/transform=true/t=2",
    "transformer/d=3/norm=layer/place=post/bias=all/mlp=silu/ff=2/vocab=4/embed=2/labels=1"
    "/output=logits/transform=true/headnorm=false/outbias=true/t=2",
    "dinov2/d=3/heads=1/ff=2/eps=1e-5/patch=2/masked=true/t=2",
]


def transformer(text: str) -> Transformer:
    spec = architecture(text)
    assert isinstance(spec, Transformer)
    return spec


def silently(*_: object) -> None:
    pass


def columns(matrix: Any) -> list[list[Any]]:
    return [list(column) for column in zip(*matrix.tolist(), strict=True)]


@pytest.mark.parametrize("text", SPECS)
def test_real_outputs(text: str) -> None:
    """Balls agree with floats, computed one number at a time."""
    spec = transformer(text)
    layout = Layout(spec)
    with ctx.workprec(128):
        balls = Balls()
        weights = layout.matrices(balls, real_weights(layout, 3))
        X = real_input(spec, 3, 5)
        found = record(spec, balls, weights, X, [(0,) * spec.t] * sources(spec)).value
    floats = [[float(x) for x in column] for column in columns(X)]
    expected = Scalar(spec, layout, Reals().weights(layout, 3), Reals())(floats)
    for one, other in zip(columns(found), expected, strict=True):
        assert [float(x.mid()) for x in one] == pytest.approx(other, abs=1e-12)
        assert all(x.rad() < 1e-25 for x in one)


@pytest.mark.parametrize("text", SPECS)
def test_real_derivatives(text: str) -> None:
    """Reverse mode agrees with central differences in 256 bits."""
    spec = transformer(text)
    layout = Layout(spec)
    with ctx.workprec(256):
        balls, weights = Balls(), real_weights(layout, 1)
        salts = [(0,) * spec.t] * sources(spec)
        X, step = real_input(spec, 1, 0), arb((1, -60))

        def value(j: int, shift: arb) -> list[arb]:
            moved = [w + shift * (i == j) for i, w in enumerate(weights)]
            entries: list[arb] = record(
                spec, balls, layout.matrices(balls, moved), X, salts
            ).value.entries()
            return entries

        count = len(value(0, arb(0)))
        rows = [(0, o) for o in range(count)]
        J = jacobian(
            layout, balls, layout.matrices(balls, weights), rows, lambda _: (X, salts), silently
        )
        for j in random.Random(0).sample(range(layout.parameters), 12):
            above, below = value(j, step), value(j, -step)
            for o in range(count):
                slope = (above[o] - below[o]) / (2 * step)
                assert abs(slope - J[o, j]) < 1e-28


@pytest.mark.parametrize("text", SPECS)
def test_residues_and_their_derivatives(text: str) -> None:
    """The network mod p agrees with dual numbers, computed one at a time."""
    spec = transformer(text)
    layout = Layout(spec)
    assert layout.parameters == spec.parameters
    point = Point(layout, Modular(P, 9))
    found = rooted(point, 4)
    assert found is not None
    recording, X, salts = found
    size = recording.value.nrows() * recording.value.ncols()
    rows = [(4, o) for o in range(size)]
    J = jacobian(layout, point.field, point.matrices, rows, lambda _: (X, salts), silently)
    duals = [[Dual(int(x)) for x in column] for column in columns(X)]
    weights = point.field.weights(layout.parameters)
    for j in random.Random(1).sample(range(layout.parameters), 6):
        moved = [Dual(w, int(i == j)) for i, w in enumerate(weights)]
        output = Scalar(spec, layout, moved, Residues(9, salts))(duals)
        entries = [column[r] for r in range(len(output[0])) for column in output]
        assert [z.x for z in entries] == [int(x) for x in recording.value.entries()]
        assert [z.y for z in entries] == [int(J[o, j]) for o in range(size)]


def test_inputs_of_the_page() -> None:
    field, u = Modular(P, 7), Stream.of(7, 1)
    X = field.input(3, 2, (5, 0))
    expected = [
        u(12 + 2 * r + c + 2**40 * salt) % P for r in (0, 1) for c, salt in ((0, 5), (1, 0))
    ]
    assert [int(x) for x in X.entries()] == expected
    soft = field.soft_input(3, 3, 2, (0, 1))
    for c, salt in ((0, 0), (1, 1)):
        column = [int(soft[r, c]) for r in range(5)]
        assert column[0] == u(3 * 10 + c + 2**40 * salt) % P
        assert column[3] == u(3 * 10 + 6 + c + 2**40 * salt) % P
        assert sum(column[:3]) % P == sum(column[3:]) % P == 1
    witness = field.input(3, 2, (0, 0), witness=True)
    assert int(witness[0, 0]) == Stream.of(7, 4)(12) % P


def test_turns_lie_on_the_circle_and_multiply() -> None:
    field = Modular(P, 2)
    plain, slow = (
        Transformer.parse(f"transformer/d=12/pos=rope{rest}/t=2")
        for rest in ("", "/rescale=linear:3")
    )
    for plane in range(6):
        x, y = field.turn(plain, plane, 1)
        assert (x * x + y * y) % P == 1
        assert field.turn(plain, plane, 2) == ((x * x - y * y) % P, 2 * x * y % P)
        assert field.turn(plain, plane, 0) == (1, 0)
        # all angles are three times smaller: no relation between them changes
        assert field.turn(slow, plane, 1) == (x, y)
    # 10000 = 10^4 and 4 / 6 = 2 / 3: three planes further the angle is 100 times smaller.
    assert field.turn(plain, 1, 1) == field.turn(plain, 4, 100) != field.turn(plain, 4, 1)
    # yarn multiplies the frequency of plane 1 by 5/8, that of plane 4 by 1/4.
    yarn = Transformer.parse("transformer/d=12/pos=rope/rescale=yarn:4:64/t=2")
    assert field.turn(yarn, 1, 1) == field.turn(yarn, 4, 250) != field.turn(yarn, 4, 100)


def test_roots_name_their_places() -> None:
    field = Modular(P, 0)
    squares = field.matrix(1, 3, [4, 9, P - 1])
    with pytest.raises(NoRootError) as error:
        field.roots(squares, Radicand(2, 1, 6), (0, 0, 0))
    assert error.value.place == Radicand(2, 1, 8)
    assert error.value.value == P - 1
    with pytest.raises(NoRootError, match="zero"):
        field.roots(field.matrix(1, 1, [0]), Radicand(0, 0, 0), (0,))


def test_divisions_by_zero_are_refused() -> None:
    field = Modular(P, 0)
    with pytest.raises(RejectionError, match="division by zero"):
        field.inverses(field.matrix(1, 2, [1, 0]))
    with pytest.raises(UncertainError):
        Balls().inverses(arb_mat(1, 1, [arb(0, 1)]))
    with pytest.raises(UncertainError):
        Balls().step(arb_mat(1, 1, [arb(0)]), (0,))
    routed = Transformer.parse("transformer/d=2/mlp=swiglu/experts=2/active=1/eff=1/t=1")
    with pytest.raises(UncertainError):
        Balls().choice(arb_mat(2, 1, [arb(1, 0.5), arb(1)]), routed, (0,))


class Noting(Modular):
    """Notes every radicand that is asked for."""

    def __init__(self, prime: int, seed: int) -> None:
        super().__init__(prime, seed)
        self.noted: list[Radicand] = []

    def roots(self, A: nmod_mat, first: Radicand, salts: Salts) -> nmod_mat:
        size = len(A.entries())
        self.noted += [Radicand(first.stage, first.root, first.entry + i) for i in range(size)]
        return super().roots(A, first, salts)


def test_counts_of_roots_and_arguments() -> None:
    counted = 0
    for seed in range(60):
        spec = random_transformer(seed)
        field = Noting(P, seed)
        found = rooted(Point(Layout(spec), field), 0)
        if found is None:
            continue
        noted = sorted(set(field.noted))
        counts = root_counts(spec)
        assert noted == [
            Radicand(stage, root, entry)
            for stage, sizes in enumerate(counts)
            for root, size in enumerate(sizes)
            for entry in range(size)
        ]
        field.noted.clear()
        rooted_again = record(spec, field, Point(Layout(spec), field).matrices, found[1], found[2])
        assert field.noted == noted
        if not (spec.vocab or spec.experts):
            assert len(rooted_again.arguments) == argument_count(spec)
            counted += 1
    assert counted >= 8


def test_symmetries_change_nothing() -> None:
    """Every vector of section 9 is orthogonal to the Jacobian, for all kinds of transformers."""
    seen: set[str] = set()
    checked = 0
    for seed in range(1000, 1240):
        spec = random_transformer(seed)
        layout = Layout(spec)
        if layout.parameters > 200:
            continue
        point = Point(layout, Modular(P, seed))
        found = [rooted(point, n, 80) for n in (0, 1)]
        if found[0] is None or found[1] is None:
            continue
        inputs = {n: (item[1], item[2]) for n, item in enumerate(found) if item is not None}
        value = found[0][0].value
        rows = [(n, o) for n in (0, 1) for o in range(value.nrows() * value.ncols())]
        J = jacobian(layout, point.field, point.matrices, rows, inputs.__getitem__, silently)
        *_, rank = symmetry_rank(point, J, silently)
        assert rank + J.rank() <= layout.parameters, spec
        seen |= {name for name, _ in families(point)}
        checked += 1
    assert checked > 80
    assert len(seen) >= 27, seen


def test_a_vector_that_changes_an_output_is_named() -> None:
    spec = Transformer.parse("transformer/d=2/t=2")
    point = Point(Layout(spec), Modular(P, 0))
    J = nmod_mat(1, point.layout.parameters, [1] * point.layout.parameters, P)
    with pytest.raises(RejectionError, match="symmetry query-key: a vector changes"):
        symmetry_rank(point, J, silently)


def test_regular_matrices() -> None:
    prove_regular(arb_mat(0, 0, []))
    prove_regular(arb_mat(2, 2, [1, 2, 3, 4]))
    prove_regular(arb_mat(2, 2, [arb(1, 0.01), 0, 0, arb(-1, 0.01)]))
    size = 12
    hilbert = arb_mat(size, size, [arb(1) / (i + j + 1) for i in range(size) for j in range(size)])
    with pytest.raises(UncertainError):
        prove_regular(hilbert)
    with ctx.workprec(256):
        exact = [arb(1) / (i + j + 1) for i in range(size) for j in range(size)]
        prove_regular(arb_mat(size, size, exact))
    for singular in ([1, 2, 2, 4], [0, 0, 0, 0], [arb(0, 1), 0, 0, 1], [math.nan, 0, 0, 1]):
        with pytest.raises(UncertainError):
            prove_regular(arb_mat(2, 2, singular))


def test_counts_need_no_loop_over_tokens_or_planes() -> None:
    """Sizes are read before it is known whether they can be computed with."""
    for seed in range(200):
        spec = random_transformer(seed)
        pairs = sum(
            seen(spec, layer, key, query)
            for layer in range(1, spec.layers + 1)
            for key in range(spec.t)
            for query in range(spec.t)
        )
        bare = replace(spec, cap=0 * spec.cap, mlp="none", ff=0, experts=0)
        expected = spec.heads * pairs if spec.attn == "softmax" else 0
        assert argument_count(bare) == expected
        for here in (spec.at(layer) for layer in range(1, spec.layers + 1)):
            assert rational(here) == (None not in factors(here))
    sizes = "head=100000000/pos=rope/causal=true/t=100000000/window=77"
    for kind in ("llama3:8:1:4:8192", "yarn:4:4096", "dynamic:2:4"):
        large = Transformer.parse(f"transformer/d=4/{sizes}/rescale={kind}")
        assert argument_count(large) == 77 * 78 // 2 + (10**8 - 77) * 77
        assert rational(large) == kind.startswith("yarn")
