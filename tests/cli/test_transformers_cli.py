"""Transformers on the command line: presets, configs, comparison and explanation."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import segre
from segre.finding import OWN
from support.terminal import run

PIECES = ("QK", "VO", "MLP", "norms and biases", "shifts", "residual")
SMALL = "llama/d=4/layers=1/heads=2/kv=1/head=2/ff=5/t=3"
CONFIG: dict[str, Any] = {  # 184 parameters
    "model_type": "llama",
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 3,
    "vocab_size": 11,
    "max_position_embeddings": 3,
    "rms_norm_eps": 1e-5,
}

# Parameters, the six pieces, and all redundant parameters.
WORKED = {
    "gpt2": (124_439_808, 589_824, 589_824, 0, 166_936, 768, 0, 1_347_352),
    "bert-base-uncased": (109_514_298, 589_824, 589_824, 0, 151_066, 1_536, 0, 1_332_250),
    "llama-2-7b": (
        *(6_738_415_616, 131_072, 16_777_216, 352_256, 266_240, 4_096, 8_386_560),
        25_917_440,
    ),
    "llama-3-8b": (
        *(8_030_261_248, 32_768, 4_194_304, 458_752, 266_240, 4_096, 8_386_560),
        13_342_720,
    ),
    "mistral-7b-v0.1": (
        *(7_241_732_096, 32_768, 4_194_304, 458_752, 266_240, 4_096, 8_386_560),
        13_342_720,
    ),
    "qwen2-7b": (
        *(7_615_616_512, 14_336, 1_835_008, 530_432, 204_288, 3_584, 6_420_736),
        9_008_384,
    ),
}
PERCENT = ("1.083", "1.217", "0.385", "0.166", "0.184", "0.118")


def answer(*arguments: str, cwd: Path | None = None) -> dict[str, Any]:
    """What a command says as JSON."""
    result = run(*arguments, "--json", cwd=cwd)
    assert (result.returncode, result.stderr) == (0, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(*arguments: str, cwd: Path | None = None) -> str:
    """The one line of a command that refuses."""
    result = run(*arguments, cwd=cwd)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(r"segre: [^\n]+\n", result.stderr), result.stderr
    return result.stderr


def line(text: str, *words: str) -> str:
    """The one line that begins with these words, blanks apart."""
    found = re.findall("^" + " +".join(map(re.escape, words)) + "(?: .*)?$", text, re.MULTILINE)
    assert len(found) == 1, (words, text)
    return str(found[0])


# --- models people run ------------------------------------------------------------------------


def test_a_model_that_no_theorem_covers_is_counted_and_says_so() -> None:
    result = run("dim", "qwen3-30b-a3b")
    assert (result.returncode, result.stderr) == (0, "")
    assert "proved" not in line(result.stdout, "dimension", "at most", "30,521,860,096")
    assert "an upper bound, counted by formulas" in line(result.stdout, "dimension")
    assert "does not cover experts=128" in " ".join(result.stdout.split())


def test_the_dimension_of_a_large_model_is_a_theorem() -> None:
    result = run("dim", "llama-3-8b")
    assert (result.returncode, result.stderr) == (0, "")
    told = line(result.stdout, "dimension", "8,016,918,528")
    assert told.endswith(f"proved by theorem C ({OWN})")
    line(result.stdout, "lower bound", "8,016,918,528")
    line(result.stdout, "hypotheses", "C.d", "d >= 3:", "4,096 >= 3")
    line(result.stdout, "parameters", "8,030,261,248")
    assert "(0.166 %)" in line(result.stdout, "redundant", "13,342,720")
    line(result.stdout, "QK", "32,768")
    line(result.stdout, "VO", "4,194,304")
    line(result.stdout, "MLP", "458,752")
    line(result.stdout, "norms and biases", "266,240")
    line(result.stdout, "shifts", "4,096")
    line(result.stdout, "residual", "8,386,560")


def test_a_large_model_as_json() -> None:
    found = answer("dim", "llama-3-8b")
    assert found["parameters"] == 8_030_261_248
    value = 8_030_261_248 - 13_342_720
    assert (found["status"], found["lower"], found["upper"]) == ("proved", value, value)
    assert (found["dimension"], found["fiber_dimension"]) == (value, 13_342_720)
    assert found["evidence"]["lower"]["theorem"]["name"] == "C"
    assert found["redundancy"] == {
        "total": 13_342_720,
        "pieces": dict(zip(PIECES, WORKED["llama-3-8b"][1:7], strict=True)),
        "holds": {"exact": 13_342_720 - 4_096, "eps=0": 0, "softmax": 4_096},
    }


def test_the_worked_table() -> None:
    models = answer("dim", "--compare", *WORKED)["models"]
    rows = {
        model["name"]: (
            model["parameters"],
            *(model["redundancy"]["pieces"][piece] for piece in PIECES),
            model["redundancy"]["total"],
        )
        for model in models
    }
    assert rows == WORKED
    assert list(rows) == list(WORKED)
    assert all(sum(row[1:7]) == row[7] for row in WORKED.values())


def test_the_worked_table_as_text() -> None:
    result = run("dim", "--compare", *WORKED)
    assert (result.returncode, result.stderr) == (0, "")
    title, *lines, last = result.stdout.splitlines()
    assert last == f"Proved by theorem: {OWN}."
    ends = ["redundant", "%", "dimension", "known", "by"]
    assert title.split() == ["model", "parameters", *" ".join(PIECES).split(), *ends]
    assert [each.split()[:-5] for each in lines] == [
        [name, *(f"{number:,}" for number in row), percent]
        for (name, row), percent in zip(WORKED.items(), PERCENT, strict=True)
    ]


def test_the_logits_see_the_shifts() -> None:
    found = answer("dim", "llama-3-8b", "--head", "logits")
    pieces = dict(zip(PIECES, WORKED["llama-3-8b"][1:7], strict=True))
    assert found["redundancy"]["pieces"] == {**pieces, "shifts": 0}
    assert found["redundancy"]["total"] == 13_342_720 - 4_096
    assert answer("dim", "llama-3-8b", "--head", "softmax") == answer("dim", "llama-3-8b")
    trunk = answer("dim", str(segre.architecture("llama-3-8b").trunk()))
    assert answer("dim", "llama-3-8b", "--head", "hidden") == trunk


# --- refusals ---------------------------------------------------------------------------------


def test_several_models_need_compare() -> None:
    assert "--compare" in refusal("dim", "gpt2", "llama-3-8b")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("llama-3-9b", "llama-3-8b"), ("GPT2-XXL", "gpt2-xl"), ("meta/llama-2-7B", "llama-2-7b")],
)
def test_an_unknown_model_is_refused_with_a_guess(written: str, meant: str) -> None:
    assert re.search(rf"closest names: [^)]*\b{meant}\b", refusal("dim", written))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dim", SMALL, "--method", "closed-form"), "no closed form"),
        (("dim", SMALL, "--head", "logits"), "needs a model with a head"),
        (("dim", "--compare", "gpt2", "softmax/d=4,4/a=2/t=3"), "supports only transformers"),
        (("explain", "softmax/d=4,4/a=2/t=3", "--head", "logits"), "needs a model with a head"),
        (("explain", "llama-3-9b"), "closest names: llama-3-8b"),
        (("explain", "gpt2", "--head", "words"), "allowed: logits, softmax, hidden"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_not_for_transformers(arguments: tuple[str, ...], said: str) -> None:
    assert said in refusal(*arguments)


# --- configs ----------------------------------------------------------------------------------


def test_a_config_and_a_directory_with_it_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    inline = "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/t=3"
    models = answer("dim", "--compare", "config.json", ".", inline, cwd=tmp_path)["models"]
    assert [model.pop("name") for model in models] == ["config.json", ".", inline]
    assert models[0] == models[1] == models[2]
    found = answer("dim", str(tmp_path))
    assert (found["parameters"], found["dimension"], found["status"]) == (184, 153, "proved")
    assert found["digest"] == models[0]["digest"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(CONFIG)[:-20], "not a JSON document"),
        ("", "not a JSON document"),
        ("[]", "not a table"),
        (json.dumps({**CONFIG, "rms_norm_eps": float("nan")}), "rms_norm_eps: 'nan'"),
        (json.dumps({**CONFIG, "hidden_size": float("nan")}), "hidden_size: 'nan'"),
        (json.dumps({**CONFIG, "rope_theta": float("inf")}), "rope_theta: 'inf'"),
        (json.dumps({**CONFIG, "model_type": "lama"}), "model_type: 'lama'"),
        (json.dumps({**CONFIG, "hidden_size": 10**30}), "hidden_size: '1000"),
        (json.dumps({**CONFIG, "num_hidden_layers": 10**30}), "num_hidden_layers: '1000"),
        (json.dumps({**CONFIG, "vocab_size": -1}), "vocab_size: '-1'"),
        (f'{{"model_type": "llama", "hidden_size": {"9" * 5000}}}', "not a JSON document"),
        (json.dumps({**CONFIG, "rms_norm_eps": 1e30}), "rms_norm_eps: '1e+30'"),
    ],
    ids=[
        *("truncated", "empty", "list", "nan eps", "nan width", "infinite base", "unknown type"),
        *("huge width", "huge depth", "negative", "5000 digits", "huge eps"),
    ],
)
def test_a_bad_config_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    assert said in refusal("dim", ".", "--json", cwd=tmp_path)


def test_a_directory_without_a_config(tmp_path: Path) -> None:
    assert "config.json" in refusal("dim", str(tmp_path))


# --- small transformers, computed -------------------------------------------------------------


def test_a_small_transformer_is_proved() -> None:
    result = run("dim", SMALL)
    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r"^dimension +97 +proved by computation$", result.stdout, re.MULTILINE)
    line(result.stdout, "parameters", "116")
    line(result.stdout, "redundant", "19")


def test_an_estimate_is_called_one() -> None:
    result = run("dim", SMALL, "--method", "estimate")
    assert result.returncode == 0
    assert line(result.stdout, "dimension").endswith("estimate, not proved")
    found = answer("dim", SMALL, "--method", "estimate")
    assert (found["status"], found["lower"], found["upper"]) == ("estimate", None, None)


# --- explanations -----------------------------------------------------------------------------


def test_explain_a_model() -> None:
    result = run("explain", "gpt2")
    assert (result.returncode, result.stderr) == (0, "")
    assert "124,439,808 parameters, of which 1,347,352 (1.083 %)" in result.stdout
    assert "S_12: heads, at each of 12 places" in result.stdout
    assert "S_3072: hidden units, at each of 12 places" in result.stdout
    said = " ".join(result.stdout.split())
    assert "Tied embeddings, instead of a separate table for the output: removes" in said


def test_explain_as_json() -> None:
    found = answer("explain", "llama/d=8/heads=4/kv=2/head=2/ff=16/vocab=40/t=3")
    assert found["parameters"] == 1240
    choices = {choice["choice"]: choice for choice in found["choices"]}
    assert all(sum(choice["change"].values()) == choice["total"] for choice in choices.values())
    rotary = choices["rotary positions"]
    assert rotary["instead_of"] == "no positions"
    # GL(2) of each of two key-value heads instead of a scaled rotation
    assert rotary["change"] == {**dict.fromkeys(PIECES, 0), "QK": 2 * 4 - 2 * 2}
    assert choices["the softmax of the output"]["change"]["shifts"] == -8
    discrete = {(one["what"], one["group"]) for one in found["discrete"]}
    assert ("hidden units", "S_16") in discrete
