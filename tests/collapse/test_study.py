"""Random stacks as users ask for them: rates, bounds, and what is said of them."""

import numpy as np
import pytest

from segre.collapse.paths import path_sums
from segre.collapse.study import random_pass, study, study_advice
from segre.errors import SegreError

STACK = "softmax/d=12,12,12,12,12,12,12/a=6/heads=2/t=5"
BLOCKS = "transformer/d=12/layers=5/heads=2/mlp=gelu/ff=20/t=5"


@pytest.mark.parametrize("seed", range(4))
def test_the_rate_is_three_and_skips_prevent_it(seed: int) -> None:
    found = study(STACK, seed, inputs=6)
    assert np.nanmedian(found.own.orders[:, -1]) == pytest.approx(3, abs=0.1)
    assert found.other is not None
    assert (found.other.relative[:, -1] > -2).all()
    assert not found.bounds.exceeded().any()
    said = " ".join(study_advice(found))
    assert "Collapses without skips" in said
    assert "exceeded in 0" in said


def test_certified_numbers_agree() -> None:
    found = study(STACK, 1, inputs=2, certify=True)
    np.testing.assert_allclose(found.own.residual[0], found.certified, rtol=1e-9)


def test_a_transformer_with_skips() -> None:
    found = study(BLOCKS, 0, inputs=3)
    said = " ".join(study_advice(found))
    assert "Does not collapse with skips" in said
    assert "does not apply: a skip" in said
    assert found.other is not None
    assert (found.other.relative[:, -1] < -5).all()


def test_inputs_are_the_same_for_the_same_seed() -> None:
    one, two = (study(STACK, 3, inputs=2).document() for _ in range(2))
    np.testing.assert_equal(one, two)


@pytest.mark.parametrize("spec", [STACK, BLOCKS])
@pytest.mark.parametrize("skip", [True, False])
def test_a_pass_is_the_sum_of_its_paths(spec: str, skip: bool) -> None:
    _, done = random_pass(spec, 0, skip=skip)
    total = path_sums(done).total
    np.testing.assert_allclose(total, done.output, rtol=0, atol=1e-12 * np.abs(done.output).max())


def test_widths_that_change_have_no_skips() -> None:
    found = study("softmax/d=8,6,4/a=3/t=4", 0, inputs=2)
    assert found.other is None
    assert study_advice(found)


@pytest.mark.parametrize("spec", ["lightning/d=3,3/a=2/t=2", "llama/d=8/heads=2/ff=8/t=3"])
def test_what_is_not_a_stack_of_this_kind(spec: str) -> None:
    with pytest.raises(SegreError):
        study(spec)
