"""Tensors are rounded once, and written as the library safetensors would write them."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
from hypothesis import given
from hypothesis import strategies as st

from segre.checkpoint import saving as writer_module
from segre.checkpoint.dtypes import FLOATS, dtype_name, rounded
from segre.checkpoint.saving import TensorWriter
from segre.checkpoint.store import Entry, Store
from segre.errors import CheckpointError

F64, F32, F16, BF16 = (FLOATS[name] for name in ("F64", "F32", "F16", "BF16"))
SINGLE = "model.safetensors"
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def plan_of(arrays: dict[str, Any], file: str = SINGLE) -> list[Entry]:
    return [Entry(name, a.dtype, a.shape, file) for name, a in arrays.items()]


def write(folder: Path, arrays: dict[str, Any], plan: list[Entry] | None = None) -> None:
    with TensorWriter(folder, plan or plan_of(arrays)) as writer:
        for name, array in arrays.items():
            writer.write(name, array)


def opened(folder: Path) -> Store:
    (folder / "config.json").write_text("{}")
    return Store.open(folder)


# --- rounding ---------------------------------------------------------------------------------


def table(name: str) -> Any:
    """All finite numbers of a type that are not negative, in order: bit patterns from 0 on."""
    width = FLOATS[name].itemsize
    bits = np.arange(2 ** (8 * width - 1)).astype(f"<u{width}")
    numbers = bits.view(FLOATS[name])
    with np.errstate(invalid="ignore"):
        values = numbers[np.isfinite(numbers)].astype(np.float64)
    assert (np.diff(values) > 0).all()
    return values


TABLES = {name: table(name) for name in ("F16", "BF16", "F8_E4M3", "F8_E5M2")}


@given(data=st.data(), name=st.sampled_from(list(TABLES)), sign=st.sampled_from([1.0, -1.0]))
def test_numbers_are_rounded_once_to_nearest_and_ties_to_even(
    data: st.DataObject, name: str, sign: float
) -> None:
    values = TABLES[name]
    low = data.draw(st.integers(0, len(values) - 2))
    middle = (values[low] + values[low + 1]) / 2  # exact in double precision
    even = low + low % 2
    tiny = data.draw(st.sampled_from([2.0**-52, 2.0**-40, 2.0**-26, 2.0**-12]))
    expected = {middle: even, middle * (1 + tiny): low + 1, middle * (1 - tiny): low}
    got = rounded(sign * np.array(list(expected)), FLOATS[name]).astype(np.float64)
    np.testing.assert_array_equal(got, sign * values[list(expected.values())])


@pytest.mark.parametrize("name", TABLES)
def test_numbers_of_a_type_stay_and_others_fall_between_neighbours(name: str) -> None:
    values, dtype = TABLES[name], FLOATS[name]
    np.testing.assert_array_equal(rounded(values, dtype).astype(np.float64), values)
    for source in (np.float64, np.float32, ml_dtypes.bfloat16):
        x = np.random.default_rng(0).standard_normal(4000).astype(source)
        near = rounded(x, dtype).astype(np.float64)
        x = x.astype(np.float64)
        place = np.clip(np.searchsorted(values, np.abs(x)), 1, len(values) - 1)
        best = np.minimum(abs(values[place] - abs(x)), abs(values[place - 1] - abs(x)))
        np.testing.assert_array_equal(abs(near - x), best)


def test_extremes_are_rounded_right() -> None:
    tiny, huge = np.array([5e-324, -5e-324, 0.0, -0.0]), np.array([1e300, -1e300, 3.4e38])
    for name in TABLES:
        small = rounded(tiny, FLOATS[name]).astype(np.float64)
        assert np.signbit(small).tolist() == [False, True, False, True]
        assert not small.any()
        assert not np.isfinite(rounded(huge[:2], FLOATS[name])).any()
    assert not np.isfinite(rounded(huge, BF16)[2])  # above the largest, and below the largest F32
    assert np.isfinite(rounded(np.array([3.39e38]), BF16)).all()


# --- the writer -------------------------------------------------------------------------------


@given(
    kinds=st.lists(st.tuples(st.sampled_from(list(FLOATS)), SHAPES), min_size=1, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[Any], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(seed)
    plan = [Entry(f"t{i}", FLOATS[k], shape, SINGLE) for i, (k, shape) in enumerate(kinds)]
    values = {e.name: 10 * rng.standard_normal(e.shape) for e in plan}
    with TensorWriter(folder, plan) as writer:
        for i in rng.permutation(len(plan)):
            writer.write(plan[i].name, values[plan[i].name])
    again = safetensors.torch.load_file(folder / SINGLE)
    with opened(folder) as store:
        assert set(store.entries) == set(again) == set(values)
        assert store.metadata == {SINGLE: {"format": "pt"}}
        assert store.index is None
        for entry in plan:
            assert store.entries[entry.name] == entry
            expected = rounded(values[entry.name], entry.dtype).astype(np.float64)
            np.testing.assert_array_equal(store.read(entry.name), expected)
            np.testing.assert_array_equal(again[entry.name].double().numpy(), expected)
            assert store.raw(entry.name).flags.aligned


def test_a_copy_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    tensors = {
        "weight": np.random.default_rng(0).standard_normal((3, 4)).astype(BF16),
        "ids": np.arange(5),
        "mask": np.array([True, False]),
        "nan": np.array([np.nan, np.inf], np.float32),
        "none": np.zeros((0, 2), np.float16),
    }
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    plan = plan_of(tensors)
    numeric = {name: t for name, t in tensors.items() if name != "nan"}
    with TensorWriter(first, plan, {SINGLE: {"by": "ü"}}) as writer:
        for name, tensor in numeric.items():
            writer.write(name, tensor)
        with pytest.raises(CheckpointError, match="'nan' has a NaN or an infinity"):
            writer.write("nan", tensors["nan"])
        writer._put(plan[3], [tensors["nan"]])
    with (
        opened(first) as store,
        TensorWriter(second, store.entries.values(), store.metadata) as writer,
    ):
        for name in reversed(store.entries):
            writer.copy(name, store)
    assert (first / SINGLE).read_bytes() == (second / SINGLE).read_bytes()
    with opened(second) as store:
        assert store.metadata == {SINGLE: {"format": "pt", "by": "ü"}}
        for name, tensor in tensors.items():
            assert store.raw(name).tobytes() == tensor.tobytes()


def test_the_format_is_that_of_the_library(tmp_path: Path) -> None:
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.ones((2, 2), np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "other.safetensors", metadata={"format": "pt"})
    write(tmp_path, arrays)
    assert (tmp_path / SINGLE).read_bytes() == (tmp_path / "other.safetensors").read_bytes()


@pytest.mark.parametrize("shape", [(7, 11), (1, 77), (77, 1), (77,), (3, 1, 5, 2), ()])
def test_blocks_are_joined_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: Any
) -> None:
    monkeypatch.setattr(writer_module, "BLOCK", 4)
    straight = np.random.default_rng(1).standard_normal(shape)
    arrays = {"plain": straight, "turned": straight.T, "every": np.repeat(straight[..., None], 2)}
    arrays["skipped"] = arrays["every"][::2]
    plan = [Entry(name, F32, a.shape, SINGLE) for name, a in arrays.items()]
    write(tmp_path, arrays, plan)
    with opened(tmp_path) as store:
        for name, array in arrays.items():
            np.testing.assert_array_equal(store.raw(name), array.astype(np.float32))


def test_conversion_needs_little_memory(tmp_path: Path) -> None:
    array = np.ones((4_000, 2_000))
    tracemalloc.start()
    try:
        write(tmp_path, {"w": array.T}, [Entry("w", BF16, (2_000, 4_000), SINGLE)])
        assert tracemalloc.get_traced_memory()[1] < 16_000_000 < array.nbytes / 3
    finally:
        tracemalloc.stop()
    with opened(tmp_path) as store:
        assert (store.raw("w") == 1).all()


@pytest.mark.parametrize("name", [name for name in FLOATS if name != "F64"])
def test_overflow_is_refused(tmp_path: Path, name: str) -> None:
    largest = float(ml_dtypes.finfo(FLOATS[name]).max)
    plan = [Entry("w", FLOATS[name], (2,), SINGLE)]
    with (
        pytest.raises(CheckpointError, match=f"'w' has numbers too large for {name}"),
        TensorWriter(tmp_path, plan) as writer,
    ):
        writer.write("w", np.array([0.0, -1.2 * largest]))
    assert not list(tmp_path.iterdir())
    write(tmp_path, {"w": np.array([0.0, -largest])}, plan)


def test_the_plan_is_kept_to(tmp_path: Path) -> None:
    plan = [Entry("w", F32, (2, 3), SINGLE), Entry("ids", np.dtype("<i8"), (2,), SINGLE)]
    with TensorWriter(tmp_path, plan) as writer:
        with pytest.raises(CheckpointError, match=r"shape \[3, 2\]; planned: \[2, 3\]"):
            writer.write("w", np.ones((3, 2)))
        with pytest.raises(CheckpointError, match="'v' is not planned"):
            writer.write("v", np.ones((2, 3)))
        for wrong in (np.array([1.0, 2.0]), np.array([1, 2], np.int32)):
            with pytest.raises(CheckpointError, match=r"'ids' is .*; planned: I64"):
                writer.write("ids", wrong)
        with pytest.raises(CheckpointError, match="'w' is I64; planned: F32"):
            writer.write("w", np.ones((2, 3), np.int64))
        writer.write("w", np.ones((2, 3)))
        with pytest.raises(CheckpointError, match="'w' is already written"):
            writer.write("w", np.ones((2, 3)))
        writer.write("ids", np.array([1, 2]))
        assert [path.name for path in tmp_path.iterdir()] == [f"{SINGLE}.partial"]
    assert [path.name for path in tmp_path.iterdir()] == [SINGLE]
    with (
        opened(tmp_path) as store,
        pytest.raises(CheckpointError, match="'w' is F32; planned: F16"),
        TensorWriter(tmp_path, [Entry("w", F16, (2, 3), "b.safetensors")]) as writer,
    ):
        writer.copy("w", store)
    with pytest.raises(CheckpointError, match=r"'w'.*twice"):
        TensorWriter(tmp_path, [plan[0], plan[0]])
    with pytest.raises(CheckpointError, match="in no shard"):
        TensorWriter(tmp_path, [Entry("w", F32, (), "../model.safetensors")])


def test_a_tensor_that_was_never_written_is_an_error(tmp_path: Path) -> None:
    plan = [Entry("w", F32, (2,), SINGLE), Entry("v", F32, (2,), SINGLE)]
    with (
        pytest.raises(CheckpointError, match="'v' was never written"),
        TensorWriter(tmp_path, plan) as writer,
    ):
        writer.write("w", np.ones(2))
    assert not list(tmp_path.iterdir())


def test_shards_and_their_index(tmp_path: Path) -> None:
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    plan = [Entry(f"t{i}", F32, (i, 2), files[i % 2]) for i in range(5)]
    index = {"metadata": {"total_size": 1, "total_parameters": 2, "note": "x"}, "other": [1]}
    with TensorWriter(tmp_path, plan, {files[1]: {"format": "mlx"}}, index) as writer:
        for entry in plan:
            writer.write(entry.name, np.full(entry.shape, float(entry.shape[0])))
    again = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert again == {
        "metadata": {"total_size": 80, "total_parameters": 20, "note": "x"},
        "other": [1],
        "weight_map": {f"t{i}": files[i % 2] for i in range(5)},
    }
    with opened(tmp_path) as store:
        assert store.index == again
        assert store.metadata == {files[0]: {"format": "pt"}, files[1]: {"format": "mlx"}}
        for entry in plan:
            assert store.entries[entry.name] == entry
            assert (store.raw(entry.name) == entry.shape[0]).all()


@pytest.mark.parametrize("files", [[SINGLE], ["a.safetensors"], ["a.safetensors", SINGLE[1:]]])
def test_transformers_loads_what_was_written(tmp_path: Path, files: list[str]) -> None:
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=6,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    state = transformers.LlamaForCausalLM(config).to(torch.bfloat16).state_dict()
    arrays = {name: tensor.double().numpy() for name, tensor in state.items()}
    config.save_pretrained(tmp_path)
    plan = [
        Entry(name, BF16, array.shape, files[i % len(files)])
        for i, (name, array) in enumerate(arrays.items())
    ]
    write(tmp_path, arrays, plan)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype="auto")
    assert set(model.state_dict()) == set(state)
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, state[name])


def test_names_of_types() -> None:
    assert [dtype_name(t) for t in (F64, BF16, np.dtype("<i4"))] == ["F64", "BF16", "I32"]
    assert dtype_name(np.dtype("<U3")) == "<U3"
