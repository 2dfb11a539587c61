"""Same function or not: decided on weights, with a witness that can be checked."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from segre.checkpoint.commands import canonical, check, move, same
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import random_tokens
from segre.errors import CheckpointError
from segre.models import architecture
from support.checkpoints import apart, rewritten
from support.zoo import IMAGES, NAMES, save_tiny, tiny

UP_TO = {  # the verdict on two copies, by the type of both
    "float32": "same function",
    "bfloat16": "same up to bf16 rounding",
    "float16": "same up to fp16 rounding",
}
Tensors = dict[str, np.ndarray]
Change = Callable[[str, Tensors], None]


MODELS = (*NAMES, *IMAGES)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return save_tiny(request.param, tmp_path / "model")


def scaled_head(part: str, w: Tensors) -> None:
    if part == "2":
        w["W_V"][1] *= 1.001
        if "b_V" in w:
            w["b_V"][1] *= 1.001


def scaled_queries(part: str, w: Tensors) -> None:
    if part == "2":
        w["W_Q"][1, 0] *= 1.001
        if "b_Q" in w:
            w["b_Q"][1, 0] *= 1.001


def changed_unit(part: str, w: Tensors) -> None:
    if part == "3":
        w["W_up"].reshape(-1, w["W_up"].shape[-1])[7] *= 1.001  # of all experts, if there are any


def changed_entry(part: str, w: Tensors) -> None:
    if part == "1":
        down = w["W_down"].reshape(-1, *w["W_down"].shape[-2:])[0]
        down[5, 11] += 0.01 * np.abs(down[:, 11]).max()


def of_any_layer(model: Path, change: Change) -> Change:
    """The same change, of the one layer that there is where layers share their weights."""
    with Model.open(model) as opened:
        if not opened.spec.share:
            return change

    def changed(part: str, w: Tensors) -> None:
        for number in "123" if part == "1" else ():
            change(number, w)

    return changed


CHANGES: tuple[tuple[Change, str], ...] = (
    (scaled_head, "layer 2, head"),
    (changed_unit, "layer 3, MLP unit"),
    (scaled_queries, ""),  # seen, though a norm of queries takes the scale away but for its epsilon
    (changed_entry, "layer 1, MLP unit"),
)


def test_copies_are_recognised_and_changes_are_found(
    model: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of the four changes, models take turns with two each."""
    number = MODELS.index(request.node.callspec.params["model"])
    assert same(model, model).verdict == "identical"
    move(model, tmp_path / "moved", seed=3)
    found = same(model, tmp_path / "moved")
    assert (found.verdict, found.first) == ("same function", None)
    assert found.outputs is not None
    assert found.outputs < 1e-6
    # one rewriting of one of the two files: 1 / sqrt(2) of what rounding both does
    # (and what only changes signs and places is not rounded again)
    ratios = [block.ratio for block in found.blocks if block.matrix and block.ratio]
    assert 0.5 < np.median(ratios) < 0.9

    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    blocks = check(model, tmp_path / "moved", tmp_path / "witness.safetensors")
    assert all(block.agrees for block in blocks)
    assert len(blocks) == len(found.blocks)

    for change, place in CHANGES[number % 2 :: 2]:
        applied = of_any_layer(model, change)
        changed = rewritten(tmp_path / "moved", tmp_path / change.__name__, applied)
        found = same(model, changed)
        assert found.verdict == "different", change
        assert found.worst is not None
        if applied is not change:
            place = f"layer 1{place.removeprefix('layer ')[1:]}"
        if change is scaled_queries:
            assert found.first is not None
            assert found.first.kind in ("QK", "W_Q")
            continue
        assert found.worst.title.startswith(place)
        difference, rounding = found.worst.most
        assert 4e-4 < difference < 3e-2
        assert rounding < 1e-5


def test_the_order_of_arguments_does_not_matter(tmp_path: Path) -> None:
    one = save_tiny("qwen2", tmp_path / "one")
    move(one, tmp_path / "two", seed=1)
    canonical(one, tmp_path / "three")
    for first in ("one", "two", "three"):
        for second in ("one", "two", "three"):
            verdict = same(tmp_path / first, tmp_path / second).verdict
            assert verdict == ("identical" if first == second else "same function")


def test_a_row_that_no_output_used_is_found(tmp_path: Path) -> None:
    """Outputs alone would say that these are the same."""
    one = save_tiny("llama", tmp_path / "one")
    used = set(random_tokens(architecture(one), 0).words.ravel().tolist())
    unused = min(set(range(61)) - used)

    def change(part: str, w: Tensors) -> None:
        if part == "embed":
            w["tokens"][:, unused] *= 1.5

    found = same(one, rewritten(one, tmp_path / "two", change))
    assert found.outputs == 0
    assert found.verdict == "different"
    assert found.first is not None
    assert found.first.title == f"embed, tokens, token {unused}"


def test_independent_models_and_other_architectures(tmp_path: Path) -> None:
    one, two = save_tiny("llama", tmp_path / "one"), save_tiny("mistral", tmp_path / "two")
    found = same(one, two)
    assert found.verdict == "different"
    assert "head is" in found.reason
    other = rewritten(one, tmp_path / "three", shuffle)
    found = same(one, other)
    assert found.verdict == "different"
    assert found.first is not None
    assert found.first.difference > 0.1


def shuffle(part: str, w: Tensors) -> None:
    rng = np.random.default_rng(int.from_bytes(part.encode()))
    for name, value in w.items():
        w[name] = rng.standard_normal(value.shape) * value.std()


@pytest.mark.parametrize("name", ["llama-tied", "gpt2", "bert"])
def test_half_precision_tells_apart_what_it_can(name: str, tmp_path: Path) -> None:
    tiny(name).to(torch.bfloat16).save_pretrained(tmp_path / "one")
    move(tmp_path / "one", tmp_path / "two", seed=1)
    found = same(tmp_path / "one", tmp_path / "two")
    assert (found.verdict, found.rounding) == ("same up to bf16 rounding", "bf16")
    assert found.roundoff == 2.0**-8

    def change(part: str, w: Tensors) -> None:
        if part == "1":
            w["W_V"][0] *= 1.05
            if "b_V" in w:
                w["b_V"][0] *= 1.05

    changed = rewritten(tmp_path / "two", tmp_path / "three", change)
    assert same(tmp_path / "one", changed).verdict == "different"


def test_a_rotated_stream_under_equal_gains_is_undecided(tmp_path: Path) -> None:
    """Of a tied model the gains of the last norm fix the axes, unless all are equal."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from support.zoo import TIED, TWO

    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**TWO, **TIED)).save_pretrained(tmp_path / "one")
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0]

    def rotate(part: str, w: Tensors) -> None:
        for name, value in w.items():
            if name in ("tokens", "W_O", "W_down"):
                w[name] = turn @ value
            elif name.startswith("W_"):
                w[name] = value @ turn.T

    two = rewritten(tmp_path / "one", tmp_path / "two", rotate)
    assert apart(tmp_path / "one", two) < 1e-5
    found = same(tmp_path / "one", two)
    assert found.verdict == "undecided"
    assert "any rotation of the stream is a symmetry" in found.reason
    assert (
        same(tmp_path / "one", save_tiny("llama-tied", tmp_path / "three")).verdict == "different"
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_large_bias_does_not_hide_a_matrix(dtype: str, tmp_path: Path) -> None:
    model = tiny("qwen2")
    for name, value in model.named_parameters():
        if name.endswith("k_proj.bias"):
            value.data *= 300
    model.to(getattr(torch, dtype)).save_pretrained(tmp_path / "one")

    def change(_part: str, w: Tensors) -> None:
        if "W_K" in w:
            w["W_K"] *= 1.5

    changed = rewritten(tmp_path / "one", tmp_path / "two", change)
    move(changed, tmp_path / "three", seed=1, report=False)
    move(tmp_path / "one", tmp_path / "copy", seed=2, report=False)
    for name in ("two", "three"):
        found = same(tmp_path / "one", tmp_path / name)
        assert found.verdict == "different"
        assert found.worst is not None
        assert found.worst.kind == "QK"
    assert same(tmp_path / "one", tmp_path / "copy").verdict == UP_TO[dtype]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert-mlm", "qwen3"])
def test_what_is_said_to_be_seen_is_seen(name: str, dtype: str, tmp_path: Path) -> None:
    """A change a little larger than the sensitivity is found; one far below it may pass."""
    tiny(name).to(getattr(torch, dtype)).save_pretrained(tmp_path / "one")
    move(tmp_path / "one", tmp_path / "moved", seed=1, report=False)
    found = same(tmp_path / "one", tmp_path / "moved")
    assert found.verdict == UP_TO[dtype]
    seen = {(one.part, one.kind): one.limit * one.sensitivity for one in found.blocks}
    rng = np.random.default_rng(0)

    def change(part: str, w: Tensors) -> None:
        if part == "2":
            size = 2 * seen["2", "W_up"]
            w["W_up"] *= 1 + size * rng.choice([-1.0, 1.0], w["W_up"].shape)

    changed = same(tmp_path / "one", rewritten(tmp_path / "moved", tmp_path / "changed", change))
    assert changed.verdict in ("different", "undecided")
    assert changed.worst is not None
    assert changed.worst.part == "2"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_special_points_are_left_undecided(name: str, tmp_path: Path) -> None:
    """Two units that read the same can share what they write in any way."""
    source = save_tiny(name, tmp_path / "source")

    def twin(part: str, w: Tensors) -> None:
        if part == "1":
            for key in ("W_up", "b_up", "W_gate"):
                if key in w:
                    w[key][3] = w[key][4]

    def share(part: str, w: Tensors) -> None:
        if part == "1":
            some = np.random.default_rng(0).standard_normal(24)
            w["W_down"][:, 3] += some
            w["W_down"][:, 4] -= some

    one = rewritten(source, tmp_path / "one", twin)
    two = rewritten(one, tmp_path / "two", share)
    found = same(one, two)
    assert found.verdict == "undecided"
    assert "MLP units 4 and 5 have parallel input weights" in found.reason
    changed = rewritten(two, tmp_path / "three", changed_unit)
    found = same(one, changed)
    assert not found.same
    assert [b.part for b in found.blocks if not b.agrees][-1] == "3"  # the real change is listed


@pytest.mark.parametrize("changed", [False, True])
def test_a_table_that_does_not_determine_the_basis(changed: bool, tmp_path: Path) -> None:
    """Fewer tokens than coordinates, and any basis free: nothing is claimed."""
    from transformers import LlamaConfig

    from support.zoo import TWO, randomised

    config = LlamaConfig(**{**TWO, "vocab_size": 11})
    randomised(config, "LlamaForCausalLM", 0).save_pretrained(tmp_path / "one")
    move(tmp_path / "one", tmp_path / "two", seed=1)
    if changed:
        rewritten(tmp_path / "two", tmp_path / "three", changed_unit)
    found = same(tmp_path / "one", tmp_path / ("three" if changed else "two"))
    assert found.verdict == "undecided"
    assert same(tmp_path / "one", tmp_path / "one").verdict == "identical"


@pytest.fixture
def witnessed(tmp_path: Path) -> tuple[Path, Path, Path]:
    one = save_tiny("llama", tmp_path / "one")
    move(one, tmp_path / "two", seed=1)
    found = same(one, tmp_path / "two")
    assert found.witness is not None
    found.witness.write(tmp_path / "witness.safetensors")
    return one, tmp_path / "two", tmp_path / "witness.safetensors"


def test_a_witness_of_another_pair_does_not_hold(witnessed: tuple[Path, Path, Path]) -> None:
    one, two, file = witnessed
    move(one, two.parent / "three", seed=2)
    assert not all(block.agrees for block in check(one, two.parent / "three", file))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("stream.matrix", lambda x: 1.01 * x, "not orthogonal"),
        ("1.vo", lambda x: x + 0.001, "not orthogonal"),
        ("2.qk", lambda x: 2 * x, "modulus 1"),
        ("1.heads", lambda x: 0 * x, "not a permutation"),
        ("1.queries", lambda x: x + 1, "not a permutation"),
        ("3.units", lambda x: x[:-1], "instead of \\[40\\]"),
        ("3.signs", lambda x: 0.5 * x, "not signs"),
        ("1.vo", lambda x: np.nan * x, "not finite"),
        ("1.vo", None, "1.vo is missing"),
    ],
)
def test_a_witness_that_is_no_group_element_is_refused(
    witnessed: tuple[Path, Path, Path], name: str, change: object, said: str
) -> None:
    one, two, file = witnessed
    arrays = load_file(file)
    value = arrays.pop(name)
    if callable(change):
        arrays[name] = np.ascontiguousarray(change(value))
    save_file(arrays, file)
    with pytest.raises(CheckpointError, match=said):
        check(one, two, file)


def test_files_that_are_no_witness(witnessed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, two, file = witnessed
    with pytest.raises(CheckpointError, match="cannot be read"):
        check(one, two, tmp_path / "none.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="cannot be read"):
        check(one, two, file)


def test_a_witness_of_a_moved_copy_does_not_hold_for_the_files_themselves(
    witnessed: tuple[Path, Path, Path],
) -> None:
    """Files that share a basis: rounding must not be measured in another one."""
    one, two, file = witnessed
    assert check(one, two, file).value
    assert not check(one, one, file).value
    assert not check(two, two, file).value
