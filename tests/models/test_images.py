"""Models of patches: configs, counts, the forward map and files, against the library."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from segre.certificate import certify, checksum
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import outputs
from segre.collapse import decompose, measure
from segre.errors import SpecError
from segre.fields import Real
from segre.kernel import verify
from segre.models import architecture, from_config
from segre.models.config import UNITS
from segre.models.registry import MODEL_TYPES
from segre.network import forward, jacobian
from segre.transformer.forward import Tokens
from segre.transformer.spec import Transformer
from support.checkpoints import furthest, rewritten, stored
from support.hugging_face import library_output, weight_vector, weights_of
from support.random_models import HEADS, library_model, settings

CLOSE = 1e-10
IMAGES = [name for name in MODEL_TYPES if name not in HEADS]


def classes(model_type: str) -> list[str]:
    family = MODEL_TYPES[model_type]
    return [family.base_class, *(found.name for found in family.label_classes)]


def random_config(model_type: str, rng: Random, name: str | None = None) -> dict[str, Any]:
    """A small config of a model of patches."""
    heads, dim = rng.choice([1, 2, 3]), rng.choice([2, 4])
    square = model_type == "dinov2"  # of others the library interpolates positions
    patch = rng.choice([2, 3] if square else [2, 3, [2, 1]])
    own: dict[str, Any] = {"intermediate_size": rng.randint(1, 9)}
    if model_type == "dinov2":
        own = {"mlp_ratio": rng.choice([1, 2]), "use_mask_token": rng.random() < 0.7}
        own["use_swiglu_ffn"] = rng.random() < 0.5
    return {
        **own,
        "model_type": model_type,
        "architectures": [name or rng.choice(classes(model_type))],
        "hidden_size": heads * dim,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.choice([1, 2, 3]),
        "hidden_act": rng.choice(list(UNITS)),
        "layer_norm_eps": rng.choice([1e-6, 0.1]),
        "image_size": 6 if square or patch == 3 else rng.choice([6, [6, 4]]),
        "patch_size": patch,
        "num_channels": rng.choice([1, 2]),
        "num_labels": rng.choice([1, 2, 5]),
    }


def images(config: dict[str, Any], count: int, seed: int) -> tuple[torch.Tensor, np.ndarray]:
    """Random images, and their patches as segre takes them; the first of all is not read."""
    known = settings(config)
    size, patch = (
        tuple(x) if isinstance(x, list | tuple) else (x, x)
        for x in (known.image_size, known.patch_size)
    )
    generator = torch.Generator().manual_seed(seed)
    shape = (count, known.num_channels, *size)
    pixels = torch.randn(shape, generator=generator, dtype=torch.float64)
    columns = torch.nn.functional.unfold(pixels, patch, stride=patch).numpy()
    return pixels, np.concatenate([np.full((*columns.shape[:2], 1), 7.0), columns], axis=2)


def apart(config: dict[str, Any], seed: int) -> float:
    model = library_model(config, seed)
    spec = from_config(config, "config")
    pixels, X = images(config, 3, seed)
    with torch.no_grad():
        theirs = library_output(model, spec, {"pixel_values": pixels}).numpy()
    return furthest(theirs, forward(Real(), spec, weights_of(model, spec), X))


def library_count(config: dict[str, Any]) -> int:
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])(settings(config))
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("model_type", IMAGES)
def test_counts_are_those_of_the_library(model_type: str) -> None:
    rng = Random(model_type)
    for name in classes(model_type):
        config = {"model_type": model_type, "architectures": [name]}
        assert from_config(config, "x").parameters == library_count(config)
    for _ in range(20):
        config = random_config(model_type, rng)
        net = from_config(config, "x")
        assert net.parameters == library_count(config), config
        assert architecture(str(net)) == net
        for brief in (False, True):
            written = json.loads(settings(config).to_json_string(use_diff=brief))
            written |= {"model_type": model_type, "architectures": config["architectures"]}
            assert from_config(written, "written") == net


def test_known_counts() -> None:
    assert architecture("vit-base-patch16-224").parameters == 86_567_656
    assert architecture("dinov2-base").parameters == 86_580_480


@pytest.mark.parametrize("model_type", IMAGES)
def test_forward_is_what_the_library_computes(model_type: str) -> None:
    rng = Random(model_type)
    for seed in range(12):
        config = random_config(model_type, rng)
        assert apart(config, seed) < CLOSE, config


@pytest.mark.parametrize("model_type", IMAGES)
def test_the_jacobian_is_that_of_the_library(model_type: str) -> None:
    rng = Random(f"{model_type} jacobian")
    for seed, name in enumerate(classes(model_type)):
        config = random_config(model_type, rng, name)
        model, spec = library_model(config, seed), from_config(config, "config")
        pixels, X = images(config, 2, seed)
        vector = weight_vector(model, spec)
        theirs = library_output(model, spec, {"pixel_values": pixels})
        J = jacobian(Real(), spec, vector.detach().numpy(), X)
        c = np.random.default_rng(seed).normal(size=tuple(theirs.shape))
        pulled = np.einsum("no,nop->p", c.reshape(2, -1), J)
        parameters = list(model.parameters())
        both = [
            torch.autograd.grad(value, parameters, retain_graph=True, materialize_grads=True)
            for value in ((vector * torch.tensor(pulled)).sum(), (theirs * torch.tensor(c)).sum())
        ]
        for ours, wanted in zip(*both, strict=True):
            assert float((ours - wanted).abs().max()) < 1e-9 * (1 + float(wanted.abs().max()))


@pytest.mark.parametrize("model_type", IMAGES)
def test_files_are_read_and_written(model_type: str, tmp_path: Path) -> None:
    rng = Random(f"{model_type} files")
    for seed, name in enumerate(classes(model_type) * 2):
        config = random_config(model_type, rng, name)
        model = library_model(config, seed)
        model.save_pretrained(directory := tmp_path / f"model {seed}")
        pixels, X = images(config, 3, seed)
        with Model.open(directory) as found, torch.no_grad():
            theirs = library_output(model, found.spec, {"pixel_values": pixels}).numpy()
            assert furthest(theirs, outputs(found, Tokens(X))) < CLOSE
        again = rewritten(directory, tmp_path / f"again {seed}", lambda _, __: None)
        before, after = stored(directory), stored(again)
        assert all(np.array_equal(before[key], after[key]) for key in before)
        assert list(before) == list(after)


def test_what_is_not_there_is_refused_by_the_choice() -> None:
    for text in ("vit/d=8/vocab=3", "vit/d=8/causal=true", "transformer/d=8/cls=true"):
        with pytest.raises(SpecError):
            architecture(text)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("vit/d=4/heads=2/ff=3/eps=1e-5/patch=5/output=hidden/pooler=true/t=3", 111),
        ("dinov2/d=4/heads=2/ff=3/patch=5/t=3", 94),
    ],
)
def test_certificates_are_checked_and_forged_ones_are_refused(text: str, dimension: int) -> None:
    document = certify(text)
    found = verify(document)
    assert found.valid
    claim = document["claim"]
    assert claim["lower"] == claim["upper"] == dimension
    for key in ("patch", "t", "ff"):
        other = {**document["spec"], key: document["spec"][key] + 1}
        assert not verify(forged(document, spec=other)).valid
    assert not verify(forged(document, claim={**claim, "lower": dimension - 1})).valid
    assert not verify(forged(document, upper={**document["upper"], "rank": 1})).valid
    wrong = {**document["lower"], "seed": document["lower"]["seed"] + 1, "bits": 64}
    wrong["columns"] = [*wrong["columns"][1:], wrong["columns"][-1]]
    assert not verify(forged(document, lower=wrong)).valid


def forged(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Another document, with a checksum that is right."""
    body = {**document, **changes}
    del body["checksum"]
    return {**body, "checksum": checksum(body)}


def test_random_patches_go_through_collapse_and_paths() -> None:
    for family in ("vit", "dinov2"):
        spec = f"{family}/d=8/layers=3/heads=2/ff=12/patch=6/output=hidden/t=5"
        assert measure(spec, inputs=2, length=5).document()
        assert decompose(spec, length=5).error < 1e-12


def test_the_first_patch_is_not_read() -> None:
    spec = architecture("vit/d=8/layers=2/heads=2/ff=12/patch=6/output=hidden/t=4")
    assert isinstance(spec, Transformer)
    rng = np.random.default_rng(0)
    w, X = rng.standard_normal(spec.parameters), rng.standard_normal((2, 6, 4))
    one = forward(Real(), spec, w, X)
    X[:, :, 0] += 1
    assert np.array_equal(one, forward(Real(), spec, w, X))
    X[:, :, 1] += 1
    assert not np.allclose(one, forward(Real(), spec, w, X))
    assert not np.allclose(one, forward(Real(), replace(spec, cls=False), w[8:], X))
