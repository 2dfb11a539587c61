"""The picture of a fiber: along the curve the function stays, and a step off it changes it."""

from pathlib import Path

import numpy as np
import pytest

from segre.analysis.fiber import fiber_of
from segre.analysis.workbench import Workbench
from support.zoo import save_tiny


@pytest.fixture(scope="module", params=["llama", "gpt2", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(request.param, tmp_path_factory.mktemp("tiny") / "model")


def test_the_function_of_a_checkpoint_stays_along_the_curve(model: Path) -> None:
    found = fiber_of(Workbench.of(model))
    assert found is not None
    assert found.changed < 1e-12
    assert found.moved > 0.1
    assert found.random > 1e6 * found.changed
    np.testing.assert_allclose(found.curve[0], found.curve[-1], atol=1e-12)
    assert np.ptp(found.curve, axis=0).min() > 0


@pytest.mark.parametrize("spec", ["softmax/d=4,4/a=2/t=3", "lightning/d=3,4,3/a=2/heads=2/t=3"])
def test_so_does_that_of_a_stack(spec: str) -> None:
    found = fiber_of(Workbench.of(spec))
    assert found is not None
    assert found.changed < 1e-10
    assert found.random > 1e-3
    assert f"{100 * found.moved:,.0f}%" in found.takeaway


@pytest.mark.parametrize("spec", ["softmax/d=4,4/a=1/t=3", "gpt2", "poly/3-5-2/degree=3"])
def test_where_there_is_no_such_curve_there_is_no_picture(spec: str) -> None:
    assert fiber_of(Workbench.of(spec)) is None
