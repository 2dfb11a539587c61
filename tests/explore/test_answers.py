"""What the page is told is what segre says, and no bound is told as a proof."""

import random

import pytest

import segre
from segre.explore.answers import answer
from segre.explore.controls import CONTROLS, design, presets, values_of
from segre.geometry.at_any_size import at_any_size
from segre.geometry.explain import explain
from segre.sequence.cost import cost
from segre.transformer.spec import Transformer


def random_design(seed: int) -> str:
    """Choices of the controls, drawn until they do not contradict each other."""
    rng = random.Random(seed)
    for _ in range(10_000):
        heads, kv = rng.choice([(1, 1), (2, 1), (4, 2), (4, 4)])
        rank = rng.choice([2, 4, 6])
        sizes = {"d": rank * heads + rng.choice([1, 5, 8]), "layers": rng.randint(1, 4)}
        chosen = {c.key: rng.choice(c.values) for c in CONTROLS if c.kind == "choice"}
        flags = {c.key: rng.choice(["true", "false"]) for c in CONTROLS if c.kind == "flag"}
        more = {"heads": heads, "kv": kv, "head": rank, "t": rng.randint(8, 40)}
        more |= {"vocab": rng.choice([0, 90])}
        given = {**sizes, **chosen, **flags, **more}
        if given["mlp"] != "none":
            given["ff"] = rng.randint(6, 30)
        if not given["vocab"]:
            given |= {"tied": "false", "output": "hidden"}
        if given["norm"] == "none":
            given |= {"place": "pre", "eps": "0"}
        try:
            inline = "/".join(f"{key}={value}" for key, value in given.items())
            return str(Transformer.parse(f"transformer/{inline}"))
        except segre.SegreError:
            continue
    raise AssertionError("no design was drawn that does not contradict itself")


@pytest.mark.parametrize("seed", range(24))
def test_what_is_told_is_what_segre_says(seed: int) -> None:
    text = random_design(seed)
    told = answer("known", text)
    spec = design(text)
    found = at_any_size(spec)
    assert told["spec"] == text
    assert int(told["parameters"]) == spec.parameters
    assert (told["status"] == "proved") == (found.value is not None)
    assert int(told["bound"]) == found.upper
    assert told["dimension"].startswith("at most ") == (found.value is None)
    assert found.redundancy is None or told["pieces"] == {
        group: str(n) for group, n in found.redundancy["pieces"].items()
    }
    explained = explain(spec)
    assert [(one["name"], int(one["dimension"])) for one in told["symmetries"]] == [
        (one.name, one.dimension) for one in explained.finding.symmetries
    ]
    assert [(one["choice"], int(one["total"])) for one in told["choices"]] == [
        (one.name, one.total) for one in explained.choices if one.total
    ]
    counts = cost(spec, [one["tokens"] for one in told["cost"]])
    assert tuple(int(one["operations"]) for one in told["cost"]) == counts.value


def test_presets_are_answered_and_read_back() -> None:
    for name, text in list(presets().items())[::6]:
        told = answer("known", text)
        assert "error" not in told, name
        assert int(told["parameters"]) == segre.architecture(name).parameters
        assert told["values"] == values_of(design(text))


def test_how_it_is_known_is_said() -> None:
    assert answer("known", presets()["llama-3-8b"])["known"] == "proved by theorem C"
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
        ("known", "softmax/d=4,4/a=2/t=3", "supports only transformers"),
        ("known", "/etc/passwd", "supports only transformers"),
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
    ],
)
def test_a_curve_has_a_point_after_every_layer(text: str) -> None:
    told = answer("curve", text)
    assert "error" not in told, told
    assert told["how"].startswith("measured: ")
    assert "without skips" in told["curves"]
    for line in told["curves"].values():
        assert len(line) == design(text).layers + 1
