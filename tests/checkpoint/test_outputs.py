"""What segre computes from a file is what the transformers library computes."""

from pathlib import Path

import numpy as np
import pytest

from checkpoint.models import furthest, library_outputs
from checkpoint.zoo import NAMES, save_tiny
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    directory = save_tiny(name, tmp_path / "model")
    with Model.open(directory) as model:
        tokens = random_tokens(model.spec, 3)
        ours = outputs(model, tokens)
    right = library_outputs(directory, tokens)
    assert furthest(right, ours) < 1e-12
    assert np.isfinite(right).all()
