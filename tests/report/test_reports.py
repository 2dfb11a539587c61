"""Reports of real targets, made by the real command and opened in a real browser."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import segre
from segre.analysis.run import analyze
from segre.report.blocks import Figure, Table, flat
from segre.report.page.embed import BUNDLES
from segre.report.page.render import write_answer
from segre.report.views import page_of
from support.browser import Opened, opened
from support.checkpoints import minilm
from support.demo import demo

# Of tables that are wider than their box: the title, the columns, and whether a hint is shown.
CLIPPED = """[...document.querySelectorAll(".scroll")].filter(
  (box) => box.scrollWidth > box.clientWidth + 1).map((box) => [box.getAttribute("aria-label"),
  box.querySelectorAll("thead th").length, box.nextElementSibling.checkVisibility()])"""


def sound(seen: Opened, figures: int) -> None:
    """Nothing was complained about; every plot is drawn, and has a size."""
    seen.check()
    assert seen.js("document.documentElement.dataset.drawn") == str(figures)
    for details in seen.page.locator("main details").all():
        details.evaluate("(one) => (one.open = true)")
    seen.page.wait_for_function(
        "(n) => document.querySelectorAll('.plot .main-svg:first-child').length === n", arg=figures
    )
    boxes = seen.js(
        "[...document.querySelectorAll('.plot svg.main-svg:first-of-type')]"
        ".map(e => e.getBoundingClientRect()).map(r => [r.width, r.height])"
    )
    assert len(boxes) == figures
    assert all(width > 200 and height > 100 for width, height in boxes)


def numbers(seen: Opened, table: str, column: int) -> list[float]:
    cells = seen.page.locator(f"#table-{table} tbody tr > :nth-child({column})")
    return [float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]


def saved(seen: Opened, button: str) -> Any:
    with seen.page.expect_download() as download:
        seen.page.locator(button).first.click()
    return json.loads(Path(download.value.path()).read_text())


# Words of badges that go on in another line.
BROKEN = """() => [...document.querySelectorAll(".badge")].flatMap((badge) => {
  const found = [], walker = document.createTreeWalker(badge, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/\\w+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  }
  return found;
})"""


def no_badge_is_broken(seen: Opened) -> None:
    """At every width, words of badges are whole."""
    height = 900
    for width in (320, 390, 620, 768, 1024, 1100, 1180, 1280):
        seen.page.set_viewport_size({"width": width, "height": height})
        assert seen.js(BROKEN) == [], width


@pytest.mark.slow
def test_the_demo_shows_everything(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The command of `make demo`; every part has an answer, and all of it can be used."""
    report, said = demo(tmp_path_factory)
    assert "The functional dimension is 619 of 726 parameters" in " ".join(said.split())
    assert "report: report.html" in said
    assert "not run" not in said
    assert report.stat().st_size < 1_300_000
    with opened(browser, report) as seen:
        assert seen.js("document.documentElement.scrollHeight") < 7_000
        sound(seen, figures=11)
        document = saved(seen, "[data-everything]")
        assert [part["status"] for part in document["parts"]] == [
            "measured",
            "exact",
            *["proved"] * 3,
            *["measured"] * 4,
        ]
        certificate = saved(seen, "[data-name='certificate.json']")
        assert certificate == document["parts"][4]["data"]["certificates"][0]
        assert segre.verify(certificate).valid

        heads = seen.page.locator(
            "#table-what-each-design-choice-does-to-redundancy th[scope=col] button"
        )
        last = heads.count()
        before, head = (
            numbers(seen, "what-each-design-choice-does-to-redundancy", last),
            heads.nth(last - 1),
        )
        head.click()
        assert (
            numbers(seen, "what-each-design-choice-does-to-redundancy", last)
            == sorted(before)
            != before
        )
        head.click()
        assert numbers(seen, "what-each-design-choice-does-to-redundancy", last) == sorted(
            before, reverse=True
        )
        no_badge_is_broken(seen)
        seen.check()
    with opened(browser, report, width=390, height=844, is_mobile=True, has_touch=True) as seen:
        assert seen.scroll_width() <= 390
        sound(seen, figures=11)


@pytest.mark.parametrize(
    ("target", "only", "figures"),
    [
        ("gpt2", "what,dimension,redundancy,proof,paths,heads", 3),
        ("softmax/d=4,4,4/a=2/t=3", "", 5),
        ("lightning/d=2,4/a=2/heads=3/dv=1/t=2", "", 5),
        ("MINILM", "what,redundancy,heads,paths,weights", 9),
    ],
)
def test_reports_are_drawn_and_fit_a_phone(
    target: str, only: str, figures: int, browser: Browser, tmp_path: Path
) -> None:
    path = minilm() if target == "MINILM" else target
    found = analyze(path, only=only.split(",") if only else (), length=12)
    write_answer(found, tmp_path / "r.html")
    with opened(browser, tmp_path / "r.html", width=390, height=844, is_mobile=True) as seen:
        sound(seen, figures)
        assert seen.scroll_width() <= 390
        assert all(hinted for _, _, hinted in seen.js(CLIPPED))  # what goes on says so
        titles = seen.page.locator("main section h2").all_text_contents()
        assert len(titles) == len(found.parts)
        for part in found.parts:
            text = seen.page.locator(f"#{part.key}").inner_text()
            said = part.lead or f"{part.reason[0].upper()}{part.reason[1:]}"
            assert " ".join(said.split()) in " ".join(text.split())
        seen.page.set_viewport_size({"width": 1280, "height": 900})
        seen.page.wait_for_timeout(300)
        assert seen.scroll_width() <= 1280
        assert all(columns > 12 for _, columns, _ in seen.js(CLIPPED)), seen.js(CLIPPED)


def test_a_hostile_name_is_only_a_name(browser: Browser, tmp_path: Path) -> None:
    odd = tmp_path / "<img src=x onerror=alert(1)>"
    odd.mkdir()
    config = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 11}
    (odd / "config.json").write_text(json.dumps({**config, "n_positions": 99}))
    found = analyze(odd, only=["what", "dimension", "redundancy"])
    write_answer(found, tmp_path / "r.html")
    with opened(browser, tmp_path / "r.html") as seen:
        seen.page.on("dialog", lambda _dialog: pytest.fail("a name was executed"))
        sound(seen, figures=2)
        assert seen.page.locator("img").count() == 0
        assert "<img src=x onerror=alert(1)>" in seen.page.locator("h1").inner_text()


def test_every_figure_has_its_numbers_and_words() -> None:
    """Laws of pages: unique keys, rows as long as columns, figures with a description."""
    for target in ("gpt2", "softmax/d=4,4,4/a=2/t=3", minilm()):
        page = page_of(analyze(target, length=8, inputs=1))
        blocks = [block for section in page.sections for block in flat("page", section.blocks)]
        figures = [block for block in blocks if isinstance(block, Figure)]
        tables = [block for block in blocks if isinstance(block, Table)]
        tables += [figure.numbers for figure in figures]
        for kind in (figures, tables):
            titles = [block.title for block in kind]
            assert len(set(titles)) == len(titles)
        for table in tables:
            assert table.rows
            assert all(len(row) == len(table.columns) for row in table.rows), table.title
            assert len(table.numeric) in (0, len(table.columns)), table.title
        assert all(len(figure.alt) > 20 and figure.title for figure in figures)
        assert all(re.fullmatch(r"[A-Z0-9].{20,}\.", figure.takeaway) for figure in figures)
        drawn = {trace["type"] for figure in figures for trace in figure.traces}
        assert drawn <= set(BUNDLES["cartesian"].split())
        legends = [trace.get("name", "") for figure in figures for trace in figure.traces]
        assert not any(re.search(r"[:+]|-norm", name) for name in legends), legends
        for section in page.sections:
            assert section.command
            assert section.status == "not run" or not section.reason
            assert section.reason or section.lead


def test_tables_that_are_too_wide_for_paper_say_so(browser: Browser, tmp_path: Path) -> None:
    write_answer(analyze(minilm(), only=["heads", "paths"], length=8), tmp_path / "r.html")
    with opened(browser, tmp_path / "r.html") as seen:
        spectrum, ranks = (
            seen.page.locator(f"#table-{key}")
            for key in ("spectrum-of-ov-log10", "share-of-the-output-through-each-head-share")
        )
        said = seen.page.get_by_text("A table of 33 columns, which has no room on paper.").first
        for details in seen.page.locator("details").all():
            details.evaluate("e => (e.open = true)")
        assert (spectrum.is_visible(), ranks.is_visible(), said.is_visible()) == (True, True, False)
        seen.page.emulate_media(media="print")
        assert (spectrum.is_visible(), ranks.is_visible(), said.is_visible()) == (False, True, True)


def test_the_map_of_heads_is_used_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    """A measure is chosen, and stays when colours change; a head is opened, and the next one."""
    write_answer(analyze(minilm(), only=["heads"], length=8), tmp_path / "r.html")
    shown = (
        "document.querySelector('#figure-layers-and-heads .plot').data.map((one) => one.visible)"
    )
    with opened(browser, tmp_path / "r.html") as seen:
        choice = seen.page.locator("#figure-layers-and-heads .choice select")
        assert seen.js(shown).index(True) == 0
        choice.focus()
        seen.page.keyboard.press("ArrowDown")
        seen.page.wait_for_function(f"() => ({shown}).indexOf(true) === 1")
        seen.page.emulate_media(color_scheme="dark")
        seen.page.locator("[data-theme-button]").click()
        assert [n for n, one in enumerate(seen.js(shown)) if one] == [1]
        seen.page.locator("#figure-layers-and-heads .chief > summary").press("Enter")
        seen.page.locator("[data-canvas]").press("ArrowDown")
        assert seen.page.locator("[data-said]").inner_text() == "Layer 2, head 1"
        seen.check()
