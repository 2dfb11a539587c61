"""Answers show themselves: as text, as cards in notebooks, and as tables of pandas."""

import math
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import segre
from segre.checkpoints import example, info, move, same
from segre.errors import SegreError
from segre.finding import Finding, Findings, Symmetry
from segre.report.cards import MOST, html_of
from segre.report.page.render import render
from segre.report.text import print_text
from segre.report.views import FILES, MEANINGS, VIEWS, page_of
from segre.shown import Shown, Tabular
from segre.spec import Network
from segre.sweeps import fit, run, standing
from support.architectures import random_stacks

EMPTY = {"br", "wbr", "path", "circle", "rect"}
HOSTILE = "</style><script>alert('&\"')</script><b>$x$ `y`\ud800"
PLAN = {
    "kind": "softmax",
    "exhaustive": True,
    "claim": "dimension == 7",
    "fields": {"layers": "1..2", "d": "2..4", "a": "1..2", "t": 2},
}


class Reader(HTMLParser):
    """The words of a piece of HTML; tags must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cards")
    example(folder / "model")
    move(folder / "model", folder / "moved")
    example(folder / "other", seed=2)
    run(PLAN, folder / "s.db", workers=1)
    return folder


DRAWN = {"Cone", "Discriminant", "FiberCurve", "Picture"}  # they are pictures alone
OPEN = "softmax/d=3,2,4,3/a=3,2,3/heads=3,2,2/t=2"  # its bounds do not meet
ANSWERS: dict[str, Callable[[Path], Any]] = {
    "finding": lambda _: segre.dimension("softmax/d=4,4/a=2/t=3", symmetries=True),
    "bounds": lambda _: segre.dimension(OPEN, "exact"),
    "certain": lambda _: segre.dimension(OPEN, symmetries=True),
    "bound": lambda _: segre.dimension("softmax/d=4,4/a=2/t=3", method="closed-form"),
    "estimate": lambda _: segre.dimension("softmax/d=4,4/a=2/t=3", method="estimate"),
    "counted": lambda _: segre.dimension("qwen3-30b-a3b"),
    "theorem": lambda _: segre.dimension("llama-3-8b"),
    "compared": lambda _: segre.compare("gpt2", "llama-3-8b"),
    "explained": lambda _: segre.explain("gpt2"),
    "analysis": lambda _: segre.analyze("softmax/d=3,3/a=1/t=2"),
    "model": lambda place: segre.analyze(place / "model", only=["what", "heads", "weights"]),
    "part": lambda _: segre.analyze("softmax/d=3,3/a=1/t=2", only=["redundancy"])["redundancy"],
    "left out": lambda _: segre.analyze("softmax/d=3,3/a=1/t=2", only=["heads"])["heads"],
    "symmetries": lambda _: segre.explain("lightning/d=4,4,4/a=2/t=3"),
    "study": lambda _: segre.collapse.measure("softmax/d=4,4,4/a=2/t=3", inputs=2),
    "depth": lambda place: segre.collapse.measure(place / "model", inputs=2, length=4),
    "paths": lambda place: segre.collapse.decompose(place / "model"),
    "shares": lambda _: segre.collapse.count_paths("gpt2"),
    "same": lambda place: same(place / "model", place / "moved"),
    "different": lambda place: same(place / "model", place / "other"),
    "identical": lambda place: same(place / "model", place / "model"),
    "info": lambda place: info(place / "model"),
    "sweep": lambda place: standing(place / "s.db"),
    "run": lambda place: run(PLAN, place / "s.db", workers=1),
    "verdict": lambda _: segre.verify(segre.certify("lightning/d=2,2/a=1/t=2")),
}


@pytest.fixture(scope="module")
def answers(place: Path) -> dict[str, Any]:
    return {name: make(place) for name, make in ANSWERS.items()}


def test_every_answer_shows_itself() -> None:
    for file, modules in FILES.items():
        import_module(f"segre.report.{file}")
        homes = [import_module(f"segre.{module}") for module in modules.split()]
        for place, name in VIEWS:
            if place == f"segre.report.{file}" and name not in DRAWN:
                kind = next(vars(home)[name] for home in homes if name in vars(home))
                assert issubclass(kind, Shown), kind


@pytest.mark.parametrize("name", ANSWERS)
def test_printed_is_what_the_command_line_says(
    name: str,
    answers: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "JPY_PARENT_PID"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    print_text(answers[name])
    said = [line.rstrip() for line in capsys.readouterr().out.strip("\n").split("\n")]
    assert str(answers[name]).split("\n") == said
    monkeypatch.setenv("COLUMNS", "300")  # wherever it is asked for
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert str(answers[name]).split("\n") == said
    assert answers[name]._repr_mimebundle_(include=None) == {"text/plain": str(answers[name])}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ANSWERS)
def test_cards_are_whole_and_need_nothing(name: str, answers: dict[str, Any]) -> None:
    html = answers[name]._repr_html_()
    found = Reader(html)
    assert not found.tags & {"script", "link", "iframe", "img", "html", "body"}
    assert len(html) < 60_000
    assert "None" not in found.text
    assert "object at 0x" not in found.text


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_has_a_page(name: str, answers: dict[str, Any]) -> None:
    """Whatever the answer says of how it is known, the page has a label for it."""
    page = page_of(answers[name])
    assert all(section.status in MEANINGS for section in page.sections)
    assert 'class="badge is-' in render(page)


def test_a_finding_has_its_bounds_on_its_card() -> None:
    for net in random_stacks(7, 12):
        found = segre.dimension(net, symmetries=True)
        text = Reader(found._repr_html_()).text
        for said in (str(found.spec), f"{found.parameters:,}", f"{found.lower:,}"):
            assert said in text
        assert ("proved" in text) is True
        assert all(one.name in text for one in found.symmetries[:MOST])
        frame = found.to_pandas()
        assert frame["dimensions"].sum() == sum(one.dimension for one in found.symmetries)


def test_an_estimate_is_not_called_proved(answers: dict[str, Any]) -> None:
    text = Reader(answers["estimate"]._repr_html_()).text
    assert "an estimate, not proved" in text
    assert "estimated" in text
    for name in ("bound", "bounds", "counted"):
        text = Reader(answers[name]._repr_html_()).text
        assert "bounded" in text
        assert "both bounds meet" not in text
    text = Reader(answers["certain"]._repr_html_()).text
    assert "certain (error < 2^-60)" in text
    assert "both bounds meet" not in text


def test_words_from_outside_are_no_markup(answers: dict[str, Any], place: Path) -> None:
    spec = Network.parse("softmax/d=2,2/a=1/t=2")
    finding = Finding(
        spec, "upper-bound", upper=7, symmetries=(Symmetry(HOSTILE, HOSTILE, 1),), notes=(HOSTILE,)
    )
    standing_ = answers["sweep"]
    hostile = [
        finding,
        Findings((HOSTILE,), (finding,)),
        type(standing_)(**{**vars(standing_), "name": HOSTILE, "claim": HOSTILE}),
        type(answers["same"])(**{**vars(answers["same"]), "reason": HOSTILE}),
        type(answers["verdict"])(False, HOSTILE),
    ]
    for answer in hostile:
        html = html_of(answer)
        html.encode()  # half a pair of surrogates is no text
        found = Reader(html)
        assert "script" not in found.tags
        assert "alert('&\"')" in found.text


def test_what_is_too_long_is_cut_and_said() -> None:
    spec = Network.parse("softmax/d=2,2/a=1/t=2")
    many = tuple(Symmetry("basis", f"layer {n}", 1) for n in range(MOST + 5))
    found = Finding(spec, "upper-bound", upper=7, symmetries=many)
    text = Reader(html_of(found)).text
    assert "and 7 more rows" in text  # two lines come before them
    assert f"layer {MOST}" not in text
    assert len(found.to_pandas()) == MOST + 5


@pytest.mark.parametrize("name", ANSWERS)
def test_a_card_has_every_number_of_the_text(name: str, answers: dict[str, Any]) -> None:
    """Cards and the terminal are made of the same blocks: nothing is said in one place alone."""

    def numbers(text: str) -> set[str]:
        plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
        return set(re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", plain))

    card = Reader(answers[name]._repr_html_().replace("<wbr>", ""))
    assert numbers(str(answers[name])) <= numbers(
        " ".join(card.words).replace("\N{MINUS SIGN}", "-")
    )


def test_tables_are_numbers(answers: dict[str, Any], place: Path) -> None:
    compared = answers["compared"].to_pandas()
    assert list(compared["model"]) == ["gpt2", "llama-3-8b"]
    assert list(compared["redundant"]) == [1_347_352, 13_342_720]
    blocks = answers["same"].to_pandas()
    assert len(blocks) == len(answers["same"].blocks)
    assert blocks["agrees"].all()
    worst = answers["different"].to_pandas()
    assert (~worst["agrees"]).sum() == len(answers["different"].differing)
    rows = answers["sweep"].to_pandas()
    assert len(rows) == answers["sweep"].done
    assert (rows["claim"] == "fails").sum() == answers["sweep"].verdicts["fails"]
    heads = answers["info"].to_pandas()
    assert len(heads) == sum(len(layer.ov) for layer in answers["info"].layers)
    assert heads["OV norm"][0] == answers["info"].layers[0].ov[0].norm
    parts = answers["analysis"].to_pandas()
    assert list(parts["part"]) == [part.key for part in answers["analysis"].parts]
    moved = move(place / "model", place / "again", seed=5).to_pandas()
    assert all(math.isfinite(change) for change in moved["change"])


def test_whole_numbers_stay_whole_where_some_are_missing(place: Path) -> None:
    plan = {**PLAN, "compute": ["exact", "closed-form"], "kind": ["softmax", "lightning"]}
    del plan["claim"]
    fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2, "heads": [1, 2]}
    run({**plan, "fields": fields}, place / "mixed.db", workers=1)
    frame = standing(place / "mixed.db").to_pandas()
    assert frame["closed_form"].isna().any()
    assert str(frame["closed_form"].dtype) == "Int64"
    assert frame["parameters"].dtype.kind == "i"


def test_formulas_have_a_card(place: Path) -> None:
    fields = {"layers": 1, "d": "2..9", "a": 2, "t": 3}
    run({**PLAN, "fields": fields}, place / "fit.db", workers=1)
    found = fit(place / "fit.db", degree=2)
    assert str(found.pieces[0].law) in Reader(found._repr_html_()).text
    assert list(found.to_pandas()["dimension"]) == [str(piece.law) for piece in found.pieces]


def test_without_pandas_one_line_says_what_to_install(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for answer in answers.values():
        if isinstance(answer, Tabular):
            with pytest.raises(SegreError, match=r"^to_pandas needs pandas, .*'segre\[tables\]'$"):
                answer.to_pandas()
            assert answer._repr_html_()


def test_frames_are_of_pandas(answers: dict[str, Any]) -> None:
    for answer in answers.values():
        if isinstance(answer, Tabular):
            assert isinstance(answer.to_pandas(), pd.DataFrame)


def test_weights_and_the_ways_between_them_print_in_a_line_or_two() -> None:
    weights = segre.Weights.random("softmax/d=3,3,3/a=2/t=2", exact=True)
    assert str(weights) == "softmax/d=3,3,3/a=2/t=2: 42 fractions"
    moved = segre.move(weights)
    assert (
        str(segre.connect(weights, moved)) == "the same function; connected to within 0, relative"
    )
    other = segre.Weights.random(weights.spec, 1, exact=True)
    assert str(segre.connect(weights, other)).startswith("different functions; first difference: ")
    normal = str(segre.canonical(weights)).split("\n")
    assert normal[0] == "normal form of softmax/d=3,3,3/a=2/t=2:"
    assert len(normal) == 1 + len(segre.canonical(weights).invariants)


def test_tables_of_depth_and_paths_are_those_that_are_printed(answers: dict[str, Any]) -> None:
    depth = answers["depth"].to_pandas()
    curves = answers["depth"].found.curves
    assert list(depth.columns) == ["layer", *(str(curve.variant) for curve in curves)]
    assert depth["full"].iloc[-1] == pytest.approx(answers["depth"].value)
    study = answers["study"].to_pandas()
    assert study["without skips"].iloc[-1] == pytest.approx(answers["study"].value)
    paths = answers["paths"].to_pandas()
    assert paths["paths"].sum() == sum(answers["paths"].sums.counts)
    biases = float(answers["paths"].sums.bias_share.mean())
    assert paths["share of output"].sum() + biases == pytest.approx(1)
    assert answers["shares"].to_pandas()["of all"].sum() == pytest.approx(1)
    rows = answers["symmetries"].to_pandas()
    assert rows["dimensions"].sum() == answers["symmetries"].finding.redundant
