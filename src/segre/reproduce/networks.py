"""Small attention networks in torch: how are they trained, and what did a pass do?

A network is an embedding, a stack of attention layers with skips (and perhaps MLPs), and a readout
of each token. As published there is dropout, and a norm after every layer; then the readout has
none. Without these norms the readout has one, and the layers are a `FloatNetwork`.

Training can be killed, and goes on to the same bits. An epoch has its own order of the data and its
own dropout, both from the seed and its number; so that weights and the optimizer's moments after an
epoch are all that the next one depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from segre.collapse.passes import Affine, Pass, RecordedLayer, TokenMap
from segre.collapse.stack import FloatNetwork, Heads, Mlp
from segre.errors import SegreError
from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.reproduce.path_tasks import Settings, Shape
from segre.reproduce.state import Kept


class Attention(nn.Module):
    """Heads as `segre.collapse.stack.Heads` has them."""

    def __init__(self, d: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        k = d // heads
        self.dropout = dropout

        def weight(*shape: int) -> nn.Parameter:
            widest = (6 / (2 * d)) ** 0.5
            return nn.Parameter(torch.empty(shape).uniform_(-widest, widest))

        self.W_Q, self.W_K, self.W_V = (weight(heads, d, k) for _ in range(3))
        self.W_O = weight(heads, k, d)
        self.b_Q, self.b_K, self.b_V = (nn.Parameter(torch.zeros(heads, k)) for _ in range(3))
        self.b_O = nn.Parameter(torch.zeros(d))

    def forward(self, X: Tensor) -> Tensor:
        """The sum of all heads' outputs."""
        Q = self._read(X, self.W_Q, self.b_Q)
        K = self._read(X, self.W_K, self.b_K)
        V = self._read(X, self.W_V, self.b_V)
        dropped = self.dropout if self.training else 0.0
        mixed = nn.functional.scaled_dot_product_attention(Q, K, V, dropout_p=dropped)
        return mixed.transpose(-3, -2).flatten(-2) @ self.W_O.flatten(0, 1) + self.b_O

    @staticmethod
    def _read(X: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """X W + b for each head: (..., H, n, k)."""
        every = X @ W.transpose(0, 1).flatten(1) + b.flatten()
        return every.reshape(*every.shape[:-1], *b.shape).transpose(-3, -2)


class AttentionLayer(nn.Module):
    """Attention, then perhaps an MLP of the same width, each with a skip or not, then a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = Attention(shape.d, shape.heads, shape.dropout)
        self.first = nn.Linear(shape.d, shape.d) if shape.mlp else None
        self.last = nn.Linear(shape.d, shape.d) if shape.mlp else None
        self.skip = shape.skip
        self.drop = nn.Dropout(shape.dropout)
        self.norm = nn.LayerNorm(shape.d) if shape.norms else None

    def forward(self, X: Tensor) -> Tensor:
        """The layer."""
        written: Tensor = self.drop(self.attention(X))
        X = X + written if self.skip else written
        if self.first is not None and self.last is not None:
            written = self.drop(self.last(nn.functional.gelu(self.first(X))))
            X = X + written if self.skip else written
        found: Tensor = X if self.norm is None else self.norm(X)
        return found

    def pair(self) -> tuple[Heads, Mlp | None]:
        """The same in NumPy."""
        named = self.attention.named_parameters()
        weights: dict[str, Any] = {name: _array(weight) for name, weight in named}
        if self.first is None or self.last is None:
            return Heads(**weights), None
        W_1, W_2 = _array(self.first.weight).T, _array(self.last.weight).T
        return Heads(**weights), Mlp(W_1, W_2, _array(self.first.bias), _array(self.last.bias))


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
            self.drop = nn.Dropout(shape.dropout)
            self.layers = nn.Sequential(*(AttentionLayer(shape) for _ in range(shape.layers)))
            last = nn.Identity() if shape.norms else nn.LayerNorm(d)
            self.readout = nn.Sequential(last, nn.Linear(d, shape.outputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """The input of the first layer."""
        if self.words is not None:
            X = self.words(inputs)
        else:
            assert self.lift is not None
            X = self.lift(inputs)
        found: Tensor = self.norm(X if self.places is None else X + self.places)
        return found

    def forward(self, inputs: Tensor) -> Tensor:
        """A readout of each token."""
        found: Tensor = self.readout(self.drop(self.layers(self.drop(self.embed(inputs)))))
        return found

    def stack(self) -> FloatNetwork:
        """The layers in NumPy, with the same weights, and without norms between them."""
        pairs = [layer.pair() for layer in self.layers if isinstance(layer, AttentionLayer)]
        return FloatNetwork(tuple(pairs), skip=self.shape.skip)

    def recorded(self, X: Array) -> Pass:
        """A recorded pass of embedded tokens, in NumPy; norms are recorded as affine maps."""
        tokens, done = X, list[RecordedLayer]()
        for layer, pair in zip(self.layers, self.stack().layers, strict=True):
            alone = FloatNetwork((pair,), skip=self.shape.skip).forward(tokens)
            (recorded,), tokens = alone.layers, alone.output
            if isinstance(layer, AttentionLayer) and layer.norm is not None:
                norm = _norm(layer.norm, tokens)
                recorded = replace(recorded, after=(*recorded.after, norm))
                tokens = norm.apply(tokens)
            done.append(recorded)
        return Pass(X, tuple(done), tokens)

    def parameter_count(self) -> int:
        """How many weights there are."""
        return sum(weight.numel() for weight in self.parameters())


def embedded(model: PathNetwork, inputs: Array) -> Array:
    """The input of the first layer, in NumPy; converts the model to double precision."""
    with torch.inference_mode():
        given = tensor(inputs)
        found = model.double().embed(given.double() if given.is_floating_point() else given)
        return np.asarray(found.numpy())


def readout(model: PathNetwork, tokens: Array) -> Array:
    """The readout of given tokens; converts the model to double precision."""
    with torch.inference_mode():
        return np.asarray(model.double().readout(torch.from_numpy(tokens)).numpy())


def tensor(values: Array) -> Tensor:
    """Whole numbers as they are, others in single precision."""
    found = torch.from_numpy(np.ascontiguousarray(values))
    return found.float() if found.is_floating_point() else found.long()


def plain_norm(X: Array, eps: float = 1e-12) -> Array:
    """Each token centred and divided by its deviation, without gain and bias."""
    centred = X - X.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps))


def _norm(norm: nn.LayerNorm, X: Array) -> TokenMap:
    """A LayerNorm as an affine map, with the deviations of tokens X fixed."""
    d = X.shape[-1]
    deviation = np.sqrt(X.var(axis=-1, keepdims=True) + norm.eps)
    centring = Affine(np.eye(d) - 1 / d, s=_array(norm.weight) / deviation)
    return TokenMap((centring, Affine(a=_array(norm.bias))))


def _array(weight: Tensor) -> Array:
    return np.asarray(weight.detach().double().numpy())


Loss = Callable[[Tensor, Tensor], Tensor]


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
            losses.append(total / len(x))
            kept.keep({"losses": losses, **_state(model, optimizer)})
    model.eval()
    return losses


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
    memory = {str(place): of_one for place, of_one in optimizer.state_dict()["state"].items()}
    return {"weights": _each(np.asarray, model.state_dict()), "memory": _each(np.asarray, memory)}


def _restore(state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.load_state_dict(_each(torch.from_numpy, state["weights"]))
    memory = {int(place): of_one for place, of_one in state["memory"].items()}
    tensors = {**optimizer.state_dict(), "state": _each(torch.from_numpy, memory)}
    optimizer.load_state_dict(tensors)


def _each(change: Callable[[Any], Any], table: Mapping[Any, Any]) -> dict[Any, Any]:
    """A table of tables, everything in it changed."""
    return {
        name: _each(change, item) if isinstance(item, Mapping) else change(item)
        for name, item in table.items()
    }
