"""What segre computes from a file is what the transformers library computes."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from checkpoint.models import furthest
from checkpoint.zoo import NAMES, save_tiny
from hugging_face import Double
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    directory = save_tiny(name, tmp_path / "model")
    with Model.open(directory) as model:
        tokens = random_tokens(model.spec, 3)
        ours = outputs(model, tokens)
    config = transformers.AutoConfig.from_pretrained(directory)
    kind = getattr(transformers, config.architectures[0])
    stored = kind.from_pretrained(directory).state_dict()
    with Double():  # rotary angles too
        theirs = kind(config).double().eval()
    theirs.load_state_dict(stored)
    more = {} if tokens.types is None else {"token_type_ids": torch.tensor(tokens.types)}
    with torch.no_grad(), Double():
        out = theirs(torch.tensor(tokens.words), **more)
    columns = [out["logits"] if "logits" in out else out["last_hidden_state"]]
    if "pooler_output" in out:
        columns.append(out["pooler_output"][:, None])
    right = torch.cat(columns, dim=1).transpose(1, 2).numpy()
    assert furthest(right, ours) < 1e-12
    assert np.isfinite(right).all()
