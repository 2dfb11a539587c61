"""What a user of Python meets: every answer is one line, every mistake one sentence."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import segre
from segre.checkpoints import canonical, example, info, lineage, move, same
from segre.errors import SegreError
from segre.finding import Finding
from segre.shown import Brief, Shown
from support.architectures import random_stacks
from support.polynomials import random_polynomials

LONGEST = 200
SMALL = "softmax/d=3,3/a=1/t=2"
PLAN = {"kind": "softmax", "draw": 4, "claim": "dimension == 7"}
FIELDS = {"layers": "1..2", "d": "2..3", "a": 1, "t": 2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    example(folder / "model")
    move(folder / "model", folder / "moved")
    example(folder / "other", seed=2)
    segre.sweeps.run({**PLAN, "fields": FIELDS}, folder / "s.db", workers=1)
    return folder


def weights(seed: int = 0) -> segre.Weights:
    return segre.Weights.random("lightning/d=3,3,3/a=2/t=2", seed=seed, exact=True)


ANSWERS: dict[str, Callable[[Path], Any]] = {
    "analyze": lambda _: segre.analyze(SMALL),
    "part": lambda _: segre.analyze(SMALL, only=["dimension"])["dimension"],
    "canonical": lambda _: segre.canonical(weights()),
    "classify": lambda _: segre.classify(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), a=2),
    "recover": lambda _: segre.recover(lambda X: X @ X.T @ X, "lightning/d=2,2/a=2/t=3"),
    "trace": lambda _: segre.trace("gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16", length=6),
    "catalog": lambda _: segre.catalog("gpt2"),
    "closed_form": lambda _: segre.closed_form(SMALL),
    "compare": lambda _: segre.compare("gpt2", "llama-3-8b", SMALL),
    "connect": lambda _: segre.connect(weights(), segre.move(weights())),
    "cost": lambda _: segre.cost("gpt2", [64, 128]),
    "critical": lambda _: segre.critical("cnn/k=2,2/degree=2"),
    "degree": lambda _: segre.degree("cnn/k=2,2/degree=2"),
    "diagnose": lambda place: segre.diagnose(place / "model"),
    "diff": lambda place: segre.diff(place / "model", place / "moved"),
    "dimension": lambda _: segre.dimension(SMALL),
    "theorem": lambda _: segre.dimension("llama-3-8b"),
    "explain": lambda _: segre.explain("gpt2"),
    "symmetries": lambda _: segre.explain(SMALL),
    "landscape": lambda _: segre.landscape("poly/4-2-1/degree=2", "3,2,1,-1.5"),
    "move": lambda _: segre.move(weights()),
    "same small": lambda _: segre.same(weights(), weights(1)),
    "samples": lambda _: segre.samples("lightning/d=3,3/a=1/t=3"),
    "verify": lambda _: segre.verify(segre.certify(SMALL)),
    "collapse": lambda _: segre.collapse("softmax/d=4,4,4/a=2/t=3", inputs=2),
    "collapse of a model": lambda place: segre.collapse(place / "model", inputs=2, length=4),
    "decompose": lambda place: segre.collapse.decompose(place / "model"),
    "count_paths": lambda _: segre.collapse.count_paths("gpt2"),
    "same": lambda place: same(place / "model", place / "moved"),
    "info": lambda place: info(place / "model"),
    "canonical of a model": lambda place: canonical(place / "model"),
    "lineage": lambda place: lineage(place / "model", place / "moved"),
    "sweep": lambda place: segre.sweeps.run({**PLAN, "fields": FIELDS}, place / "s.db", workers=1),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_repr_of_an_answer_is_one_line(name: str, place: Path) -> None:
    said = repr(ANSWERS[name](place))
    assert "\n" not in said
    assert 0 < len(said) < LONGEST


def test_random_answers_are_one_line_too() -> None:
    for spec in (*random_stacks(3, 20), *random_polynomials(3, 20)):
        for found in (segre.dimension(spec), segre.explain(spec)):
            assert len(repr(found)) < LONGEST
            assert "\n" not in repr(found)
            assert isinstance(found, Finding) <= (str(found.value) in repr(found))


def test_every_kind_of_answer_is_brief() -> None:
    """Also those that come later: a dataclass does not bring its long `repr` back."""
    for module in (segre, segre.checkpoints, segre.collapse, segre.sweeps, importlib):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Shown):
                assert kind.__repr__ is Brief.__repr__, kind
    kinds = [Shown]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind.__repr__ is Brief.__repr__, kind
    assert len(kinds) > 20


@pytest.mark.parametrize("given", [5, None, 1.5, [], (), set(), object(), b"{}", True, weights])
def test_verify_refuses_what_is_no_certificate(given: Any) -> None:
    with pytest.raises(SegreError) as refused:
        segre.verify(given)
    assert "\n" not in str(refused.value)
    assert type(given).__name__ in str(refused.value)


def test_same_function_of_paths_and_of_models_in_memory(place: Path) -> None:
    model, moved, other = (place / name for name in ("model", "moved", "other"))
    assert segre.same(model, str(moved)).same
    assert segre.same(model, other).verdict == "different"
    held = canonical(model)  # in memory
    assert segre.same(model, held).same
    assert segre.same(held, other).verdict == "different"
    for two in (moved, other):
        found, known = segre.same(model, two), same(model, two)
        assert found.document() == known.document()


def test_same_function_of_files_of_weights(tmp_path: Path) -> None:
    for number in range(6):
        w = weights(number)
        w.write(tmp_path / "a.json")
        two = segre.move(w, seed=number) if number % 2 else weights(number + 9)
        two.write(tmp_path / "b.json")
        found = segre.same(tmp_path / "a.json", str(tmp_path / "b.json"))
        assert found == segre.same(w, two)
        assert found.verdict == ("same" if number % 2 else "different")


def test_same_function_refuses_in_one_line(place: Path) -> None:
    for one, two in ((weights(), place / "model"), (place / "model", weights()), (5, 6)):
        with pytest.raises(SegreError) as refused:
            segre.same(one, two)
        assert "\n" not in str(refused.value)


def test_collapse_is_a_function_and_a_module() -> None:
    importlib.import_module("segre.collapse.paths")
    assert segre.collapse is importlib.import_module("segre.collapse")
    for spec in random_stacks(9, 12):
        if spec.score == "softmax" and min(spec.widths) > 1 < spec.t:
            told = segre.collapse(spec, inputs=1).document()
            assert json.dumps(told) == json.dumps(segre.collapse.measure(spec, inputs=1).document())
