"""The transformers library's own loop over blocks, as an oracle."""

import numpy as np
import pytest
import torch
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

from segre.attention.mechanism import Mechanism
from segre.sequence import feed


class Open(torch.nn.Module):
    """A gate that lets everything through."""

    def forward(self, hidden):
        return torch.full((1,), torch.inf, dtype=hidden.dtype)


def apart(found, expected):
    return abs(found - expected).max() / abs(expected).max()


@pytest.mark.parametrize("block", [1, 16, 64, 256])
def test_the_librarys_lightning_loop(block):
    """MiniMax's layer of the transformers library without its projections, norm and gate."""
    heads, width, n = 4, 8, 203
    config = MiniMaxConfig(
        hidden_size=heads * width,
        num_attention_heads=heads,
        num_hidden_layers=3,
        head_dim=width,
        block_size=block,
        hidden_act="linear",
    )
    layer = MiniMaxLightningAttention(config, 1).double()
    for name, buffer in layer.named_buffers():  # the slopes were made in single precision
        assert name in {"slope_rate", "query_decay", "key_decay", "diagonal_decay"}
        assert buffer.dtype == torch.float64
    layer.slope_rate = layer.slope_rate.double()
    layer.query_decay, layer.key_decay, layer.diagonal_decay = layer.decay_factors(layer.slope_rate)
    x = np.random.default_rng(0).standard_normal((2, n, 3 * heads * width))
    layer.qkv_proj = layer.norm = layer.out_proj = torch.nn.Identity()
    layer.output_gate = Open()
    with torch.no_grad():
        right, state = layer(torch.tensor(x), (None, None), None)
    q, k, v = np.split(x.reshape(2, n, heads, 3 * width).swapaxes(1, 2), 3, axis=-1)
    decays = np.exp(-layer.slope_rate.numpy().reshape(-1))
    how = Mechanism(weigh="identity", normalise="none", causal=True, decay="learned")
    found, sums = feed(how, q, k, v, decay=decays)
    assert apart(found.swapaxes(1, 2).reshape(2, n, -1), right.numpy()) < 1e-12
    assert apart(sums.sums, state.numpy()) < 1e-12
