"""The text of a page: strict JSON, nothing that ends a script, plotly once, files whole."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segre.errors import SegreError
from segre.report.blocks import Page, Section, Table
from segre.report.page.cells import raw, shown, size, slug
from segre.report.page.embed import embedded, policy
from segre.report.page.render import render, write_page
from support.sample_pages import HOSTILE, everything, plain

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


def finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@given(VALUES)
@example({"<!--<script>": "</script>&\u2028\u2029"})
def test_embedded_json_is_strict_and_never_markup(value: object) -> None:
    text = embedded(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text, parse_constant=refuse) == finite(value)


def test_arrays_are_embedded() -> None:
    value = {"z": np.array([[1.0, np.nan]]), "n": np.int64(3), 2: (True, np.float32(0.5))}
    assert json.loads(embedded(value)) == {"z": [[1.0, None]], "n": 3, "2": [True, 0.5]}
    with pytest.raises(TypeError, match="a object cannot be written as JSON"):
        embedded(object())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1234567, "−1,234,567"),
        (0.0, "0"),
        (3.0, "3"),
        (0.123456, "0.1235"),
        (0.001, "0.001"),
        (0.00099999, "1 × 10⁻³"),
        (-0.00012346, "−1.235 × 10⁻⁴"),
        (999999.4, "999,999"),
        (1e6, "1 × 10⁶"),
        (1.23456e300, "1.235 × 10³⁰⁰"),
        (float("inf"), "∞"),
        (False, "no"),
        ("8e5", "8e5"),
    ],
)
def test_numbers_are_shown(value: object, text: str) -> None:
    assert shown(value).replace("\N{THIN SPACE}", " ") == text  # type: ignore[arg-type]


@given(st.floats(allow_nan=False) | st.integers())
def test_raw_numbers_are_exact(value: float) -> None:
    assert type(value)(raw(value)) == value


@given(st.text())
def test_slugs_are_fit_for_ids(text: str) -> None:
    assert slug(text)
    assert set(slug(text)) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_sizes() -> None:
    assert [size(n) for n in (999, 1000, 999_499, 999_600, 12_345_678, 5_000_000_000)] == [
        "999 bytes",
        "1 kB",
        "999 kB",
        "1 MB",
        "12.3 MB",
        "5,000 MB",
    ]


def test_plotly_is_there_once_and_only_for_plots() -> None:
    text = render(everything())
    assert text.count('id="page-library"') == 1
    assert "page-library" not in render(plain())
    assert "drawingLibrary" not in render(plain())
    assert text.count("Content-Security-Policy") == 1
    assert "unsafe-eval" not in text[:5000]
    assert text.lower().count("<!doctype html>") == 1


def test_all_data_of_a_page_is_strict_json() -> None:
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', render(everything()))
    assert len(found) == 10  # six plots, three documents, and everything
    for text in found:
        json.loads(text, parse_constant=refuse)


def test_half_characters_are_written_as_question_marks(tmp_path: Path) -> None:
    half = json.loads('"\\ud800"')  # what a config.json may hold and UTF-8 may not
    section = Section(key=half, title=half, status="exact", lead=half)
    write_page(Page(f"a{half}b", half, (), (section,), {half: half}), tmp_path / "half.html")
    assert "<title>a?b</title>" in (tmp_path / "half.html").read_text(encoding="utf-8")


def test_hostile_text_is_escaped_wherever_it_stands() -> None:
    text = render(everything())
    assert "<img" not in text.split("</style>")[1]
    assert HOSTILE not in text


def test_keys_that_are_the_same_get_different_ids() -> None:
    tables = tuple(Table("a b", ("x",), ((1,),)) for _ in range(2))
    sections = tuple(
        Section(key=key, title=key, status="exact", blocks=tables) for key in ("a b", "A-B", "1")
    )
    text = render(Page("t", "", (), sections))
    for name in ("a-b", "a-b-2", "part-1", "table-a-b", "table-a-b-2", "table-a-b-6"):
        assert text.count(f'id="{name}"') == 1


def test_the_policy_names_scripts_by_their_digest() -> None:
    digest = "'sha256-n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='"  # of "test"
    assert f"script-src {digest};" in policy(["test"])


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(plain(), tmp_path / "plain.html")
    assert (tmp_path / "plain.html").read_text(encoding="utf-8") == render(plain())
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(SegreError, match="cannot write"):
        write_page(plain(), tmp_path / "nowhere" / "plain.html")


def test_rendering_starts_light() -> None:
    code = "import sys, segre.report.page.render; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"numpy", "matplotlib"}
