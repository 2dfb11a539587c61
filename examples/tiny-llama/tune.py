"""Fine-tune the Llama of this directory, a little: some more steps of its own task.

    python examples/tiny-llama/tune.py OUT

Writes a model directory that is the same architecture with slightly other weights, and so another
function. Takes seconds and needs segre[models].
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from train import COUNT, DIGITS, inputs, right
from transformers import LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

STEPS, RATE = 20, 1e-4


def main(out: Path) -> None:
    """Take the steps, say how well it still sorts, and write the model directory."""
    disable_progress_bar()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = LlamaForCausalLM.from_pretrained(Path(__file__).parent)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)
    for _ in range(STEPS):
        tokens, ordered = inputs(torch.randint(DIGITS, (512, COUNT)))
        logits = model(tokens).logits[:, COUNT:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ordered.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{out}: {STEPS} steps on, {right(model):,} of {DIGITS**COUNT:,} inputs sorted")
    model.config.save_pretrained(out)
    save_file(model.state_dict(), out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
