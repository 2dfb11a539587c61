"""`segre.analyze`: what is said is true, how it is known is true, and what cannot run says why."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import segre
from segre.analysis import run, workbench
from segre.analysis.architecture import parameters_by_piece
from segre.errors import CheckpointError, SegreError, SpecError
from segre.models import PRESETS, architecture
from support.architectures import NOT_COUNTED, random_stacks
from support.checkpoints import minilm
from support.random_models import library_model
from support.zoo import NAMES, UNIT_GAINS, save_tiny

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
CHEAP = ("what", "dimension", "redundancy")
LLAMA = "llama/d=4/layers=2/heads=2/kv=1/head=2/ff=3/t=3"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny("llama", tmp_path_factory.mktemp("tiny") / "model")


# The last digits of single precision depend on the threads and the processor that BLAS is told of.
BLAS = {key: value for key, value in os.environ.items() if key.startswith("OPENBLAS_")}


def answered(command: str, cwd: Path) -> tuple[int, Any]:
    """What a command of a report prints as JSON, run as a user would."""
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(cwd), **BLAS},
    )
    assert done.stderr == "", command
    return done.returncode, json.loads(done.stdout)


COUNTED = [name for name in PRESETS if name not in NOT_COUNTED]

# --- what is said agrees with itself ------------------------------------------------------


@pytest.mark.parametrize("spec", [*random_stacks(3, 12), *COUNTED, LLAMA], ids=str)
def test_parts_agree_with_each_other(spec: Any) -> None:
    found = segre.analyze(str(spec), only=CHEAP)
    what, size, redundancy = (found[key].data for key in CHEAP)
    if what is None or size is None or redundancy is None:
        raise AssertionError([part.reason for part in found.parts])
    assert sum(what["pieces"].values()) == size["parameters"] == found.spec.parameters
    total = sum(one["dimension"] for one in redundancy["symmetries"])
    assert f"{size['parameters']:,} parameters" in found["dimension"].lead
    known = "estimate" if size["upper"] is None else "upper"
    assert redundancy["upper"] == size[known] <= size["parameters"] - total
    if size["evidence"][known]["kind"] in ("symmetries", "counted-symmetries"):
        assert size[known] == size["parameters"] - total
    proved = size["lower"] == size["upper"] is not None
    status = {"upper": "proved" if proved else "bounded", "estimate": "estimated"}[known]
    assert found["dimension"].status == status
    assert (found["redundancy"].status == "proved") == proved
    assert ("At least" in found["redundancy"].lead) == (status == "bounded" and total > 0)


def test_pieces_are_those_of_the_shapes() -> None:
    d, ff, vocab, layers = 768, 3072, 50257, 12
    assert parameters_by_piece(architecture("gpt2")) == {
        "embeddings": (vocab + 1024) * d,
        "queries and keys": layers * 2 * d * d,
        "values and outputs": layers * 2 * d * d,
        "MLP": layers * 2 * d * ff,
        "norms": (2 * layers + 1) * 2 * d,
        "biases": layers * (4 * d + ff + d),
    }


def test_a_count_is_never_called_a_proof() -> None:
    found = segre.analyze("pythia-70m", only=["dimension", "redundancy", "proof"])
    assert [part.status for part in found.parts] == ["bounded", "bounded", "not run"]
    assert found["dimension"].lead.startswith("The functional dimension is at most")
    for certificate in found["proof"].data["certificates"]:
        assert certificate["claim"]["parameters"] < 1000
        assert segre.verify(certificate).valid


@pytest.mark.parametrize("spec", ["softmax/d=3,3/a=1/t=2", LLAMA])
def test_the_certificate_is_of_the_spec_itself(spec: str) -> None:
    found = segre.analyze(spec, only=["proof"], seed=5)
    (certificate,) = found["proof"].data["certificates"]
    assert certificate == segre.certify(spec, seed=5)
    assert certificate["digest"] == architecture(spec).digest


def test_bounds_that_do_not_meet_are_not_proved() -> None:
    found = segre.analyze("lightning/d=2,4/a=2/heads=3/dv=1/t=2", only=["dimension", "proof"])
    assert found["dimension"].status == "certain"
    assert found["dimension"].lead.startswith("The functional dimension is 21 of ")
    assert found["dimension"].lead.endswith("The dimension is certain (error < 2^-60).")
    assert found["dimension"].proved_by is None
    assert (
        "dimension 21 of 42 parameters, certain (error < 2^-60, by random points)"
        in found["proof"].lead
    )
    assert found["proof"].status == "certain"
    assert found["proof"].proved_by is None


@pytest.mark.parametrize(
    "spec", ["softmax/d=4,4,4,4,4,4,4,4,4,4,4/a=2/t=3", "lightning/d=4,4,4/a=2/t=3", LLAMA]
)
def test_the_document_is_strict_json_and_repeats_itself(spec: str) -> None:
    def without_times(text: str) -> Any:
        found = json.loads(text)
        for part in found["parts"]:
            del part["seconds"]
        return found

    one, two = (json.dumps(segre.analyze(spec, seed=2).document(), allow_nan=False) for _ in "ab")
    assert without_times(one) == without_times(two)


# --- the commands reproduce the parts -----------------------------------------------------


@pytest.mark.parametrize("target", ["softmax/d=4,4,4/a=2/t=3", LLAMA, "qwen3-0.6b"])
def test_commands_answer_the_same(target: str, tmp_path: Path) -> None:
    found = segre.analyze(target, only=[*CHEAP, "proof", "paths"], seed=3)
    data = {part.key: part.data for part in found.parts}
    _, what = answered(f"{found['what'].command} --json", tmp_path)
    assert what["parts"][0]["data"] == data["what"]
    _, size = answered(f"{found['dimension'].command} --json", tmp_path)
    assert size == json.loads(json.dumps(data["dimension"]))
    _, why = answered(f"{found['redundancy'].command} --json", tmp_path)
    assert why["symmetries"] == data["redundancy"]["symmetries"]
    assert why.get("choices", []) == data["redundancy"].get("choices", [])
    code, verdict = answered(f"({found['proof'].command} --json) | tail -n +3", tmp_path)
    assert (code, verdict["valid"]) == (0, True)
    written = json.loads((tmp_path / "certificate.json").read_text())
    assert written == data["proof"]["certificates"][0]
    _, shares = answered(f"{found['paths'].command} --json", tmp_path)
    assert shares["shares"] == data["paths"]["shares"]


@pytest.mark.parametrize(
    "target",
    [
        "softmax/d=4,4,4/a=2/t=3",
        "gpt2/d=4/layers=3/heads=2/ff=4/norm=none/pos=none/t=3",
        LLAMA,
        "LARGE",
    ],
)
def test_the_command_about_depth_answers_the_same(target: str, tmp_path: Path) -> None:
    given = "mistral-7b-v0.3" if target == "LARGE" else target
    part = segre.analyze(given, only=["depth"], seed=3, inputs=2, length=8)["depth"]
    assert part.data is not None, part.reason
    _, found = answered(f"{part.command} --json", tmp_path)
    key = "log10" if part.data["kind"] == "stack" else "curves"
    assert found[key] == json.loads(json.dumps(part.data[key]))


@pytest.mark.slow
def test_commands_about_weights_answer_the_same(model: Path) -> None:
    keys = ["depth", "heads", "paths", "weights"]
    found = segre.analyze(model, only=keys, inputs=2, length=9, seed=1)
    data = {part.key: json.loads(json.dumps(part.data)) for part in found.parts}
    _, depth = answered(f"{found['depth'].command} --json", model.parent)
    assert depth["curves"] == data["depth"]["curves"]
    _, info = answered(f"{found['weights'].command} --json", model.parent)
    assert info["measured"] == data["weights"]["measured"]
    _, heads = answered(f"{found['heads'].command} --json", model.parent)
    assert heads["parts"][0]["data"] == data["heads"]
    for mine, theirs in zip(data["heads"]["layers"], info["measured"]["layers"], strict=True):
        for one, other in zip(mine["OV"], theirs["OV"], strict=True):
            assert {key: one[key] for key in other} == other
    _, paths = answered(f"{found['paths'].command} --json", model.parent)
    np.testing.assert_allclose(paths["paths"]["norm"], data["paths"]["norms"], rtol=1e-12)
    assert data["paths"]["identity"] < 1e-12
    heads = [layer["share"] for layer in paths["through"]["heads"]]
    np.testing.assert_allclose(heads, data["paths"]["through"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES[::4])
def test_paths_are_those_of_the_command_unless_it_is_told_otherwise(
    name: str, tmp_path: Path
) -> None:
    """One default, named in both places: the same lengths and heads are the strongest."""
    folder = save_tiny(name, tmp_path / "model")
    part = segre.analyze(folder, only=["paths"])["paths"]
    _, found = answered(f"segre model paths {folder} --json", tmp_path)
    assert found["model"].endswith("(the whole model)")
    assert part.data["variant"] == "full"
    np.testing.assert_allclose(found["paths"]["share"], part.data["shares"], rtol=1e-9, atol=1e-12)
    every = [*part.data["shares"], part.data["bias_share"]]
    assert sum(every) == pytest.approx(1)
    largest = int(np.argmax(every))
    said = "Biases carry" if largest == len(every) - 1 else f"Paths of length {largest} carry"
    assert said in part.lead
    heads = np.array(part.data["through"])
    layer, head = np.unravel_index(heads.argmax(), heads.shape)
    assert f"carries most is head {head + 1} of layer {layer + 1}" in part.lead


# --- the target ---------------------------------------------------------------------------


def test_every_kind_of_target_is_the_same_architecture(model: Path, tmp_path: Path) -> None:
    spec = architecture(str(model))
    config = tmp_path / "config.json"
    config.write_text((model / "config.json").read_text())
    toml = tmp_path / "spec.toml"
    toml.write_text("".join(f"{key} = {json.dumps(v)}\n" for key, v in spec.document().items()))
    for target in (model, config, tmp_path, toml, str(spec)):
        found = segre.analyze(target, only=["dimension"])
        assert found.spec == spec, target
        assert found.weights == (target == model)


def test_a_real_checkpoint() -> None:
    found = segre.analyze(minilm(), only=["dimension", "heads", "weights", "paths"], length=16)
    assert [part.status for part in found.parts] == ["proved", "measured", "measured", "measured"]
    assert found["dimension"].data["parameters"] == 22_713_216
    measures = {one["key"]: one["values"] for one in found["heads"].data["measures"]}
    assert {"sinks", "entropy", "gap", "query-scale"} <= set(measures)
    assert all(np.shape(values) == (6, 12) for values in measures.values())
    assert found["paths"].data["identity"] < 1e-12
    paths = found["paths"].data
    assert sum(map(int, paths["counts"])) == 13**6
    assert sum(paths["shares"]) + paths["bias_share"] == pytest.approx(1)
    for past, heads in zip(paths["past"], paths["through"], strict=True):
        assert past + sum(heads) + paths["bias_share"] == pytest.approx(1)


def test_findings_come_first_and_are_those_of_diagnose(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The city of Venice, built on more than one hundred small islands.")
    found = segre.analyze(minilm(), only=["findings", "heads", "what"], length=24, text=text)
    alone = segre.diagnose(minilm(), length=24, text=text)
    assert [part.key for part in found.parts] == ["findings", "what", "heads"]
    assert found["findings"].data["findings"] == alone.document()["findings"]
    assert found["findings"].lead == alone.in_words
    every = [*found["findings"].data["measures"], *found["heads"].data["measures"]]
    key = "key"
    assert sorted(every, key=lambda one: one[key]) == sorted(
        alone.document()["measures"], key=lambda one: one[key]
    )
    assert "segre model diagnose" in found["findings"].command
    assert str(found).count("1. Attention sink") == 1


def test_one_pass_serves_findings_and_heads(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    right = workbench.recorded
    monkeypatch.setattr(
        workbench, "recorded", lambda *args, **more: passes.append(1) or right(*args, **more)
    )
    segre.analyze(model, only=["findings", "heads"])
    assert len(passes) == 1


def test_designs_without_weights_have_nothing_to_look_into() -> None:
    assert "findings" not in segre.analyze(LLAMA, memory=1 << 20)
    asked = segre.analyze(LLAMA, only=["findings"])["findings"]
    assert (asked.status, asked.reason[:13]) == ("not run", "needs weights")


def test_a_choice_that_is_not_implemented_is_named(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "embedding_size": 12, "num_hidden_layers": 2, "vocab_size": 20}
    more = {"intermediate_size": 8, "max_position_embeddings": 32, "num_attention_heads": 2}
    config = {"model_type": "electra", "architectures": ["ElectraModel"], **sizes, **more}
    library_model(config, 0).save_pretrained(tmp_path)
    found = segre.analyze(tmp_path, only=["dimension", "weights"])
    assert found["dimension"].data is not None
    assert found["weights"].reason.startswith("embed: the normal form is not implemented")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("softmax/d=4,4/a=0/t=3", "a"),
        ("llama-3-9b", "closest names"),
        ("nowhere/at/all", "not a known name"),
        ("model.gguf", "segre model convert"),
        ("x" * 5000, "not a known name"),
    ],
)
def test_targets_that_are_refused(target: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        segre.analyze(target)


def test_weights_that_are_not_numbers_are_an_error(model: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(name for name in tensors if "v_proj" in name)
    tensors[name][0, 0] = np.nan
    save_file(tensors, tmp_path / "model.safetensors")
    for only in ((), ["paths"], ["depth"], ["heads"]):
        with pytest.raises(CheckpointError, match="finite"):
            segre.analyze(tmp_path, only=only)
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(CheckpointError):
        segre.analyze(tmp_path)


# --- parts that cannot run ----------------------------------------------------------------


def test_everything_comes_without_torch(model: Path) -> None:
    code = (
        "import sys, json; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "import segre; found = segre.analyze(sys.argv[1])\n"
        "print(json.dumps(found.document(), allow_nan=False))"
    )
    done = subprocess.run([sys.executable, "-c", code, model], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = {part["key"]: part for part in json.loads(done.stdout)["parts"]}
    assert all(part["data"] is not None for part in parts.values())
    assert any(one["key"] == "entropy" for one in parts["heads"]["data"]["measures"])
    assert parts["paths"]["data"]["kind"] == "sums"


def test_past_the_memory_limit_the_rest_still_comes() -> None:
    found = segre.analyze(LLAMA, only=[*CHEAP, "proof", "paths"], memory=1 << 20)
    assert found["what"].data is not None
    assert found["paths"].data is not None
    for key in ("dimension", "proof"):
        assert found[key].status == "not run"
        assert "over the limit" in found[key].reason
        assert not found[key].failed


def test_a_spec_file_without_a_vocabulary_says_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "llama.toml"
    file.write_text('kind = "llama"\nd = 4\nheads = 2\nff = 3\nt = 3\n')
    found = segre.analyze(file, only=["depth", "dimension"])
    assert found["dimension"].status == "proved"
    assert "no vocabulary" in found["depth"].reason


def test_too_large_to_run_is_estimated_on_a_narrow_one() -> None:
    found = segre.analyze("llama-3-8b", only=["depth"], inputs=1, length=8)
    part = found["depth"]
    assert part.status == "estimated"
    assert part.data["narrowed"]
    assert part.data["layers"] == 32
    assert "width 256 instead of 4,096" in part.how
    assert part.data["run"] in part.command


def test_a_bug_in_one_part_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_bench: Any) -> Any:
        return 1 // 0

    monkeypatch.setitem(run.QUESTIONS, "redundancy", ("Broken", broken))
    found = segre.analyze("softmax/d=3,3/a=1/t=2", only=CHEAP)
    assert [part.key for part in found.failed] == ["redundancy"]
    assert "ZeroDivisionError" in found["redundancy"].reason
    assert found["dimension"].data is not None


def test_interrupts_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_bench: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(run.QUESTIONS, "redundancy", ("Stopped", interrupted))
    with pytest.raises(KeyboardInterrupt):
        segre.analyze("softmax/d=3,3/a=1/t=2", only=CHEAP)

    def wrapped(_bench: Any) -> Any:  # as an import does
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError from error

    monkeypatch.setitem(run.QUESTIONS, "redundancy", ("Stopped", wrapped))
    with pytest.raises(RuntimeError):
        segre.analyze("softmax/d=3,3/a=1/t=2", only=CHEAP)


def test_texts_that_cannot_be_read_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not a file"):
        segre.analyze(model, text=tmp_path / "no.txt")
    with pytest.raises(SpecError, match="needs a model directory"):
        segre.analyze("gpt2", text=__file__)


def test_a_text_is_read_by_the_tokenizer(tmp_path: Path) -> None:
    book = tmp_path / "a book.txt"
    book.write_text("Many weights give the same function. " * 40)
    keys = ["depth", "paths"]
    found = segre.analyze(minilm(), only=keys, inputs=1, length=24, text=book)
    assert found["depth"].data["inputs"]["kind"] == book.name
    (tmp_path / minilm().name).symlink_to(minilm())  # commands name files, not where they are
    _, depth = answered(f"{found['depth'].command} --json", tmp_path)
    assert depth["curves"] == json.loads(json.dumps(found["depth"].data["curves"]))
    _, paths = answered(f"{found['paths'].command} --json", tmp_path)
    np.testing.assert_allclose(paths["paths"]["norm"], found["paths"].data["norms"], rtol=1e-9)


def test_parts_that_are_not_known_are_refused() -> None:
    with pytest.raises(SegreError, match="allowed: findings, what, dimension"):
        segre.analyze("gpt2", only=["colour"])


# --- the bundled example ------------------------------------------------------------------


def test_the_bundled_model_sorts_every_input() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SORTS, ROOT / "examples" / "tiny-llama"],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "6561 of 6561\n", done.stderr


_SORTS = f"""
import sys
sys.path.insert(0, {str(ROOT / "examples" / "tiny-llama")!r})
from train import DIGITS, COUNT, right
from transformers import LlamaForCausalLM
print(right(LlamaForCausalLM.from_pretrained(sys.argv[1])), "of", DIGITS**COUNT)
"""


def test_commands_are_quoted(tmp_path: Path, model: Path) -> None:
    odd = tmp_path / "a model; echo $HOME"
    odd.symlink_to(model)
    found = segre.analyze(odd, only=["dimension"])
    words = shlex.split(found["dimension"].command)
    assert words == ["segre", "dim", odd.name]


# --- every kind of checkpoint -------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_checkpoint(name: str, tmp_path: Path) -> None:
    keys = ["what", "dimension", "redundancy", "depth", "heads", "paths", "weights"]
    found = segre.analyze(save_tiny(name, tmp_path / "m"), only=keys, length=12, inputs=2)
    assert [part.reason for part in found.parts] == [""] * len(keys)
    json.dumps(found.document(), allow_nan=False)
    # rounding alone: gpt-oss was measured at 1.25e-13, all others are below
    limit = 2e-13 if name.startswith("gpt-oss") else 1e-13
    assert found["paths"].data["identity"] < limit
    special = "rotary planes have equal gains" if name in UNIT_GAINS else "No special points"
    assert special in found["weights"].lead
