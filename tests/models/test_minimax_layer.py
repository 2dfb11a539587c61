"""Lightning layers with features and a joint norm are those of MiniMax, but for their decay."""

import numpy as np
import torch
from bench.double import Double
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

from segre.fields.real import Real
from segre.network import forward
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors


def test_lightning_layers_are_those_of_the_library() -> None:
    config = MiniMaxConfig(
        hidden_size=6,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=2,
        num_hidden_layers=2,
        layer_types=["linear_attention"] * 2,
        block_size=1,  # within blocks, the library takes its mask from the sign of the decay
    )
    torch.manual_seed(0)
    with Double():
        layer = MiniMaxLightningAttention(config, 0).double()
        layer.slope_rate.zero_()  # a decay of 1
        found = layer.decay_factors(layer.slope_rate)
        layer.query_decay, layer.key_decay, layer.diagonal_decay = found
        x = torch.randn(2, 9, 6, dtype=torch.float64)
        with torch.no_grad():
            layer.norm.weight.copy_(torch.randn(6))
            theirs = layer(x, None, None)[0].numpy()
    spec = Transformer.parse(
        "transformer/d=6/heads=3/head=2/attn=lightning/feature=silu/mixnorm=true/gate=element"
        "/residual=false/causal=true/eps=1e-6/t=9"
    )
    state = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    qkv = state["qkv_proj.weight"].reshape(3, 1, 3, 2, 6)  # head by head: queries, keys, values
    w = {f"W_{name}": qkv[:, :, i] for i, name in enumerate("QKV")}
    w["W_G"] = state["output_gate.weight"]
    w["W_O"] = state["out_proj.weight"].reshape(6, 3, 2).transpose(1, 0, 2)
    w["normo.gain"] = state["norm.weight"]
    vector = np.concatenate([w[name].ravel() for _, name in tensors(spec)])
    ours = forward(Real(), spec, vector, x.numpy().swapaxes(1, 2)).swapaxes(1, 2)
    assert np.abs(ours - theirs).max() < 1e-12 * np.abs(theirs).max()
