"""`diff` and `hash` of small networks answer as they do for checkpoints."""

import json
from pathlib import Path

import numpy as np
import pytest

import segre
from segre import PolynomialWeights, Weights
from segre.analysis.diff import SmallDiff
from segre.checkpoints import content_hash
from segre.report.text import text_of
from support.draws import draws
from support.terminal import run

DESIGNS = ("lightning/d=3,3,3/a=2/t=2", "softmax/d=3,3,3/a=2/t=3", "softmax/d=4,3/a=2/heads=2/t=2")
POLYNOMIAL = "poly/2-3-1/degree=2"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("text", DESIGNS)
def test_all_weights_of_one_function_have_one_hash(text: str, exact: bool) -> None:
    for seed in draws(4):
        w = Weights.random(text, seed=seed, exact=exact)
        own = content_hash(w)
        assert own.function is not None
        for same in (segre.move(w, seed), Weights(w.spec, w.vector.astype(float))):
            found = content_hash(same)
            assert own.compare(found).verdict in ("same function", "same values")
            assert own.value in (found.value, *found.function.others, *own.function.others)
        other = content_hash(Weights.random(text, seed=seed + 100, exact=exact))
        assert own.compare(other).verdict == "different"
        assert own.value != other.value
        assert content_hash(w, exact=True).value == own.values != other.values


@pytest.mark.parametrize("text", DESIGNS)
def test_only_changes_of_the_function_count(text: str) -> None:
    for seed in draws(4):
        w = Weights.random(text, seed=seed, exact=True)
        found = segre.diff(w, segre.move(w, seed))
        assert isinstance(found, SmallDiff)
        assert found.same.verdict == "same"
        assert found.value < 1e-9 < found.stored
        assert not any(far for _, far in found.invariants)
        changed = w.vector.copy()
        changed[-1] += 1
        apart = segre.diff(w, Weights(w.spec, changed))
        assert apart.value > 1e-6
        assert apart.same.verdict == "different"
        assert any(far for _, far in apart.invariants)
        assert "relative to the first" in text_of(apart)


def test_polynomial_networks_and_what_has_no_common_inputs() -> None:
    w = PolynomialWeights.random(POLYNOMIAL, exact=True)
    swapped = [{"W": w.layers[0]["W"][::-1]}, {"W": w.layers[1]["W"][:, ::-1]}]
    moved = PolynomialWeights.of_layers(w.spec, swapped)
    assert segre.diff(w, moved).value == pytest.approx(0, abs=1e-12)
    assert content_hash(w).value == content_hash(moved).value
    other = Weights.random(DESIGNS[0])
    assert content_hash(w).compare(content_hash(other)).verdict == "different"
    for pair in ((w, other), (other, "no-such-directory")):
        with pytest.raises(segre.SegreError):
            segre.diff(*pair)
    with pytest.raises(segre.SegreError, match="text"):
        segre.diff(other, other, text="words.txt")


def test_zero_has_a_hash() -> None:
    w = Weights.random(DESIGNS[0])
    zero = Weights(w.spec, np.zeros(len(w.vector)))
    assert content_hash(zero).compare(content_hash(zero)).verdict == "same values"
    assert segre.diff(zero, zero).value == 0


def test_commands(tmp_path: Path) -> None:
    w = Weights.random(DESIGNS[1], exact=True)
    for name, own in {"one": w, "two": segre.move(w), "far": Weights.random(w.spec)}.items():
        own.write(tmp_path / f"{name}.json")
    done = run("diff", "one.json", "two.json", "--plot", "far.png", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["same"]["verdict"] == "same"
    assert (tmp_path / "far.png").stat().st_size
    done = run("model", "hash", "one.json", "two.json", "far.json", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "same hash of the function: one.json, two.json"
    (tmp_path / "hash.json").write_text(
        run("model", "hash", "one.json", "--json", cwd=tmp_path).stdout
    )
    for name, code in (("two", 0), ("far", 1)):
        done = run("model", "hash", f"{name}.json", "--compare", "hash.json", cwd=tmp_path)
        assert done.returncode == code
    done = run("diff", "one.json", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
