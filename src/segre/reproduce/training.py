"""Small attention networks in torch, and their training, which can be killed and goes on.

A network is an embedding, a stack of attention layers with skips (and perhaps MLPs), and a readout
of each token. The stack is a `segre.collapse.stack.FloatNetwork`, which `PathNetwork.stack` gives
with the same weights. There are norms after the embedding and in the readout, none between layers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segre.collapse.stack import FloatNetwork, Heads, Mlp
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.files import whole_file
from segre.geometry.progress import Progress, quiet

FORMAT = "segre training run 1"
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of a network; without a vocabulary its inputs are points of the plane."""

    heads: int
    layers: int
    d: int
    outputs: int
    vocabulary: int = 0
    positions: int = 0  # learned ones, for as many places; 0 is none
    mlp: bool = False
    skip: bool = True
    lift: int = 2  # maps from points to the layers, with a GELU between two


@dataclass(frozen=True)
class Settings:
    """How a network is trained: with Adam (AdamW, if there is a decay) at a constant rate."""

    epochs: int
    lr: float
    batch: int = 30
    decay: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """What training did: the mean loss of every epoch, and the time of all its parts."""

    losses: tuple[float, ...]
    seconds: float
    resumed: int  # epochs that had been done before

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class Attention(nn.Module):
    """Heads as `segre.collapse.stack.Heads` has them."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        k = d // heads

        def weight(*shape: int) -> nn.Parameter:
            widest = (6 / (2 * d)) ** 0.5
            return nn.Parameter(torch.empty(shape).uniform_(-widest, widest))

        self.W_Q, self.W_K, self.W_V = (weight(heads, d, k) for _ in range(3))
        self.W_O = weight(heads, k, d)
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(heads, k)) for _ in range(3))
        self.b_O = nn.Parameter(torch.zeros(d))

    def forward(self, X: Tensor) -> Tensor:
        """What all heads write; all of them at once."""
        Q = self._read(X, self.W_Q, self.b_Q)
        K = self._read(X, self.W_K, self.b_K)
        V = self._read(X, self.W_V, self.b_V)
        mixed = nn.functional.scaled_dot_product_attention(Q, K, V)
        return mixed.transpose(-3, -2).flatten(-2) @ self.W_O.flatten(0, 1) + self.b_O

    @staticmethod
    def _read(X: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """X W + b for each head: (..., H, n, k)."""
        every = X @ W.transpose(0, 1).flatten(1) + b.flatten()
        return every.reshape(*every.shape[:-1], *b.shape).transpose(-3, -2)

    def heads(self) -> Heads:
        """The same in NumPy."""
        given = {name: _array(weight) for name, weight in self.named_parameters()}
        return Heads(**given)  # type: ignore[arg-type]


class AttentionLayer(nn.Module):
    """Attention, then perhaps an MLP of the same width, each with a skip or not."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = Attention(shape.d, shape.heads)
        self.first = nn.Linear(shape.d, shape.d) if shape.mlp else None
        self.last = nn.Linear(shape.d, shape.d) if shape.mlp else None
        self.skip = shape.skip

    def forward(self, X: Tensor) -> Tensor:
        """The layer."""
        written: Tensor = self.attention(X)
        X = X + written if self.skip else written
        if self.first is None or self.last is None:
            return X
        written = self.last(nn.functional.gelu(self.first(X)))
        return X + written if self.skip else written

    def pair(self) -> tuple[Heads, Mlp | None]:
        """The same in NumPy."""
        heads = self.attention.heads()
        if self.first is None or self.last is None:
            return heads, None
        W_1, W_2 = _array(self.first.weight).T, _array(self.last.weight).T
        return heads, Mlp(W_1, W_2, _array(self.first.bias), _array(self.last.bias), "gelu")


class PathNetwork(nn.Module):
    """Embedding, layers, readout."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        if shape.d % shape.heads:
            raise SegreError(f"heads: {shape.heads} does not divide d={shape.d}")
        self.shape = shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            d = shape.d
            lift = (nn.Linear(2, d), nn.GELU(), nn.Linear(d, d))[: 2 * shape.lift - 1]
            self.words = nn.Embedding(shape.vocabulary, d) if shape.vocabulary else None
            self.lift = None if shape.vocabulary else nn.Sequential(*lift)
            places = torch.randn(shape.positions, d)
            self.places = nn.Parameter(places) if shape.positions else None
            self.norm = nn.LayerNorm(d)
            self.layers = nn.Sequential(*(AttentionLayer(shape) for _ in range(shape.layers)))
            self.readout = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, shape.outputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """What goes into the layers."""
        if self.words is not None:
            X = self.words(inputs)
        else:
            assert self.lift is not None
            X = self.lift(inputs)
        found: Tensor = self.norm(X if self.places is None else X + self.places)
        return found

    def forward(self, inputs: Tensor) -> Tensor:
        """A readout of each token."""
        found: Tensor = self.readout(self.layers(self.embed(inputs)))
        return found

    def stack(self) -> FloatNetwork:
        """The layers in NumPy, with the same weights."""
        pairs = [layer.pair() for layer in self.layers if isinstance(layer, AttentionLayer)]
        return FloatNetwork(tuple(pairs), skip=self.shape.skip)

    def parameter_count(self) -> int:
        """How many weights there are."""
        return sum(weight.numel() for weight in self.parameters())


def embedded(model: PathNetwork, inputs: Array) -> Array:
    """What goes into the layers, in NumPy; the model is in double precision afterwards."""
    with torch.inference_mode():
        given = tensor(inputs)
        found = model.double().embed(given.double() if given.is_floating_point() else given)
        return np.asarray(found.numpy())


def readout(model: PathNetwork, tokens: Array) -> Array:
    """The readout of tokens that NumPy computed; the model is in double precision afterwards."""
    with torch.inference_mode():
        return np.asarray(model.double().readout(torch.from_numpy(tokens)).numpy())


def train(
    model: PathNetwork,
    inputs: Array,
    targets: Array,
    settings: Settings,
    *,
    loss: Loss,
    data: str = "",
    file: Path | None = None,
    fresh: bool = False,
    progress: Progress = quiet,
) -> Trained:
    """Train, writing the state to `file` after every epoch; a file that is there is gone on with.

    An interrupted run that is gone on with ends in the same weights, to the last bit, as one that
    was not. `data` names the data: a file of another run is refused.
    """
    x, y = tensor(inputs), tensor(targets)
    kind = torch.optim.AdamW if settings.decay else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=settings.lr, weight_decay=settings.decay)
    meant = {**asdict(model.shape), **asdict(settings), "data": data}
    meant.pop("epochs")
    losses: list[float] = []
    seconds = 0.0
    if file is not None and file.exists() and not fresh:
        losses, seconds = _read(file, meant, settings.epochs, model, optimizer)
    done = len(losses)
    with one_thread():
        for epoch in range(done, settings.epochs):
            progress(
                f"training, loss {losses[-1]:.3f}" if losses else "training", epoch, settings.epochs
            )
            began = perf_counter()
            losses.append(_epoch(model, optimizer, x, y, settings, epoch, loss))
            seconds += perf_counter() - began
            if file is not None:
                _write(file, meant, losses, seconds, model, optimizer)
    return Trained(tuple(losses), seconds, done)


def _epoch(
    model: PathNetwork,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    settings: Settings,
    epoch: int,
    loss: Loss,
) -> float:
    """All batches, in an order of this epoch's own; the mean loss."""
    order = torch.from_numpy(np.random.default_rng([settings.seed, epoch]).permutation(len(x)))
    total = 0.0
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


def tensor(values: Array) -> Tensor:
    """Whole numbers as they are, others in single precision."""
    found = torch.from_numpy(np.ascontiguousarray(values))
    return found.float() if found.is_floating_point() else found.long()


@contextmanager
def one_thread() -> Iterator[None]:
    """Such networks train faster on one thread, and the same way each time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- the file of a run -----------------------------------------------------------------------


def _write(
    file: Path,
    meant: dict[str, Any],
    losses: list[float],
    seconds: float,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    state = {
        "format": FORMAT,
        "run": json.dumps(meant, sort_keys=True),
        "losses": losses,
        "seconds": seconds,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    with whole_file(file) as temporary:
        torch.save(state, temporary)


def _read(
    file: Path,
    meant: dict[str, Any],
    epochs: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> tuple[list[float], float]:
    """Take up a run: its weights and the optimizer's state; losses and seconds so far."""
    again = "give --fresh to start over, or another --output"
    try:
        state = torch.load(file, weights_only=True)
        if state["format"] != FORMAT:
            raise SegreError("not this format")
        run, losses, seconds = json.loads(state["run"]), list(state["losses"]), state["seconds"]
    except Exception:  # whatever torch raises on files that are not its own
        raise SegreError(f"run {str(file)!r}: cannot be read; {again}") from None
    other = sorted(key for key in meant.keys() | run.keys() if meant.get(key) != run.get(key))
    if other:
        named = ", ".join(f"{key} = {run.get(key)}" for key in other)
        raise SegreError(f"run {str(file)!r}: of another run ({named}); {again}")
    if len(losses) > epochs:
        raise SegreError(f"run {str(file)!r}: has {len(losses)} epochs, not {epochs}; {again}")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return losses, float(seconds)


def _array(weight: Tensor) -> Array:
    return np.asarray(weight.detach().double().numpy())
