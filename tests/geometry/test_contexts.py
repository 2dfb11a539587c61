"""Few token sequences: contexts are what outputs depend on, and bounds hold."""

from itertools import islice

import numpy as np
import pytest
from bench.random_specs import random_core, random_transformer

from segre import certify, verify
from segre.certificate import checksum
from segre.fields.real import Real
from segre.geometry.closed_form import MOST_SEQUENCES, contexts, few_contexts
from segre.geometry.dimension import prove
from segre.geometry.estimate import spectrum
from segre.geometry.real_point import RealPoint
from segre.kernel.contexts import few_contexts as recomputed
from segre.kernel.document import RejectionError
from segre.kernel.meter import Meter, metered
from segre.network import forward
from segre.transformer.spec import Transformer


def token_designs(count: int) -> list[Transformer]:
    """Random ones whose sequences are few."""
    drawn = (draw(seed) for seed in range(10 * count) for draw in (random_core, random_transformer))
    return list(islice(filter(few, drawn), count))


def few(spec: Transformer) -> bool:
    """Whether `few_contexts` lists the sequences, without listing them."""
    kinds = spec.vocab * max(1, spec.types)
    return spec.discrete and not spec.pooler and kinds**spec.t <= MOST_SEQUENCES


@pytest.mark.parametrize("spec", token_designs(20), ids=str)
def test_outputs_with_the_same_context_are_equal(spec: Transformer) -> None:
    numbers = np.arange(200)
    point = RealPoint(spec, 3)
    X = point.inputs(numbers)
    with np.errstate(all="ignore"):
        out = forward(Real(), spec, point.weights, X).reshape(
            len(numbers), spec.output_shape[0], -1
        )
    columns = {np.round(c, 9).tobytes() for c in np.moveaxis(out, 1, 2).reshape(-1, out.shape[1])}
    assert len(columns) <= len(contexts(spec))


@pytest.mark.parametrize("spec", token_designs(50), ids=str)
def test_no_rank_is_above_the_bound(spec: Transformer) -> None:
    bound = few_contexts(spec)
    assert bound is not None
    with np.errstate(all="ignore"):
        try:
            found = spectrum(spec, seed=1)
        except np.linalg.LinAlgError:  # a norm of zeros
            return
    assert int((found.values > 1e-7 * found.values[0]).sum()) <= bound.value


def test_the_kernel_counts_the_same() -> None:
    with metered(Meter(1e9)):
        for spec in token_designs(60):
            bound = few_contexts(spec)
            assert bound is not None
            count = bound.evidence.data["contexts"]
            assert recomputed(spec, count) == bound.value
            with pytest.raises(RejectionError):
                recomputed(spec, count + 1)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("transformer/d=4/heads=2/mlp=gelu/ff=3/vocab=3/t=1", 6),  # 3 contexts of 2 numbers
        ("transformer/d=2/mlp=gelu/ff=3/vocab=3/output=logits/t=1", 8),  # 3 x 3 matrices of rank 2
        ("transformer/d=4/heads=2/pos=learned/mlp=gelu/ff=3/vocab=3/t=2", 36),  # 18 contexts
        ("transformer/d=4/heads=2/pos=rope/norm=rms/mlp=gelu/ff=3/vocab=3/t=2", 30),
        (
            "transformer/d=3/layers=2/heads=2/head=2/norm=layer/qknorm=true/pos=rope/vocab=5/tied=true/t=2",
            52,
        ),
    ],
)
def test_few_sequences_are_proved_and_certified(text: str, dimension: int) -> None:
    proof = prove(Transformer.parse(text))
    assert proof.lower.value == proof.upper.value == dimension
    assert proof.upper.evidence.kind == "contexts"
    document = certify(text)
    assert verify(document).valid
    upper = document["upper"]
    for change in (
        {"upper": {**upper, "contexts": upper["contexts"] + 1}},
        {"upper": {"kind": "contexts"}},
        {"claim": {**document["claim"], "upper": dimension + 1, "status": "lower-bound"}},
    ):
        forged = {**document, **change}
        assert not verify({**forged, "checksum": checksum(forged)}).valid


def test_contexts_need_few_sequences() -> None:
    assert few_contexts(Transformer.parse("transformer/d=4/heads=2/t=3")) is None
    assert few_contexts(Transformer.parse("transformer/d=4/heads=2/vocab=100/t=3")) is None
