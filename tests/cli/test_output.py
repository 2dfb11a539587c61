"""One way out: an answer of any type, in any format, by one function."""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import segre
from segre.analysis.part import Part
from segre.cli import designs, output
from segre.finding import Documented, Finding, Findings, Result, Status
from segre.json_data import strict_json
from segre.report import views
from segre.reproduce.experiment import perform
from segre.reproduce.registry import experiment
from segre.sweep.builtin import Builtin
from segre.sweep.run import Swept, run
from segre.sweep.status import standing
from segre.weights import Weights
from support.architectures import random_stacks, random_transformers

SOURCE = Path(segre.__file__).parent
TABLES = {
    "Merged",
    "Findings",
    "Builtin",
    "Outcome",
    "Swept",
    "Written",
    "Shrinking",
    "Analysis",
}


def answers() -> Iterator[Any]:
    """Answers of many types, over random architectures."""
    for stack in random_stacks(seed=11, count=6):
        yield segre.dimension(stack, symmetries=True)
        yield segre.dimension(stack, method="closed-form")
        yield segre.dimension(stack, method="estimate")
        yield segre.explain(stack)
        yield segre.verify(segre.certify(stack))
        exact = Weights.random(stack, exact=True)
        yield segre.same(exact, segre.move(exact))
        yield segre.same(Weights.random(stack), Weights.random(stack, 1))
        yield segre.analyze(stack, only=["what", "dimension", "paths"])
    for transformer in random_transformers(seed=12, count=4):
        yield segre.dimension(transformer, method="count")
        yield segre.explain(transformer)
        yield segre.collapse.count_paths(transformer)
    document = segre.certify("lightning/d=3,3/a=1/t=2")
    yield segre.verify({**document, "claim": {**document["claim"], "lower": 14}})
    named = ("gpt2", "llama-3-8b")
    yield Findings(named, tuple(segre.dimension(name) for name in named))
    V, A = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0, 0.5], [0.25, 0.0]])
    yield segre.classify(V, A, a=2)
    yield segre.recover(lambda X: V @ X @ (X.T @ A @ X), "lightning/d=2,2/a=2/t=3")
    yield segre.collapse.measure("softmax/d=6,6,6,6/a=2/t=4", inputs=2, certify=True)
    yield segre.collapse.decompose("softmax/d=6,6,6/a=2/t=4", sample=2)
    yield Builtin.read()
    yield perform(experiment("path-lengths"))
    with TemporaryDirectory() as folder:
        one = segre.checkpoints.example(f"{folder}/one")
        yield segre.checkpoints.info(one)
        yield segre.checkpoints.canonical(one, f"{folder}/normal", report=False)
        moved = segre.checkpoints.move(one, f"{folder}/moved")
        yield moved
        found = segre.checkpoints.same(one, moved.directory)
        yield found
        found.witness.write(f"{folder}/witness.safetensors")
        yield segre.checkpoints.check(one, moved.directory, f"{folder}/witness.safetensors")
        yield segre.checkpoints.align(one, moved.directory, f"{folder}/aligned")
        yield segre.checkpoints.merge(one, moved, f"{folder}/merged")
        yield segre.checkpoints.barrier(one, moved, tokens=[[1, 2, 3]], points=3)
        yield segre.checkpoints.shrink(one, f"{folder}/small")
        yield segre.checkpoints.lineage(one, moved.directory)
        yield segre.checkpoints.lineage(one, moved.directory).pairs[0]
        yield segre.checkpoints.content_hash(one)
        fields = {"layers": 1, "d": "2..9", "a": 1, "t": 2}
        plan = {"kind": "lightning", "exhaustive": True, "compute": ["exact"], "fields": fields}
        ran = run(plan, f"{folder}/widths.db", workers=1)
        yield standing(f"{folder}/widths.db")
        yield Swept(ran, standing(f"{folder}/widths.db"))
        yield segre.sweeps.fit(f"{folder}/widths.db", fresh=1)


@pytest.fixture(scope="module")
def zoo() -> list[Any]:
    return list(answers())


def printed(call: Callable[[], None]) -> str:
    with redirect_stdout(io.StringIO()) as said:
        call()
    return said.getvalue()


def test_an_answer_has_a_document_and_words(zoo: list[Any]) -> None:
    for answer in zoo:
        assert isinstance(answer, Documented), type(answer)
        assert isinstance(json.loads(strict_json(answer.document())), dict)
        assert printed(lambda answer=answer: output.Out().emit(answer)).strip(), type(answer)
        as_json = printed(lambda answer=answer: output.Out("json").emit(answer))
        assert as_json == strict_json(answer.document(), indent=2, sort_keys=True) + "\n"


def test_no_terminal_is_too_narrow_for_an_answer(
    zoo: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prose wraps, and numbers are never shortened: the same characters at every width."""

    def characters(answer: Any, columns: int) -> Counter[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        return Counter("".join(printed(lambda: output.Out().emit(answer)).split()))

    for answer in zoo:
        wide = characters(answer, 500)
        for columns in (1, 20, 40, 80):
            assert characters(answer, columns) == wide, (type(answer), columns)


def test_an_answer_to_a_question_says_how_it_is_known(zoo: list[Any]) -> None:
    found = [one for one in zoo if type(one).__name__ not in (*TABLES, "Info")]
    parts = [part for one in zoo if isinstance(one, segre.Analysis) for part in one.parts]
    assert len({type(one) for one in found}) >= 13
    for one in (*found, *parts):
        assert isinstance(one, Result), type(one)
        assert one.status in get_args(Status)
        assert one.how or one.status == "not run", type(one)
        bounds = [bound for bound in (one.lower, one.upper) if bound is not None]
        assert bounds == sorted(bounds)
        if isinstance(one, Finding):
            assert (one.value is not None) == (one.status == "proved")
        elif not isinstance(one, Part) and not bounds:
            assert one.value is not None


def test_every_renderer_has_its_place() -> None:
    """Its type's module leads to it, and no module leads nowhere."""
    found = set()
    for file, homes in views.FILES.items():
        import_module(f"segre.report.{file}")
        for name in (name for place, name in views.VIEWS if place == f"segre.report.{file}"):
            kinds = [vars(import_module(f"segre.{home}")).get(name) for home in homes.split()]
            (kind,) = {one for one in kinds if one is not None}
            assert kind.__module__.removeprefix("segre.") in homes.split()
            found.add(kind.__module__.removeprefix("segre."))
    assert found == set(" ".join(views.FILES.values()).split())


def test_what_nobody_prints_is_refused() -> None:
    with pytest.raises(TypeError, match="nothing says what a dict consists of"):
        output.Out().emit({})  # type: ignore[arg-type]


def test_data_and_lines_are_beside_the_answer() -> None:
    found = segre.dimension("softmax/d=2,2/a=1/t=2")
    beside = {"data": {"file": "x.json"}, "lines": ["file: x.json"]}
    alone, as_text = (printed(lambda m=m: output.Out().emit(found, **m)) for m in ({}, beside))
    assert as_text == f"{alone}file: x.json\n"
    as_json = json.loads(printed(lambda: output.Out("json").emit(found, **beside)))
    assert as_json == {**json.loads(strict_json(found.document())), "file": "x.json"}


def test_files_are_named_in_every_format(tmp_path: Path) -> None:
    for file in (tmp_path / "plot.png", None):
        said = printed(lambda file=file: output.Out().emit(files={"plot": file}))
        assert said == ("" if file is None else f"plot: {file}\n")
        data = printed(lambda file=file: output.Out("json").emit(files={"plot": file}))
        assert json.loads(data) == {"plot": file and "plot.png"}


def test_a_format_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its flag and its writer are then those of every command."""
    keys = "Print the names of its data.", lambda said: " ".join(sorted(said))
    monkeypatch.setitem(output.FORMATS, "keys", keys)
    app = typer.Typer()
    takes = {designs.dim: "specs method several head seed memory plot defaults"}
    takes[designs.explain] = "spec head defaults seed memory"
    for command, names in takes.items():
        app.command()(output.with_output(command, names))
    done = CliRunner().invoke(app, ["dim", "softmax/d=2,2/a=1/t=2", "--keys"])
    assert done.output.split() == sorted(
        segre.dimension("softmax/d=2,2/a=1/t=2", symmetries=True).document()
    )
    done = CliRunner().invoke(app, ["explain", "gpt2", "--keys"])
    assert done.output.split() == sorted(segre.explain("gpt2").document())
    assert "Print the names of its data." in CliRunner().invoke(app, ["dim", "--help"]).output


def test_no_command_knows_a_format() -> None:
    for file in (SOURCE / "cli").glob("*.py"):
        if file.name not in {"output.py", "app.py"}:  # the version is no answer
            code = file.read_text()
            assert not any(word in code for word in ("json(", "as_json", "typer.echo")), file
