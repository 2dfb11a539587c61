"""Graphs of transformers compute what the page says, in every field, with their derivatives."""

from __future__ import annotations

import random

import numpy as np
import pytest
from bench.random_specs import random_transformer
from flint import arb, ctx

from segre.kernel.arrays import Array, Evaluation, Salts
from segre.kernel.balls import Balls, UncertainError, real_inputs, real_weights
from segre.kernel.document import RejectionError
from segre.kernel.graph import Graph, evaluate
from segre.kernel.lower import prove_regular
from segre.kernel.network import graph_of
from segre.kernel.point import Batch, Point
from segre.kernel.residues import INPUTS, WITNESS_INPUTS, Residues, cut
from segre.kernel.witness import argument_count
from segre.models import architecture
from segre.transformer.spec import Transformer
from support.scalar_transformer import Dual, Reals, Scalar, u
from support.scalar_transformer import Residues as Duals

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


def real_batch(spec: Transformer, graph: Graph, seed: int, number: int) -> Batch:
    return Batch(real_inputs(graph, seed, [number]))


@pytest.mark.parametrize("text", SPECS)
def test_real_outputs(text: str) -> None:
    """Balls agree with floats, computed one number at a time."""
    spec = transformer(text)
    graph = graph_of(spec)
    with ctx.workprec(128):
        batch = real_batch(spec, graph, 3, 5)
        _, values = Point(graph, Balls(), real_weights(graph, 3)).evaluate(batch)
    found, X = values[graph.output][0], batch.inputs[0]
    floats = [[float(x) for x in column] for column in X.T]
    expected = Scalar(spec, graph, Reals().weights(graph, 3), Reals())(floats)
    for one, other in zip(found.T, expected, strict=True):
        assert [float(x.mid()) for x in one] == pytest.approx(other, abs=1e-12)
        assert all(x.rad() < 1e-25 for x in one)


@pytest.mark.parametrize("text", SPECS)
def test_real_derivatives(text: str) -> None:
    """Reverse mode agrees with central differences in 256 bits."""
    spec = transformer(text)
    graph = graph_of(spec)
    with ctx.workprec(256):
        balls, batch, step = Balls(), real_batch(spec, graph, 1, 0), arb((1, -60))
        vector = np.hstack([w.reshape(1, -1) for w in real_weights(graph, 1).values()])

        def value(j: int, shift: arb) -> Array:
            moved = vector.copy()
            moved[0, j] += shift
            _, values = Point(graph, balls, cut(graph, moved)).evaluate(batch)
            return values[graph.output].ravel()

        count = len(value(0, arb(0)))
        point = Point(graph, balls, cut(graph, vector))
        J = point.jacobian([(0, o) for o in range(count)], lambda _: batch)
        for j in random.Random(0).sample(range(graph.parameters), min(12, graph.parameters)):
            slopes = (value(j, step) - value(j, -step)) / (2 * step)
            assert all(abs(error) < 1e-28 for error in slopes - J[:, j])


class SomeRoots(Residues):
    """The field with roots of q or of -q, so that every input can be used."""

    def root(self, a: Array, _salts: Salts) -> Array:
        return self.power_of(a, (self.prime + 1) // 4)


@pytest.mark.parametrize("text", SPECS)
def test_residues_and_their_derivatives(text: str) -> None:
    """The network mod p agrees with dual numbers, computed one at a time."""
    spec, rng = transformer(text), random.Random(text)
    graph, field = graph_of(spec), SomeRoots(P, 9)
    assert graph.parameters == spec.parameters
    point, batches = Point(graph, field, field.weights(graph)), {}
    for n in (4, 7):
        salts = [[rng.randrange(1 << 20) for _ in range(spec.t)] for _ in range(graph.stages + 1)]
        own = np.array([salts], np.uint64)
        X = field.inputs(graph.input_shape, [n], own[:, 0])
        batches[n] = Batch(field.soft(X, spec.vocab, spec.types), own)

    def inputs(numbers: list[int]) -> Batch:
        chosen = [batches[n] for n in numbers]
        return Batch(
            np.concatenate([one.inputs for one in chosen]),
            np.concatenate([one.salts for one in chosen if one.salts is not None]),
        )

    rows, columns = graph.shape(graph.output)
    every = [(n, o) for o in range(rows * columns) for n in (4, 7)]
    J = point.jacobian(every, inputs)
    weights = field.drawn(0, np.arange(graph.parameters)).tolist()
    for n, batch in batches.items():
        value = point.evaluate(batch)[1][graph.output][0]
        duals = [[Dual(int(x)) for x in column] for column in batch.inputs[0].T]
        for j in rng.sample(range(graph.parameters), min(4, graph.parameters)):
            moved = [Dual(w, int(i == j)) for i, w in enumerate(weights)]
            output = Scalar(spec, graph, moved, Duals(9, batch.salts[0].tolist()))(duals)
            for o, (r, c) in enumerate(np.ndindex(rows, columns)):
                assert output[c][r].x == value[r, c]
                assert output[c][r].y == J[every.index((n, o)), j]


def test_inputs_of_the_page() -> None:
    field, salts = Residues(P, 7), np.array([[5, 0]], np.uint64)
    X = field.inputs((2, 2), [3], salts)
    expected = [
        u(7, INPUTS, 12 + 2 * r + c + 2**40 * salt) % P
        for r in (0, 1)
        for c, salt in ((0, 5), (1, 0))
    ]
    assert X.ravel().tolist() == expected
    salts = np.array([[0, 1]], np.uint64)
    soft = field.soft(field.inputs((5, 2), [3], salts), 3, 2)[0]
    for c, salt in ((0, 0), (1, 1)):
        assert soft[0, c] == u(7, INPUTS, 3 * 10 + c + 2**40 * salt) % P
        assert soft[3, c] == u(7, INPUTS, 3 * 10 + 6 + c + 2**40 * salt) % P
        assert sum(soft[:3, c]) % P == sum(soft[3:, c]) % P == 1
    witness = field.inputs((2, 2), [3], salts * 0, WITNESS_INPUTS)
    assert witness[0, 0, 0] == u(7, WITNESS_INPUTS, 12) % P


def test_rotations_lie_on_the_circle_and_multiply() -> None:
    field = Residues(P, 2)
    texts = ("", "/rescale=linear:3", "/rescale=yarn:4:64")
    plain, slow, yarn = (
        field.rotation(Transformer.parse(f"transformer/d=12/pos=rope{rest}/t=2"), 251)
        for rest in texts
    )
    x, y = (table[:, 1].astype(object) for table in plain)
    assert all((x * x + y * y) % P == 1)
    for table, first, second in zip(
        plain, (1, 0), ((x * x - y * y) % P, 2 * x * y % P), strict=True
    ):
        assert (table[:, 0] == first).all()
        assert (table[:, 2] == second).all()
    # all angles are three times smaller: no relation between them changes
    assert (slow[0] == plain[0]).all()
    # 10000 = 10^4 and 4 / 6 = 2 / 3: three planes further the angle is 100 times smaller.
    assert plain[0][1, 1] == plain[0][4, 100] != plain[0][4, 1]
    # yarn multiplies the frequency of plane 1 by 5/8, that of plane 4 by 1/4.
    assert yarn[0][1, 1] == yarn[0][4, 250] != yarn[0][4, 100]


def test_arguments_are_counted_as_they_are_computed() -> None:
    """The count of the witness is that of the columns of its table."""
    for seed in range(40):
        spec = random_transformer(seed)
        graph, field = graph_of(spec), SomeRoots(P, seed)
        X = field.inputs(graph.input_shape, [0], np.zeros((1, spec.t), np.uint64))
        try:
            values = evaluate(graph, Evaluation(field, field.weights(graph), X))
        except RejectionError:  # a norm of one entry divides by zero
            continue
        found = 0
        for argument in graph.arguments:
            table = argument.seen
            entries = values[argument.node]
            found += entries.size if table is None else entries[..., table.table()].size
        assert found == argument_count(graph)


def test_regular_matrices() -> None:
    rates = Balls().rates

    def regular(size: int, *entries: object) -> bool:
        table = np.empty(size * size, object)
        table[:] = [arb(x) for x in entries]
        try:
            prove_regular(table.reshape(size, size), rates)
        except UncertainError:
            return False
        return True

    assert regular(0)
    assert regular(2, 1, 2, 3, 4)
    assert regular(2, arb(1, 0.01), 0, 0, arb(-1, 0.01))
    size = 12
    places = [(i, j) for i in range(size) for j in range(size)]
    assert not regular(size, *(arb(1) / (i + j + 1) for i, j in places))
    with ctx.workprec(256):
        assert regular(size, *(arb(1) / (i + j + 1) for i, j in places))
    for singular in ([1, 2, 2, 4], [0] * 4, [arb(0, 1), 0, 0, 1], [arb("nan"), 0, 0, 1]):
        assert not regular(2, *singular)
