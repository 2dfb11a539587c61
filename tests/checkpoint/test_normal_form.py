"""The normal form: the same function, the same file for all copies, and nothing left to choose."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segre.checkpoint.canonical import canonical_parts
from segre.checkpoint.commands import canonical, move
from segre.checkpoint.model import Model
from segre.checkpoint.planes import queries, still
from segre.checkpoint.shrink import Shrinker
from segre.errors import CheckpointError, SegreError
from segre.geometry.at_any_size import counted
from segre.symmetry.compact import stream_freedom
from segre.transformer.spec import Transformer
from segre.transformer.tensors import routed
from support.checkpoints import apart, rewritten, stored
from support.zoo import IMAGES, NAMES, UNIT_GAINS, save_tiny


@pytest.fixture(params=(*NAMES, *IMAGES))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return save_tiny(request.param, tmp_path / "model")


def test_function_copies_and_repetition(model: Path, tmp_path: Path) -> None:
    first = canonical(model, tmp_path / "first")
    assert first.difference is not None
    assert first.difference < 1e-6
    assert apart(model, tmp_path / "first") < 1e-5

    # twice: not a bit changes
    canonical(tmp_path / "first", tmp_path / "twice")
    once = (tmp_path / "first" / "model.safetensors").read_bytes()
    assert (tmp_path / "twice" / "model.safetensors").read_bytes() == once

    # another point of the fiber, far away, has the same normal form up to rounding
    moved = move(model, tmp_path / "moved", seed=5)
    assert apart(model, tmp_path / "moved") < 1e-5
    far = [x.change for x in moved.changes if x.name in ("W_Q", "W_K", "W_V", "W_O", "W_down")]
    assert min(far) > 0.5
    canonical(tmp_path / "moved", tmp_path / "second")
    ours, theirs = stored(tmp_path / "first"), stored(tmp_path / "second")
    for name, tensor in ours.items():
        size = max(float(np.linalg.norm(tensor)), 1e-30)
        assert np.linalg.norm(tensor - theirs[name]) / size < 1e-5, name


def remaining(spec: Transformer) -> int:
    """Redundant parameters that the normal form fixes by equations that are not linear."""
    routes = sum(routed(spec, layer) for layer in range(1, spec.layers + 1))
    units = spec.ff * (spec.layers - routes) if spec.gated or spec.mlp == "relu" else 0
    units += (spec.experts * spec.eff + spec.shared) * routes
    units *= spec.mlp != "clamped"
    turned = sum(spec.at(layer).pos == "rope" for layer in range(1, spec.layers + 1))
    planes = (1 if spec.latent else spec.kv) * spec.rotary_dim * turned
    if spec.qknorm:  # one scale for each plane of a layer
        planes = spec.head // 2 * turned * (spec.kv if spec.qknorm == "all" else 1)
    basis = (spec.d - 1) * (spec.d - 2) // 2
    stream = basis if stream_freedom(spec) == "orthogonal" and spec.norm == "layer" else 0
    tables = 1 if spec.tied and spec.transform and spec.pos == "learned" else 0
    biases = max(0, spec.kv * spec.dv - spec.d) * spec.layers if spec.bias == "qkv" else 0
    return units + planes + stream + tables + biases + embedded(spec)


def embedded(spec: Transformer) -> int:
    """Likewise for embeddings of another width: their basis, and what the first layer reads."""
    if not spec.embed:
        return 0
    wide = spec.embed - 1
    basis = 0 if spec.tied else wide * (wide - 1) // 2
    rows = spec.heads * spec.head + spec.kv * (spec.head + spec.dv)
    return basis + (1 if spec.share else rows * (spec.d - wide))


def test_it_fixes_as_many_parameters_as_are_redundant(
    model: Path, request: pytest.FixtureRequest
) -> None:
    """Entries that follow linearly from the rest, and the scales, are all that is redundant."""
    with Model.open(model) as opened:
        shrinker = Shrinker(opened.spec, 2.0**-24)
        for part, tensors in canonical_parts(opened):
            shrinker.part(part, tensors)
        exact = [s.dimension for s in counted(opened.spec).symmetries if s.holds == "exact"]
        left = sum(exact) - shrinker.dropped
        assert shrinker.kept == []
        if request.node.callspec.params["model"] in UNIT_GAINS:
            assert left < remaining(opened.spec)  # more is redundant where all gains are 1
        else:
            assert left == remaining(opened.spec)


def test_heads_are_balanced_and_sorted(model: Path) -> None:
    with Model.open(model) as opened:
        spec = opened.spec
        for part, w in canonical_parts(opened):
            if part in ("embed", "head"):
                continue
            V, out = w["W_V"][:, 0], w["W_O"]
            one = V @ V.swapaxes(1, 2)
            two = (out.swapaxes(-1, -2) @ out).sum(axis=1)
            np.testing.assert_allclose(one, two, atol=1e-12)
            diagonal = np.diagonal(one, axis1=1, axis2=2)
            np.testing.assert_allclose(one, diagonal[:, None] * np.eye(spec.dv), atol=1e-12)
            assert (np.diff(diagonal, axis=1) < 0).all()
            if spec.still:
                K, Q = still(spec, w["W_K"])[:, 0], still(spec, queries(w))
                np.testing.assert_allclose(
                    K @ K.swapaxes(1, 2), (Q @ Q.swapaxes(-1, -2)).sum(axis=1), atol=1e-12
                )
            sizes = np.linalg.norm(np.einsum("hgdv,hve->hgde", out, V), axis=(2, 3))
            assert (np.diff(np.linalg.norm(sizes, axis=1)) < 0).all()
            assert (np.diff(sizes, axis=1) <= 0).all()


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert-mlm"])
@pytest.mark.parametrize("dtype", ["F64", "F16", "BF16"])
def test_other_storage_types(name: str, dtype: str, tmp_path: Path) -> None:
    """Types are kept, and errors are those of the type."""
    from torch import bfloat16, float16, float64

    from support.zoo import tiny

    kinds = {"F64": float64, "F16": float16, "BF16": bfloat16}
    tiny(name).to(kinds[dtype]).save_pretrained(tmp_path / "model")
    written = canonical(tmp_path / "model", tmp_path / "out")
    roundoff = {"F64": 2.0**-53, "F16": 2.0**-11, "BF16": 2.0**-8}[dtype]
    assert written.roundoff == roundoff
    assert written.difference is not None
    assert written.difference < (400 if dtype == "F64" else 20) * roundoff  # F64 is used inside
    ours, theirs = stored(tmp_path / "model"), stored(tmp_path / "out")
    assert {n: x.dtype for n, x in ours.items()} == {n: x.dtype for n, x in theirs.items()}


def test_shards_config_and_tokenizer_are_carried_along(tmp_path: Path) -> None:
    from support.zoo import tiny

    tiny("llama").save_pretrained(tmp_path / "model", max_shard_size="20KB")
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 2
    canonical(tmp_path / "model", tmp_path / "out")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert apart(tmp_path / "model", tmp_path / "out") < 1e-5


def test_tensors_that_vanish(tmp_path: Path) -> None:
    """Heads without values, planes without keys, units that write nothing: the same function."""
    source = save_tiny("llama", tmp_path / "model")

    def change(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "1":
            w["W_V"][0] = 0
            w["W_K"][1, 0, 0] = w["W_K"][1, 0, 3] = 0
            w["W_down"][:, 5] = 0
            w["W_gate"][6] = 0
            w["norm2.gain"][3] = 0

    special = rewritten(source, tmp_path / "special", change)
    canonical(special, tmp_path / "out")
    assert apart(special, tmp_path / "out") < 1e-5
    move(special, tmp_path / "moved")
    assert apart(special, tmp_path / "moved") < 1e-5


def test_heads_that_lack_rank_keep_their_value_biases(tmp_path: Path) -> None:
    """The biases of values may lie where the values of such a head do not."""
    source = save_tiny("qwen2", tmp_path / "model")

    def change(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "1":
            w["W_V"][0, 0, 1] = w["W_V"][0, 0, 0]
            w["b_V"] = w["b_V"] + np.arange(1.0, w["b_V"].size + 1).reshape(w["b_V"].shape) / 10

    special = rewritten(source, tmp_path / "special", change)
    canonical(special, tmp_path / "out")
    assert apart(special, tmp_path / "out") < 1e-5


def test_old_names_and_heads_that_the_class_does_not_have(tmp_path: Path) -> None:
    """As in the first BERT checkpoints: gamma and beta, a pooler, a next-sentence head."""
    from safetensors.numpy import load_file, save_file

    source = save_tiny("bert-mlm", tmp_path / "model")
    file = source / "model.safetensors"
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): x
        for name, x in load_file(file).items()
    }
    tensors["bert.pooler.dense.weight"] = np.ones((24, 24), np.float32)
    tensors["cls.seq_relationship.bias"] = np.ones(2, np.float32)
    save_file(tensors, file, metadata={"format": "pt"})
    written = canonical(source, tmp_path / "out")
    assert set(written.unused) == {"bert.pooler.dense.weight", "cls.seq_relationship.bias"}
    assert written.difference is not None
    assert written.difference < 1e-6
    assert "bert.embeddings.LayerNorm.gamma" in stored(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "t5"}, "model_type"),
        ({"model_type": "gemma2", "architectures": ["Gemma2Model"]}, "pre_feedforward_layernorm"),
        ({"hidden_size": 25}, "embed_tokens"),
        ({"vocab_size": 60}, "embed_tokens"),
        ({"num_hidden_layers": 4}, "is missing"),
        ({"num_hidden_layers": 2}, "is not part of"),
        ({"hidden_act": "linear"}, "bilinear"),
        ({"tie_word_embeddings": True}, "tied, but they differ"),
    ],
)
def test_files_that_are_not_what_the_config_says(
    change: dict[str, object], said: str, tmp_path: Path
) -> None:
    import json

    source = save_tiny("llama", tmp_path / "model")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(SegreError) as caught:
        canonical(source, tmp_path / "out")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_weights_that_are_not_numbers(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    source = save_tiny("llama", tmp_path / "model")
    tensors = load_file(source / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"up_proj.weight.* is nan at \[3, 4\]"):
        canonical(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_specs_of_models_ask_for_logits(tmp_path: Path) -> None:
    with Model.open(save_tiny("gpt2", tmp_path / "model")) as opened:
        assert opened.spec.output == "logits"
        assert replace(opened.spec, output="softmax").tied
