"""Streams of all depths, fused: what is measured is what NumPy says of them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from segre.checkpoint.inputs import random_tokens
from segre.cli.app import app
from segre.collapse.commands import measure
from segre.collapse.curves import curves
from segre.collapse.residual import relative_residual
from segre.collapse.variants import FULL
from segre.errors import SegreError
from segre.transformer.forward import Tokens, run
from support.small_models import at_depths, small


@pytest.mark.parametrize("how", ["max", "mean", "concat"])
def test_fused_streams(how: str) -> None:
    loaded = small("llama")
    inputs = random_tokens(loaded, 3, 9)
    found = curves(loaded, inputs, [FULL], fuse=how)[FULL].fused
    every: list[np.ndarray] = []
    run(
        loaded,
        [Tokens(batch) for batch in inputs.batches],
        hook=at_depths(lambda *seen: every.append(seen[-1][:, 0, 0].swapaxes(1, 2))),
    )
    fused = {
        "max": lambda: np.max(every, axis=0),
        "mean": lambda: np.mean(every, axis=0),
        "concat": lambda: np.concatenate(every, axis=-1),
    }[how]()
    assert found == pytest.approx(relative_residual(fused), rel=1e-4)


def test_fusion_slows_collapse_and_is_refused_where_it_has_no_meaning() -> None:
    spec = "bert/d=16/layers=6/heads=2/ff=16/vocab=50/t=16"
    done = CliRunner().invoke(
        app, ["model", "collapse", spec, "--variants", "attention", "--fuse", "max"]
    )
    assert "max: the streams of all layers, fused" in done.stdout
    done = CliRunner().invoke(
        app, ["model", "collapse", spec, "--variants", "attention", "--fuse", "max", "--json"]
    )
    (curve,) = json.loads(done.stdout)["curves"]
    assert np.mean(curve["fused"]) > 10 * 10 ** curve["log10"][-1]
    with pytest.raises(SegreError, match="allowed: max, mean, concat"):
        measure(spec, fuse="gate")
    with pytest.raises(SegreError, match="models with tokens as inputs"):
        measure("softmax/d=4,4/a=2/t=3", fuse="max")
