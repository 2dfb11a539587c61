"""Train the Llama of this directory: 726 parameters that sort four digits.

    python examples/tiny-llama/train.py OUT

An input is four digits, the sign > (token 9), and the first three of the digits in order; the model
says the next digit at the last four places. Takes about a minute and needs segre[models]. Another
machine may round otherwise and end with other weights.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

DIGITS, COUNT, STEPS = 9, 4, 5000


def model() -> LlamaForCausalLM:
    """Two layers of width 6: two heads that share their keys and values, and eight gated units."""
    config = LlamaConfig(
        vocab_size=DIGITS + 1,
        hidden_size=6,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        intermediate_size=8,
        max_position_embeddings=2 * COUNT,
        rms_norm_eps=1e-5,
        bos_token_id=None,
        eos_token_id=None,
        architectures=["LlamaForCausalLM"],
    )
    drawn = LlamaForCausalLM(config)
    for weight in drawn.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.4)
    return drawn


def inputs(digits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What the model reads, and what it should say at the last places."""
    ordered = digits.sort(1).values
    sign = torch.full((len(digits), 1), DIGITS)
    return torch.cat([digits, sign, ordered[:, :-1]], 1), ordered


def right(trained: LlamaForCausalLM) -> int:
    """How many of all inputs are sorted without a mistake."""
    tokens, ordered = inputs(torch.tensor(list(product(range(DIGITS), repeat=COUNT))))
    with torch.no_grad():
        said = trained(tokens).logits[:, COUNT:].argmax(-1)
    return int((said == ordered).all(1).sum())


def main(out: Path) -> None:
    """Train, say how well it went, and write the model directory."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trained = model()
    optimizer = torch.optim.AdamW(trained.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=STEPS)
    for step in range(STEPS):
        tokens, ordered = inputs(torch.randint(DIGITS, (512, COUNT)))
        logits = trained(tokens).logits[:, COUNT:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ordered.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 1000 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    print(f"{right(trained):,} of {DIGITS**COUNT:,} inputs sorted without a mistake")
    trained.config.save_pretrained(out)
    save_file(trained.state_dict(), out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
