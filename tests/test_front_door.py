"""What a user of the library meets: the names, their examples, every form of a spec, types."""

import inspect
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import segre
from segre.spec import Network
from segre.transformer.spec import Transformer
from support.architectures import random_stacks, random_transformers

ROOT = Path(__file__).parents[1]
NAMESPACES = (segre, segre.checkpoints, segre.collapse, segre.sweeps)
STACKS = [spec for spec in random_stacks(seed=21, count=10) if spec.t > 1]
TRANSFORMERS = list(random_transformers(seed=22, count=8))
Call = Callable[[Any], Any]


@pytest.mark.parametrize("module", NAMESPACES, ids=lambda module: module.__name__)
def test_a_namespace_shows_its_names_and_nothing_else(module: Any) -> None:
    assert dir(module) == sorted(module.__all__)
    assert module.__doc__.count(">>>") >= 2
    with pytest.raises(AttributeError):
        _ = module.nothing
    for name in module.__all__:
        found = getattr(module, name)
        assert found.__doc__, name
        if not inspect.isclass(found):
            assert ">>>" in found.__doc__, f"{name} has no example"


def test_every_name_of_segre_has_an_example() -> None:
    assert len(segre.__all__) == 40
    for name in segre.__all__:
        assert ">>>" in getattr(segre, name).__doc__, name


def test_old_names_lead_to_new_ones_with_a_warning() -> None:
    for old, now in (("sample", "move"), ("same_function", "same")):
        with pytest.warns(DeprecationWarning, match=f"segre.{old} is now segre.{now}"):
            assert getattr(segre, old) is getattr(segre, now)
        assert old not in dir(segre)


def forms(spec: Network | Transformer, folder: Path) -> list[Any]:
    """A spec in every form that there is."""
    file = folder / "spec.json"
    file.write_text(json.dumps(spec.document()))
    return [spec, str(spec), spec.document(), file, str(file)]


def outcome(call: Call, spec: Any) -> Any:
    """What a function says, or why it refuses; the name that was given is not part of it."""
    try:
        return call(spec)
    except segre.SegreError as error:
        return type(error)


def part(spec: Any) -> Any:
    return dict(segre.analyze(spec, only=["dimension"])["dimension"].data)


OF_STACKS: dict[str, Call] = {
    "architecture": segre.architecture,
    "dimension": lambda spec: segre.dimension(spec).document(),
    "closed_form": lambda spec: segre.closed_form(spec).value,
    "certify": segre.certify,
    "analyze": part,
    "explain": lambda spec: segre.explain(spec).document(),
    "Weights": lambda spec: segre.Weights.random(spec).vector.tolist(),
    "measure": lambda spec: segre.collapse.measure(spec, inputs=1).value,
    "decompose": lambda spec: segre.collapse.decompose(spec).value,
    "count_paths": lambda spec: segre.collapse.count_paths(spec).value,
}


def same(one: Any, two: Any) -> bool:
    return repr(one) == repr(two)  # nan is itself here


@pytest.mark.parametrize("name", OF_STACKS)
def test_every_form_of_a_stack_is_the_same(name: str, tmp_path: Path) -> None:
    answered = 0
    for spec in STACKS:
        first, *rest = (outcome(OF_STACKS[name], form) for form in forms(spec, tmp_path))
        answered += not inspect.isclass(first)
        for other in rest:
            assert same(first, other), str(spec)
    assert answered or name == "explain"


OF_TRANSFORMERS: dict[str, Call] = {
    "architecture": segre.architecture,
    "dimension": lambda spec: segre.dimension(spec, method="count").document(),
    "explain": lambda spec: segre.explain(spec).document(),
    "closed_form": segre.closed_form,
    "count_paths": lambda spec: segre.collapse.count_paths(spec).value,
}


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_every_form_of_a_transformer_is_the_same(name: str, tmp_path: Path) -> None:
    answered = 0
    for spec in TRANSFORMERS:
        first, *rest = (outcome(OF_TRANSFORMERS[name], form) for form in forms(spec, tmp_path))
        answered += not inspect.isclass(first)
        for other in rest:
            assert same(first, other), str(spec)
    assert answered or name == "closed_form"


def test_a_plan_in_every_form_is_the_same(tmp_path: Path) -> None:
    given = {"kind": "softmax", "exhaustive": True, "fields": {"layers": 1, "d": 2, "a": 1, "t": 2}}
    file = tmp_path / "plan.toml"
    file.write_text(
        'kind = "softmax"\nexhaustive = true\nfields = { layers = 1, d = 2, a = 1, t = 2 }\n'
    )
    plan = segre.sweeps.Plan.from_mapping(given)
    found = [segre.sweeps.plan_of(form) for form in (plan, given, file, str(file))]
    assert all(one.digest == plan.digest for one in found)


def test_the_wheel_says_that_it_is_typed(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "segre/py.typed" in names
    assert "segre/checkpoints.py" in names
