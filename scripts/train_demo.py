"""Train the models of `segre model demo`, and write what the package ships of them.

    python scripts/train_demo.py

The base model is a small Llama that has learned the language of bench/small_language.py. The
fine-tune has learned a dialect of it through an update of rank 2 in one layer (LoRA). The package
holds the base model and the two factors of each update. Needs PyTorch and transformers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch.nn.utils import parametrize

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.small_language import Language, new_model, saved, trained  # noqa: E402

FOLDER = ROOT / "src" / "segre" / "checkpoint" / "demo"
WORDS, WIDTH, STEPS, TUNING, RANK = 96, 24, 3000, 600, 2  # with 96 words, theorem C applies
TUNED = ("self_attn.o_proj", "mlp.down_proj")  # of the last layer
DIALECT, SHARE = 3, 0.1  # how much of what follows what is different


class LowRank(torch.nn.Module):
    """W -> W + up down: an update of low rank."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.up = torch.nn.Parameter(torch.zeros(rows, RANK))
        self.down = torch.nn.Parameter(torch.randn(RANK, columns) / columns**0.5)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The updated matrix."""
        return weight + self.up @ self.down


def loss(model: Any, language: Language) -> float:
    """Nats per token on sentences that were not trained on."""
    batch = torch.from_numpy(language.sentences(512, np.random.default_rng(99)))
    with torch.inference_mode():
        return float(model(input_ids=batch, labels=batch).loss)


def main() -> None:
    """Train both and write them."""
    language, dialect = Language(words=WORDS), Language(DIALECT, SHARE, WORDS)
    base = trained(new_model("llama untied", 0, WIDTH, WORDS), 0, STEPS, language=language)
    print(
        f"base       {loss(base, language):.3f} nats on its language, "
        f"{loss(base, dialect):.3f} on the dialect"
    )
    folder = saved(base, FOLDER / "saved")
    weights = {name: value.numpy() for name, value in base.state_dict().items()}
    torch.manual_seed(1)
    base.requires_grad_(False)
    layer = base.model.layers[-1]
    for name in TUNED:
        module = layer.get_submodule(name)
        parametrize.register_parametrization(module, "weight", LowRank(module.weight))
    tuned = trained(base, 1, TUNING, 3e-3, dialect)
    print(
        f"fine-tune  {loss(tuned, language):.3f} nats on its language, "
        f"{loss(tuned, dialect):.3f} on the dialect"
    )
    update = {}
    for name in TUNED:
        found = tuned.model.layers[-1].get_submodule(name).parametrizations.weight[0]
        key = f"model.layers.{len(base.model.layers) - 1}.{name}.weight"
        update[f"{key}.up"] = found.up.detach().numpy().copy()
        update[f"{key}.down"] = found.down.detach().numpy().copy()
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    (FOLDER / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").replace(FOLDER / "tokenizer.json")
    save_file(weights, FOLDER / "base.safetensors", metadata={"format": "pt"})
    save_file(update, FOLDER / "update.safetensors")
    dialect.write(FOLDER / "dialect.txt", 16, 5)
    for file in FOLDER.glob("*.safetensors"):
        file.chmod(0o644)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


if __name__ == "__main__":
    main()
