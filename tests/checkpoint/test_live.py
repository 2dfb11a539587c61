"""Models in memory: the same answers as of their files, and weights written back in place."""

import copy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import segre
from segre.checkpoint.served import require_normal_form
from segre.checkpoints import align, apply, canonical, info, move, same
from segre.errors import CheckpointError, SegreError, SpecError
from segre.models import architecture
from support.random_models import HEADS, library_model, random_config


def tiny(model_type: str = "llama", seed: int = 1, **more: Any) -> Any:
    config = random_config(model_type, Random(seed))
    return library_model({**config, **more}, seed)


def served(model: Any) -> bool:
    try:
        require_normal_form(architecture(model))
    except SegreError:
        return False
    return True


def outputs(model: Any) -> np.ndarray:
    words = [i for i in range(model.config.vocab_size) if i != model.config.pad_token_id]
    tokens = torch.tensor([words[i % len(words)] for i in range(12)]).reshape(3, 4)
    with torch.no_grad():
        out = model.eval()(tokens)
    return np.asarray(out[0].float().numpy())


# --- as specs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", HEADS)
def test_models_and_configs_are_what_their_files_are(model_type: str, tmp_path: Path) -> None:
    for seed in range(3):
        model = tiny(model_type, seed)
        model.save_pretrained(tmp_path / str(seed))
        spec = architecture(tmp_path / str(seed))
        assert architecture(model) == spec
        assert architecture(model.config) == spec
        assert architecture((model.state_dict(), model.config)) == spec
        assert architecture((model.state_dict(), model.config.to_dict())) == spec


def test_a_class_of_the_users_own_is_the_librarys() -> None:
    class Mine(transformers.LlamaForCausalLM):
        """With more than the library has, and the same weights."""

    config = tiny(architectures=["LlamaForCausalLM"]).config
    with torch.device("meta"):
        assert architecture(Mine(config)).output == "softmax"
        assert architecture(transformers.LlamaModel(config)).output == "hidden"


def test_every_question_about_an_architecture_takes_a_model() -> None:
    model = tiny()
    spec = architecture(model)
    counted = segre.dimension(spec, "count")
    assert segre.dimension(model, "count").upper == counted.upper
    assert segre.explain(model).finding.upper == counted.upper
    assert segre.explain(model).name == type(model).__name__
    assert segre.collapse.count_paths(model.config).value == segre.collapse.count_paths(spec).value


def test_torch_is_not_imported_for_anybody() -> None:
    import subprocess
    import sys

    code = "import sys, segre; segre.architecture('gpt2'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


# --- as weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", HEADS)
def test_weights_in_memory_are_those_of_the_files(model_type: str, tmp_path: Path) -> None:
    model = tiny(model_type)
    model.save_pretrained(tmp_path / "model")
    assert same(model, tmp_path / "model").verdict == "identical"
    pair = (model.state_dict(), model.config)
    if model.config.architectures is None:  # then a config does not say which class is meant
        pair = (pair[0], {**model.config.to_dict(), "architectures": [type(model).__name__]})
    assert same(pair, tmp_path / "model").verdict == "identical"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model_type", HEADS)
def test_weights_are_moved_and_written_back(model_type: str, dtype: torch.dtype) -> None:
    model = tiny(model_type, vocab_size=64).to(dtype)  # a few tokens would not fix a basis
    other = copy.deepcopy(model)
    moved = move(model, seed=3)
    assert moved.directory is None
    assert moved.agrees
    if not served(model):  # no normal form for its design choices, by which to compare
        with pytest.raises(SegreError, match="the normal form is not implemented for"):
            same(model, moved)
        return
    assert same(model, other).verdict == "identical"  # nothing was written to it
    copy_of_it = same(model, moved)
    assert (copy_of_it.same, copy_of_it.verdict == "identical") == (True, False)
    before = {name: tensor.data_ptr() for name, tensor in other.state_dict().items()}
    apply(other, moved)
    assert {name: tensor.data_ptr() for name, tensor in other.state_dict().items()} == before
    assert same(other, moved).verdict == "identical"
    assert same(model, other).verdict == copy_of_it.verdict
    if dtype == torch.float32:
        one, two = outputs(model), outputs(other)
        assert np.abs(one - two).max() <= 1e-3 * np.abs(one).max()
    apply(other, align(model, other))
    before_, after = align(model, moved).blocks[-1].distances()
    assert after < before_
    assert same(model, other).verdict != "different"  # in half precision it may be undecided


def test_normal_forms_in_memory_and_on_disk_are_the_same(tmp_path: Path) -> None:
    model = tiny()
    canonical(model, tmp_path / "one")
    model.save_pretrained(tmp_path / "model")
    canonical(tmp_path / "model", tmp_path / "two")
    assert same(tmp_path / "one", tmp_path / "two").verdict == "identical"
    assert same(canonical(model), tmp_path / "two").verdict == "identical"
    kind = type(model)
    again = kind.from_pretrained(tmp_path / "one")
    assert np.allclose(outputs(again), outputs(model), rtol=1e-3, atol=1e-4)


def test_questions_about_weights_take_a_model(tmp_path: Path) -> None:
    model = tiny()
    found = info(model)
    assert (found.family, found.name) == ("llama", type(model).__name__)
    assert found.parameters == architecture(model).parameters
    depth = segre.collapse.measure(model, inputs=1, length=4, variants="full")
    assert depth.document()["weights"] == "trained"
    paths = segre.collapse.decompose(model, length=4)
    assert paths.error < 1e-4
    told = segre.analyze(model, only=["what", "heads", "weights"])
    assert [part.status for part in told.parts].count("measured") >= 1
    assert segre.checkpoints.shrink(model, tmp_path / "small").dropped >= 0
    segre.checkpoints.expand(tmp_path / "small", tmp_path / "again")
    assert same(model, tmp_path / "again").verdict == "same function"
    assert segre.same(model, move(model, seed=2)).same
    assert segre.same(model, tiny(seed=7)).verdict == "different"
    assert segre.collapse(model, inputs=2, length=4).status == "measured"


def test_arrays_of_numpy_are_weights_too() -> None:
    model = tiny()
    arrays = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
    assert same(model, (arrays, config)).verdict == "identical"
    apply((arrays, config), move((arrays, config), seed=1))
    assert same(model, (arrays, config)).verdict == "same function"


# --- what is refused ----------------------------------------------------------------------------


def refusal(ask: Any, *given: Any, kind: type[SegreError] = CheckpointError) -> str:
    with pytest.raises(kind) as caught:
        ask(*given)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert len(line) < 600
    assert caught.value.exit_code == 2
    return line


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    model = tiny()
    state, config = model.state_dict(), model.config
    assert "(state_dict, config)" in refusal(architecture, state, kind=SpecError)
    assert "(state_dict, config)" in refusal(info, state, kind=SpecError)
    assert "(state_dict, config)" in refusal(info, (config, state), kind=SpecError)
    assert "in this order" in refusal(architecture, (1, 2, 3), kind=SpecError)
    assert "without weights" in refusal(info, config)
    assert "int is not a checkpoint" in refusal(info, 3)
    assert "no weights to write to" in refusal(apply, config, model)
    assert "no weights to write to" in refusal(apply, tmp_path, model)
    lacking = {name: x for name, x in state.items() if not name.endswith("norm.weight")}
    given = {**config.to_dict(), "architectures": [type(model).__name__]}
    assert "missing" in refusal(info, (lacking, given))
    assert "finite" in refusal(info, ({n: x * float("nan") for n, x in state.items()}, given))
    assert "type" in refusal(info, ({n: x.to(torch.int32) for n, x in state.items()}, given))
    with torch.device("meta"):
        empty = type(model)(config)
    assert "cannot be read" in refusal(info, empty)
    assert "different architectures" in refusal(apply, model, tiny("qwen3"))


def test_a_model_of_another_kind_is_refused() -> None:
    assert "model_type" in refusal(architecture, transformers.T5Config(), kind=SpecError)
    refusal(architecture, torch.nn.Linear(2, 2), kind=SpecError)
    refusal(info, torch.nn.Linear(2, 2))


def test_what_has_no_normal_form_leaves_a_model_as_it_was() -> None:
    for model_type in HEADS:
        model = tiny(model_type)
        if not served(model):
            refusal(canonical, model, kind=SegreError)
