"""Words of the field are explained on pages, by mouse, keyboard and finger, and in the docs."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from segre.report.page.glossary import GLOSSARY, marked
from segre.report.page.render import render
from support.browser import Opened, opened
from support.sample_pages import HOSTILE, plain

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("word", GLOSSARY)
def test_every_word_is_found_and_explained_in_one_sentence(word: str) -> None:
    assert list(marked(f"a {word}, b", set())) == [("a ", ""), (word, word), (", b", "")]
    meaning = GLOSSARY[word]
    assert re.fullmatch(r"[A-Z].*\.", meaning)
    assert len(meaning) < 160


def test_marking_loses_nothing() -> None:
    for text in (HOSTILE, "", "gauges", "Skips, skips and SKIPS; ov, OV and QKs."):
        assert "".join(piece for piece, _ in marked(text, set())) == text
    assert [word for _, word in marked("ov OV", set()) if word] == ["OV"]


def test_the_docs_have_the_same_glossary() -> None:
    table = "".join(f"| {word} | {meaning} |\n" for word, meaning in GLOSSARY.items())
    assert table in (DOCS / "report.md").read_text()


def test_every_marked_word_is_in_the_glossary_of_the_page() -> None:
    text = render(plain())
    linked = set(re.findall(r'class="term" href="#(page-term-[\w-]+)"', text))
    assert {"page-term-jacobian", "page-term-symmetry", "page-term-skip"} <= linked
    assert linked == set(re.findall(r'id="(page-term-[\w-]+)"', text))
    first = text.split("<main")[1].split("</section>")[0]
    assert first.count("page-term-symmetry") == 2  # one link: its target, and its description


def shown(seen: Opened) -> str:
    tip = seen.page.locator("#page-tip")
    expect(tip).to_be_visible()
    box = tip.bounding_box()
    width = seen.js("document.documentElement.clientWidth")
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    return tip.inner_text()


def test_words_are_explained_by_mouse_and_keyboard(light: Opened) -> None:
    link = light.page.locator("#collapse a.term", has_text="skip").first
    link.hover()
    assert shown(light) == GLOSSARY["skip"]
    light.page.mouse.move(0, 0)
    expect(light.page.locator("#page-tip")).to_be_hidden()
    link.focus()
    assert shown(light) == GLOSSARY["skip"]
    light.page.keyboard.press("Escape")
    expect(light.page.locator("#page-tip")).to_be_hidden()
    light.page.keyboard.press("Enter")
    assert shown(light) == GLOSSARY["skip"]
    assert "#page-term" not in light.page.url


def test_words_are_explained_by_a_finger(browser: Browser, plain_file: Path) -> None:
    with opened(browser, plain_file, width=390, is_mobile=True, has_touch=True) as seen:
        seen.page.locator("#collapse a.term").first.tap()
        assert shown(seen) == GLOSSARY["skip"]
        seen.check()


def test_without_scripts_words_lead_to_the_glossary(browser: Browser, plain_file: Path) -> None:
    with opened(browser, plain_file, java_script_enabled=False) as seen:
        seen.page.locator("#collapse a.term").first.click()
        expect(seen.page.locator("#page-term-skip dd")).to_be_in_viewport()
