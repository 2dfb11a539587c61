"""Models of the transformers library, as peers: of a directory, or of a preset at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segre.checkpoint.gguf import quiet
from segre.models import PRESETS


def library_model(target: str) -> tuple[Any, Any]:
    """torch, and the model without a head, in float32 and in evaluation mode."""
    with quiet():
        import torch
        import transformers

        torch.set_num_threads(1)
        automatic: Any = transformers.AutoModel
        rest: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float32}
        if Path(target).is_dir():
            model = automatic.from_pretrained(target, **rest)
        else:
            given = dict(PRESETS[target])
            config = transformers.AutoConfig.for_model(given.pop("model_type"), **given)
            model = automatic.from_config(config, **rest)
    return torch, model.eval()
