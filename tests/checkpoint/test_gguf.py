"""GGUF files become model directories with the same numbers."""

import logging
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segre.checkpoint.gguf import convert
from segre.checkpoint.store import Store
from segre.errors import CheckpointError
from segre.models import architecture
from support.checkpoints import smollm2

gguf = pytest.importorskip("gguf")
D, FF, VOCAB = 8, 16, 12
SHAPES = {
    "token_embd.weight": (VOCAB, D),
    "output_norm.weight": (D,),
    "blk.0.attn_norm.weight": (D,),
    "blk.0.attn_q.weight": (D, D),
    "blk.0.attn_k.weight": (D // 2, D),
    "blk.0.attn_v.weight": (D // 2, D),
    "blk.0.attn_output.weight": (D, D),
    "blk.0.ffn_norm.weight": (D,),
    "blk.0.ffn_gate.weight": (FF, D),
    "blk.0.ffn_up.weight": (FF, D),
    "blk.0.ffn_down.weight": (D, FF),
}


def small(path: Path, kind: str = "llama", **changes: tuple[int, ...] | None) -> dict[str, Any]:
    """Write a model of one layer; gives its tensors. Changes add or (None) leave out some."""
    shapes = SHAPES | {name.replace("__", "."): shape for name, shape in changes.items()}
    rng = np.random.default_rng(0)
    tensors = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items() if s}
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(D)
    writer.add_feed_forward_length(FF)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCAB)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def settings() -> Any:
    import accelerate  # noqa: F401 (importing it may set warnings, once)
    import transformers

    level = transformers.utils.logging.get_verbosity()
    return level, logging.root.manager.disable, list(warnings.filters), sys.stderr


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the transformers library logs; its own handler writes to the stderr of long ago."""
    messages: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: messages.append(record.getMessage()))
    monkeypatch.setattr(logging.getLogger("transformers"), "handlers", [handler])
    return messages


@pytest.mark.parametrize("tied", [True, False])
def test_the_numbers_are_those_of_the_file(
    tmp_path: Path, offline: None, capfd: pytest.CaptureFixture[str], tied: bool
) -> None:
    tensors = small(tmp_path / "a.gguf", output__weight=None if tied else (VOCAB, D))
    before = settings()
    names = convert(str(tmp_path / "a.gguf"), str(tmp_path / "out"))
    assert settings() == before
    assert capfd.readouterr() == ("", "")
    assert names == ["config.json", "generation_config.json", "model.safetensors"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    modes = {path.stat().st_mode for path in (tmp_path / "out").iterdir()}
    assert len(modes) == 1
    with Store.open(tmp_path / "out") as store:
        assert store.parameters == sum(tensor.size for tensor in tensors.values())
        assert store.config["tie_word_embeddings"] is tied
        assert store.config["rms_norm_eps"] == 1e-5
        assert ("lm_head.weight" in store.entries) is not tied
        stored = {
            "model.embed_tokens": "token_embd",
            "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
        }
        stored |= {} if tied else {"lm_head": "output"}
        for ours, theirs in stored.items():
            np.testing.assert_array_equal(store.raw(f"{ours}.weight"), tensors[f"{theirs}.weight"])
    assert architecture(tmp_path / "out").parameters == store.parameters
    with pytest.raises(CheckpointError, match="it already exists"):
        convert(tmp_path / "a.gguf", tmp_path / "out")


def refusal(path: Path, target: Path) -> str:
    with pytest.raises(CheckpointError) as refused:
        convert(path, target)
    assert not list(target.parent.glob("*out*"))
    assert not list(target.parent.glob(".*partial"))
    assert str(refused.value).isprintable()
    assert str(refused.value).startswith(f"checkpoint '{path}': ")
    return str(refused.value)


def test_files_that_cannot_be_converted(
    tmp_path: Path, offline: None, capfd: pytest.CaptureFixture[str], logged: list[str]
) -> None:
    path, out = tmp_path / "a.gguf", tmp_path / "out"
    assert "No such file" in refusal(path, out)
    assert "not a regular file" in refusal(tmp_path, out)
    path.write_bytes(b"GGU")
    assert "not a GGUF file" in refusal(path, out)
    small(path)
    content = path.read_bytes()
    for size in (4, 20, 100, 300, 900, 1300, len(content) - 1):
        path.write_bytes(content[:size])
        assert "it may be damaged" in refusal(path, out)
    small(path, "rwkv6")
    assert "architecture rwkv6 is not supported" in refusal(path, out)
    small(path, blk__0__ffn_up__weight=None)
    assert "tensor 'model.layers.0.mlp.up_proj.weight' is missing" in refusal(path, out)
    small(path, rope_freqs__weight=(2,))
    assert "rotary frequencies are rescaled (rope_freqs.weight)" in refusal(path, out)
    assert capfd.readouterr() == ("", "")
    assert not logged


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "a.gguf")
    for missing in ("torch", "transformers", "gguf", "accelerate"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(
                CheckpointError, match=rf"needs {missing}, which .* 'segre\[models\]'"
            ):
                convert(tmp_path / "a.gguf", tmp_path / "out")


@pytest.mark.slow
def test_smollm2(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A real file: quantized, tied, with rows of queries and keys in another order."""
    import transformers

    made, said = smollm2(tmp_path_factory)
    assert said == ""
    names = {path.name for path in made.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    with Store.open(made) as store:
        assert store.parameters == 134_515_008
        assert "lm_head.weight" not in store.entries
    assert architecture(made) == architecture("smollm2-135m")
    model = transformers.AutoModelForCausalLM.from_pretrained(made)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    prompt = tokenizer("The capital of France is", return_tensors="pt")
    following = model(**prompt).logits[0, -1].argmax()
    assert tokenizer.decode(following) == " Paris"
