"""What segre computes from a file is what the transformers library computes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens
from support.checkpoints import furthest, library_outputs
from support.random_models import without_padding
from support.zoo import NAMES, save_tiny


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    directory = save_tiny(name, tmp_path / "model")
    with Model.open(directory) as model:
        tokens = random_tokens(model.spec, 3)
        tokens = replace(tokens, words=without_padding(model.spec, tokens.words))
        ours = outputs(model, tokens)
    right = library_outputs(directory, tokens)
    assert furthest(right, ours) < 1e-12
    assert np.isfinite(right).all()
