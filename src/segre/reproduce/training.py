"""Training that can be killed, and goes on to the same bits.

An epoch has its own order of the data and its own dropout, both from the seed and its number; so
that weights and the optimizer's moments after an epoch are all that the next one depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.reproduce.networks import tensor
from segre.reproduce.state import Kept

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Settings:
    """How a network is trained: with Adam (AdamW, if there is a decay) at a constant rate."""

    epochs: int
    lr: float
    batch: int = 30
    decay: float = 0.0
    seed: int = 0


def train(
    model: nn.Module,
    inputs: Array,
    targets: Array,
    settings: Settings,
    *,
    loss: Loss,
    kept: Kept | None = None,
    progress: Progress = quiet,
) -> list[float]:
    """Train, keeping the state after every epoch; the mean loss of each epoch.

    What was kept is gone on with, and ends in the same weights, to the last bit, as a run that was
    not interrupted. The model is for evaluation afterwards: without dropout.
    """
    kept = Kept() if kept is None else kept
    x, y = tensor(inputs), tensor(targets)
    kind = torch.optim.AdamW if settings.decay else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=settings.lr, weight_decay=settings.decay)
    losses: list[float] = []
    if kept.state is not None:
        losses = list(kept.state["losses"])
        _restore(kept.state, model, optimizer)
    model.train()
    with one_thread():
        for epoch in range(len(losses), settings.epochs):
            stage = f"training, loss {losses[-1]:.3f}" if losses else "training"
            progress(stage, epoch, settings.epochs)
            losses.append(_epoch(model, optimizer, x, y, settings, epoch, loss))
            kept.keep({"losses": losses, **_state(model, optimizer)})
    model.eval()
    return losses


def _epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    settings: Settings,
    epoch: int,
    loss: Loss,
) -> float:
    """One pass over all batches, in this epoch's own order; the mean loss."""
    rng = np.random.default_rng([settings.seed, epoch])
    order = torch.from_numpy(rng.permutation(len(x)))
    total = 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))  # of dropout
        for some in torch.split(order, settings.batch):
            optimizer.zero_grad(set_to_none=True)
            value = loss(model(x[some]), y[some])
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(value.detach()) * len(some)
    return total / len(x)


def token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, token by token."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: small networks train faster, and reproducibly."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- the state of training ---------------------------------------------------------------------


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights, and what the optimizer remembers of each, as arrays."""
    memory = optimizer.state_dict()["state"]
    return {
        "weights": {name: weight.numpy() for name, weight in model.state_dict().items()},
        "memory": {
            str(place): {name: np.asarray(value) for name, value in of_one.items()}
            for place, of_one in memory.items()
        },
    }


def _restore(state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    weights = {name: torch.from_numpy(array) for name, array in state["weights"].items()}
    model.load_state_dict(weights)
    memory = {
        int(place): {name: torch.from_numpy(array) for name, array in of_one.items()}
        for place, of_one in state["memory"].items()
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": memory})
