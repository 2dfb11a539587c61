"""The forward map of transformers, with the transformers library as the independent oracle."""

import json
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from segre.fields import Real
from segre.models import from_config
from segre.models.config import GATES, UNITS
from segre.network import forward, jacobian
from segre.transformer.choices import GATED, Layout
from segre.transformer.spec import Transformer
from support.draws import draws
from support.hugging_face import library_output, weight_vector, weights_of
from support.random_models import HEADS, library_model, random_config, settings, without_padding

CLOSE = 1e-10
CONFIGS = len(draws(16, 6))  # random ones, for each family
SEEN: dict[str, dict[str, Any]] = {  # sizes at which every choice makes a difference
    "phi3": {"head_dim": 8},
    "gpt_neox": {  # two planes of a head turn
        "hidden_size": 16,
        "rope_parameters": {
            "rope_theta": 100.0,
            "rope_type": "default",
            "partial_rotary_factor": 0.5,
        },
    },
    "olmo2": {"head_dim": 4},
    "minimax": {
        "head_dim": 4,
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "full_attention", "full_attention"],
        "sliding_window": None,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "gemma3_text": {"head_dim": 4, "final_logit_softcapping": 3.0, "attention_bias": True},
    "gemma2": {
        "head_dim": 4,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "deepseek_v3": {
        "num_key_value_heads": 2,
        "qk_rope_head_dim": 4,
        "first_k_dense_replace": 1,
        "num_hidden_layers": 2,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "n_group": 3,
        "topk_group": 2,
    },
    **{
        key: {"head_dim": 4}
        for key in ("llama", "mistral", "qwen2", "qwen3", "gemma", "smollm3", "granite")
    },
}


def sequences(spec: Transformer, rng: np.random.Generator, count: int) -> tuple[Any, np.ndarray]:
    """Random tokens (and types), as the library and as segre take them."""
    tokens = without_padding(spec, rng.integers(spec.vocab, size=(count, spec.t)))
    X = np.eye(spec.vocab)[tokens].transpose(0, 2, 1)
    inputs = {"input_ids": torch.tensor(tokens)}
    if spec.types:
        types = rng.integers(spec.types, size=(count, spec.t))
        inputs["token_type_ids"] = torch.tensor(types)
        X = np.concatenate([X, np.eye(spec.types)[types].transpose(0, 2, 1)], axis=1)
    return inputs, X


def distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest entry."""
    assert ours.shape == theirs.shape
    assert np.isfinite(ours).all()
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def with_outputs(spec: Transformer) -> list[Transformer]:
    """A network with a vocabulary at its end can be asked for logits too."""
    every = ("logits", "softmax") if spec.output == "softmax" else (spec.output,)
    return [spec.with_output(output) for output in every]


def compare(config: dict[str, Any], seed: int, t: int) -> float:
    """How far segre's function of a config is from the library's, at random weights."""
    model = library_model(config, seed)
    worst = 0.0
    for spec in with_outputs(replace(from_config(config, "config"), t=t)):
        inputs, X = sequences(spec, np.random.default_rng(seed), 3)
        with torch.no_grad():
            theirs = library_output(model, spec, inputs).numpy()
        worst = max(worst, distance(forward(Real(), spec, weights_of(model, spec), X), theirs))
    return worst


# --- the function -------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", HEADS)
def test_forward_is_what_the_library_computes(model_type: str) -> None:
    rng = Random(model_type)
    for seed in range(CONFIGS):
        head = HEADS[model_type][seed % len(HEADS[model_type])]
        config = random_config(model_type, rng, head)
        longest = from_config(config, "config").t
        rotary = "rope_parameters" in config  # such models take inputs beyond their context
        t = rng.randint(2, 2 * longest if rotary else longest)
        assert compare(config, seed, t) < CLOSE, config


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("model_type", ["gpt2", "gpt_neox", "bert", "albert"])
def test_activations_are_those_of_the_library(model_type: str, name: str) -> None:
    config = random_config(model_type, Random(1), HEADS[model_type][0])
    config["activation_function" if model_type == "gpt2" else "hidden_act"] = name
    assert compare(config, 1, 3) < CLOSE


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("model_type", ["llama", "deepseek_v3"])
def test_gates_are_those_of_the_library(model_type: str, name: str) -> None:
    config = random_config(model_type, Random(2), HEADS[model_type][0])
    assert compare({**config, "hidden_act": name}, 2, 3) < CLOSE


@pytest.mark.parametrize("model_type", HEADS)
def test_what_the_library_writes_is_read_as_the_same_spec(model_type: str) -> None:
    rng = Random(model_type)
    for _ in range(CONFIGS):
        config = random_config(model_type, rng)
        for brief in (False, True):
            written = json.loads(settings(config).to_json_string(use_diff=brief))
            assert from_config(written, "written") == from_config(config, "config")


# --- whether a mistake would be seen ------------------------------------------------------

UNGATED = ("gelu", "gelu-tanh", "gelu-quick", "silu", "relu", "relu2")


def other_choices(spec: Transformer) -> dict[str, Transformer]:
    """Networks with the same tensors and another function."""
    kinds = GATED if spec.gated else UNGATED
    out = {kind: replace(spec, mlp=kind) for kind in kinds if kind != spec.mlp}
    for key in ("causal", "embscale") if spec.parallel else ("causal", "residual", "embscale"):
        out[key] = replace(spec, **{key: not getattr(spec, key)})
    for key in ("eps", "cap", "logitcap"):
        if getattr(spec, key) > 1e-9:
            out[key] = replace(spec, **{key: getattr(spec, key) * 2})
    if spec.pos == "rope":
        out["base"] = replace(spec, base=2 * spec.base if isinstance(spec.base, int) else 3)
        layout: Layout = "half" if spec.layout == "interleaved" else "interleaved"
        out["layout"] = replace(spec, layout=layout)
        out["linear"] = replace(spec, rescale="linear:3")
        out["yarn"] = replace(spec, rescale="yarn:2:100:attention=1.2")
        planes = spec.rotary // 2
        for name, length in (("short", 4), ("long", 3)):  # of 4 tokens
            lists = {"short": ["1"] * planes, "long": ["1"] * planes} | {name: ["3"] * planes}
            said = ":".join(f"{key}={'+'.join(value)}" for key, value in lists.items())
            out[name] = replace(spec, rescale=f"longrope:1:{length}:{said}")
    out["scale"] = replace(spec, scale=Fraction(7))
    if spec.layers > 1:
        out["bylayer"] = replace(spec, bylayer=not spec.bylayer)
    if spec.causal:
        out["window"] = replace(spec, window=(3,) if spec.sees(1) == 2 else (2,))
    if spec.mixnorm:
        out["mixeps"] = replace(spec, mixeps=Fraction(1, 100))
        out["decay"] = replace(spec, decay="none")
        out["skip"] = replace(spec, skip=Fraction(1, 3))
    if spec.experts:
        out["active"] = replace(spec, active=spec.active + 1)
    return out


@pytest.mark.parametrize("model_type", HEADS)
def test_another_choice_would_be_seen(model_type: str) -> None:
    config = random_config(model_type, Random(3), HEADS[model_type][0])
    config |= {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 5}
    if config["num_hidden_layers"] == 1 and "layer_types" in config:
        config["layer_types"] = None
    if "longrope" in str(config.get("rope_parameters")):  # of another number of planes
        config["rope_parameters"] = {"rope_theta": 100.0, "rope_type": "default"}
    config |= SEEN.get(model_type, {})
    model = library_model(config, 3)
    spec = replace(from_config(config, "config"), t=4).with_output("logits")
    inputs, X = sequences(spec, np.random.default_rng(3), 3)
    weights = weights_of(model, spec)
    with torch.no_grad():
        theirs = library_output(model, spec, inputs).numpy()
    assert distance(forward(Real(), spec, weights, X), theirs) < CLOSE
    for name, other in other_choices(spec).items():
        assert distance(forward(Real(), other, weights, X), theirs) > 100 * CLOSE, name


# --- its derivatives ----------------------------------------------------------------------


@pytest.mark.parametrize("model_type", HEADS)
def test_the_jacobian_is_that_of_the_library(model_type: str) -> None:
    """All derivatives, of random combinations of outputs, by all of the library's parameters."""
    rng = Random(f"{model_type} jacobian")
    for seed, head in enumerate(HEADS[model_type]):
        config = random_config(model_type, rng, head)
        model = library_model(config, seed)
        parameters = dict(model.named_parameters())
        draw = np.random.default_rng(seed)
        for spec in with_outputs(replace(from_config(config, "config"), t=3)):
            inputs, X = sequences(spec, draw, 2)
            vector = weight_vector(model, spec)
            theirs = library_output(model, spec, inputs)
            J = jacobian(Real(), spec, vector.detach().numpy(), X)
            assert J.shape == (2, theirs[0].numel(), spec.parameters)
            for _ in range(2):
                c = draw.normal(size=tuple(theirs.shape))
                pulled = np.einsum("no,nop->p", c.reshape(2, -1), J)
                ours = gradient((vector * torch.tensor(pulled)).sum(), parameters)
                wanted = gradient((theirs * torch.tensor(c)).sum(), parameters)
                size = max(np.abs(value).max() for value in wanted.values())
                for name, value in wanted.items():
                    error = np.abs(ours[name] - value).max()
                    assert error < CLOSE * np.abs(value).max() + 1e-12 * size, (config, name)


def gradient(value: Tensor, parameters: dict[str, nn.Parameter]) -> dict[str, np.ndarray]:
    found = torch.autograd.grad(
        value, list(parameters.values()), retain_graph=True, materialize_grads=True
    )
    return {name: x.numpy() for name, x in zip(parameters, found, strict=True)}


def test_a_masked_key_with_a_huge_score_does_not_matter() -> None:
    """A later token that scores far above all visible ones: still masked, and no overflow."""
    from segre.fields import Real
    from segre.models import architecture
    from segre.network import forward

    spec = architecture("transformer/d=1/causal=true/residual=false/t=2")
    out = forward(Real(), spec, np.array([40.0, 40.0, 1.0, 1.0]), np.array([[1.0, 2.0]]))
    np.testing.assert_allclose(out, [[1.0, 2.0]])
