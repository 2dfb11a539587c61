"""What the graphs compute, with the transformers library as the independent oracle."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from models.test_forward import distance, sequences, with_outputs
from models.test_images import IMAGES, images
from models.test_images import random_config as random_images
from segre.fields import Real
from segre.kernel.network import graph_of
from segre.models import from_config
from segre.network import forward
from segre.network import jacobian as segres_jacobian
from support.architectures import random_stacks
from support.draws import draws
from support.floats import jacobian, outputs
from support.hugging_face import library_output, weights_of
from support.mixed_stacks import random_mixed_stack
from support.polynomials import random_polynomials
from support.random_models import HEADS, library_model, random_config

CLOSE = 1e-10
CONFIGS = len(draws(8, 3))  # for each family


def compare(config: dict[str, Any], seed: int, t: int) -> None:
    """Outputs are the library's; derivatives are those of segre, which are compared with it."""
    model = library_model(config, seed)
    for spec in with_outputs(replace(from_config(config, "config"), t=t)):
        inputs, X = sequences(spec, np.random.default_rng(seed), 2)
        with torch.no_grad():
            theirs = library_output(model, spec, inputs).numpy()
        weights, graph = weights_of(model, spec), graph_of(spec)
        assert graph.parameters == spec.parameters
        assert distance(outputs(graph, weights, X), theirs) < CLOSE, config
        small = 0.3 * weights  # exponentials of scores are not scaled here, and may overflow
        J = segres_jacobian(Real(), spec, small, X)
        assert distance(jacobian(graph, small, X), J) < CLOSE, config


@pytest.mark.parametrize("model_type", HEADS)
def test_graphs_compute_what_the_library_does(model_type: str) -> None:
    rng = Random(f"{model_type} kernel")
    for seed in range(CONFIGS):
        head = HEADS[model_type][seed % len(HEADS[model_type])]
        config = random_config(model_type, rng, head)
        longest = from_config(config, "config").t
        compare(config, seed, rng.randint(2, longest))


@pytest.mark.parametrize("seed", draws(6, 2))
def test_experts_are_chosen_by_groups_as_the_library_does(seed: int) -> None:
    config = random_config("deepseek_v3", Random(seed), HEADS["deepseek_v3"][0])
    experts = {"n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2}
    compare({**config, **experts, "num_hidden_layers": 2, "first_k_dense_replace": 1}, seed, 3)


@pytest.mark.parametrize("model_type", IMAGES)
def test_graphs_of_patches(model_type: str) -> None:
    rng = Random(f"{model_type} kernel")
    for seed in range(CONFIGS):
        config = random_images(model_type, rng)
        model, spec = library_model(config, seed), from_config(config, "config")
        pixels, X = images(config, 2, seed)
        with torch.no_grad():
            theirs = library_output(model, spec, {"pixel_values": pixels}).numpy()
        weights = weights_of(model, spec)
        assert distance(outputs(graph_of(spec), weights, X), theirs) < CLOSE


def test_graphs_of_stacks_and_polynomial_networks() -> None:
    rng = np.random.default_rng(1)
    for spec in (
        *random_stacks(5, len(draws(20))),
        *(random_mixed_stack(i) for i in draws(40)),
        *random_polynomials(5, len(draws(20))),
    ):
        graph = graph_of(spec)
        weights = rng.uniform(0.2, 1, graph.parameters)
        X = 0.3 * rng.normal(size=(2, *graph.input_shape))
        with np.errstate(all="ignore"):  # sums of relu may be zero, for both
            ours = outputs(graph, weights, X)
            theirs = forward(Real(), spec, weights, X)
        assert np.allclose(ours, theirs, rtol=1e-9, atol=1e-12, equal_nan=True), str(spec)
