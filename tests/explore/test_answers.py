"""What the page is told is what segre says, and no bound is told as a proof."""

import pytest

import segre
from segre.explore.answers import answer
from segre.explore.designs import design, presets
from segre.explore.stack_controls import NAMED_STACKS
from segre.finding import OWN
from segre.geometry.at_any_size import at_any_size, formulas
from segre.geometry.closed_form import predicted
from segre.geometry.explain import of_transformer
from segre.sequence.cost import cost
from support.random_designs import random_design


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_is_what_segre_says(seed: int) -> None:
    text = random_design(seed)
    told = answer("known", text)
    spec = design(text)
    found = at_any_size(spec, formulas)
    assert told["spec"] == text
    assert int(told["parameters"]) == spec.parameters
    assert (told["status"] == "proved") == (found.value is not None)
    estimated = found.upper is None
    assert int(told["bound"]) == (found.estimate if estimated else found.upper)
    assert told["dimension"].startswith("at most ") == (found.value is None and not estimated)
    assert (
        told["dimension"].startswith("predicted ") == estimated == (told["status"] == "estimated")
    )
    assert found.redundancy is None or told["pieces"] == {
        group: str(n) for group, n in found.redundancy["pieces"].items()
    }
    assert (told["theorem"] is None) == (found.value is None)
    explained = of_transformer("", spec, formulas)
    assert [(one["name"], int(one["dimension"])) for one in told["symmetries"]] == [
        (one.name, one.dimension) for one in explained.finding.symmetries
    ]
    assert [(one["choice"], int(one["total"])) for one in told["choices"]] == [
        (one.name, one.total) for one in explained.choices if one.total
    ]
    counts = cost(spec, [one["tokens"] for one in told["cost"]])
    assert tuple(int(one["operations"]) for one in told["cost"]) == counts.value


@pytest.mark.parametrize("name", NAMED_STACKS)
def test_stacks_are_proved_or_predicted_and_never_confused(name: str) -> None:
    told = answer("known", NAMED_STACKS[name])
    spec = design(NAMED_STACKS[name])
    assert int(told["parameters"]) == spec.parameters
    assert int(told["redundant"]) == sum(int(one["dimension"]) for one in told["symmetries"])
    assert int(told["redundant"]) == sum(map(int, told["pieces"].values()))
    if told["status"] == "proved":
        assert int(told["bound"]) == segre.dimension(spec).value
    else:
        assert told["status"] == "estimated"
        assert "neither proved nor a bound" in told["known"]
        assert told["dimension"] == f"predicted {predicted(spec):,}"
    if "theorem" in told["known"]:
        assert segre.verify(answer("certificate", NAMED_STACKS[name])["certificate"]).valid


def test_a_small_stack_is_computed_at_once() -> None:
    text = "fast/d=3/layers=1/a=3/t=3"
    told = answer("known", text)
    assert told["known"] == "proved by computation"
    assert int(told["dimension"]) == segre.dimension(design(text)).value


def test_hypotheses_that_fail_are_shown() -> None:
    text = "transformer/d=64/layers=4/heads=4/ff=128/mlp=swiglu/norm=rms/eps=1e-05/pos=rope"
    told = answer("known", f"{text}/causal=true/vocab=100/t=64")
    assert (told["status"], told["theorem"]) == ("bounded", None)
    assert told["unmet"]["name"] == "C"
    assert any(not one["holds"] for one in told["unmet"]["hypotheses"])


def test_presets_are_answered_and_read_back() -> None:
    for name, text in list(presets().items())[: -len(NAMED_STACKS) : 6]:
        told = answer("known", text)
        assert "error" not in told, name
        assert int(told["parameters"]) == segre.architecture(name).parameters


def test_how_it_is_known_is_said() -> None:
    told = answer("known", presets()["llama-3-8b"])
    assert told["known"] == f"proved by theorem C ({OWN})"
    assert told["label"] == "proved by theorem"
    bound = answer("known", presets()["pythia-70m"])
    assert (bound["status"], bound["known"][:11]) == ("bounded", "upper bound")
    assert bound["dimension"].startswith("at most ")
    small = "transformer/d=4/heads=2/t=3"
    assert answer("known", small)["status"] == "bounded"
    assert answer("known", small)["computable"]
    proved = answer("proof", small)
    assert proved["known"] == "proved by computation"
    assert int(proved["dimension"]) == segre.dimension(small).value
    certificate = answer("certificate", small)["certificate"]
    assert segre.verify(certificate).valid


@pytest.mark.parametrize(
    ("question", "text", "words"),
    [
        ("known", "transformer/d=8/heads=3/t=3", "heads: 3 does not divide d=8"),
        ("known", "transformer/d=8/layers=4000/t=3", "4,000 layers"),
        ("known", "poly/3-5-2/degree=3", "takes transformers"),
        ("known", "/etc/passwd", "takes transformers"),
        ("known", "double/d=64/layers=2/a=99/t=30", "run: segre dim mix/d=64"),
        ("known", "transformer/d=64/head=65/t=1", "the formulas do not cover"),
        ("proof", "transformer/d=512/heads=8/t=64", "at most 6,000 parameters"),
        ("certificate", "transformer/d=512/heads=8/t=64", "at most 6,000 parameters"),
        ("curve", "transformer/d=4096/layers=32/heads=32/t=64", "too many to run here"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(question: str, text: str, words: str) -> None:
    told = answer(question, text)
    assert set(told) == {"error"}
    assert words in told["error"]
    assert "\n" not in told["error"]


@pytest.mark.parametrize(
    "text",
    [
        "transformer/d=16/layers=4/heads=2/t=8",
        "transformer/d=16/layers=4/heads=2/residual=false/t=64",
        "transformer/d=16/layers=3/heads=2/norm=rms/ff=24/mlp=swiglu/pos=rope/causal=true/t=40",
        "transformer/d=16/layers=3/heads=2/norm=layer/pos=learned/vocab=50/t=64",
        "transformer/d=16/layers=3/heads=2/norm=rms/attn=lightning/t=12",
        "softmax/d=8/layers=4/a=4/heads=2/t=64",
        "double/d=8/layers=3/a=4/heads=2/gate=head/t=64",
    ],
)
def test_a_curve_has_a_point_after_every_layer(text: str) -> None:
    told = answer("curve", text)
    assert "error" not in told, told
    assert told["how"].startswith(
        "Measured, not proved: one draw of random weights (seed 0), run on"
    )
    assert "without skips" in told["curves"]
    for line in told["curves"].values():
        assert len(line) == design(text).depth + 1
