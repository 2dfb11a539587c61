"""Modules of torch.nn: their functions, their symmetries, and their weights written back."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import segre
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs, random_tokens
from segre.checkpoints import align, apply, canonical, expand, info, move, same, shrink
from segre.errors import SpecError
from segre.models import architecture

SHAPES = [(8, 2, 12), (6, 3, 5), (8, 4, 7)]


def drawn(module: nn.Module, seed: int) -> Any:
    """Random weights of every kind, gains and biases too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
    return module.double().eval()


def modules() -> Iterator[Any]:
    for seed, (d, heads, ff) in enumerate(SHAPES):
        for bias in (True, False):
            yield nn.MultiheadAttention(d, heads, bias=bias, batch_first=True), seed
            for first in (True, False):
                for activation in ("relu", "gelu"):
                    layer = nn.TransformerEncoderLayer(
                        *(d, heads, ff),
                        activation=activation,
                        norm_first=first,
                        bias=bias,
                        batch_first=True,
                    )
                    yield layer, seed
                norms = (nn.LayerNorm(d, bias=bias), None) if first else (None,)
                for norm in norms:
                    stack = nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=False)
                    yield stack, seed


EVERY = [pytest.param(m, s, id=f"{type(m).__name__}-{i}") for i, (m, s) in enumerate(modules())]
each_module = pytest.mark.parametrize(("module", "seed"), EVERY)


def torch_outputs(module: Any, words: np.ndarray) -> np.ndarray:
    X = torch.tensor(words.swapaxes(1, 2))
    with torch.no_grad():
        out = module(X, X, X)[0] if isinstance(module, nn.MultiheadAttention) else module(X)
    return np.asarray(out.numpy().swapaxes(1, 2))


@each_module
def test_the_function_is_that_of_torch(module: Any, seed: int) -> None:
    module = drawn(module, seed)
    with Model.open(module) as model:
        tokens = random_tokens(model.spec, seed)
        ours = outputs(model, tokens)
    assert np.abs(ours - torch_outputs(module, tokens.words)).max() < 1e-10
    assert architecture(module).parameters == sum(p.numel() for p in module.parameters())


@each_module
def test_moved_copies_are_the_same_and_others_are_not(module: Any, seed: int) -> None:
    module = drawn(module, seed)
    other = copy.deepcopy(module)
    moved = move(module, seed=seed)
    assert moved.agrees
    apply(other, moved)
    assert same(module, other).verdict == "same function"
    words = random_tokens(architecture(module), 1).words
    one, two = (torch_outputs(each, words) for each in (module, other))
    assert np.abs(one - two).max() < 1e-9 * np.abs(one).max()
    assert same(canonical(module), canonical(other)).verdict in ("identical", "same function")
    assert align(module, other).blocks[-1].distances()[1] < 1e-9
    with torch.no_grad():
        next(p for p in other.parameters() if p.ndim == 2)[0, 0] += 0.01
    assert same(module, other).verdict == "different"
    assert info(module).parameters == architecture(module).parameters


@each_module
def test_nothing_else_is_free(module: Any, seed: int, tmp_path: Path) -> None:
    """What is dropped is all that formulas count; scales of units are kept in their numbers."""
    module = drawn(module, seed)
    spec = architecture(module)
    done = shrink(module, tmp_path / "small")
    scales = spec.layers * spec.ff if spec.mlp == "relu" else 0
    assert done.dropped == done.redundant - scales
    expand(tmp_path / "small", tmp_path / "again")
    assert same(module, tmp_path / "again").verdict == "same function"


@pytest.mark.parametrize(
    ("module", "dimension"),
    [
        (nn.MultiheadAttention(4, 2), 56),
        (nn.MultiheadAttention(4, 2, bias=False), 48),
        (nn.TransformerEncoderLayer(4, 2, 3, activation="gelu"), 87),
        (nn.TransformerEncoderLayer(4, 2, 3, activation="gelu", norm_first=True), 71),
    ],
)
def test_small_ones_are_proved(module: Any, dimension: int) -> None:
    found = segre.dimension(module)
    assert (found.status, found.value) == ("proved", dimension)
    counted = segre.dimension(module, "count")
    assert counted.upper == dimension


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda: nn.MultiheadAttention(8, 2, kdim=4, vdim=6), "kdim, vdim"),
        (lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True), "add_bias_kv"),
        (lambda: nn.MultiheadAttention(8, 2, add_zero_attn=True), "add_zero_attn"),
        (lambda: nn.TransformerEncoderLayer(8, 2, 4, activation=nn.Tanh()), "tanh"),
        (
            lambda: nn.TransformerEncoder(
                nn.TransformerEncoderLayer(8, 2, 4), 1, nn.LayerNorm(8), enable_nested_tensor=False
            ),
            "last norm",
        ),
    ],
)
def test_what_a_spec_cannot_say_is_refused(module: Any, said: str) -> None:
    for ask in (architecture, info, segre.dimension):
        with pytest.raises(SpecError, match=said) as caught:
            ask(module())
        assert len(str(caught.value).splitlines()) == 1
