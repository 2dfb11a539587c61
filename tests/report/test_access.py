"""A report for whoever does not see it, or sees it differently: names, order, contrast, focus."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from segre.report.views import MEANINGS
from support.browser import Opened, opened

# Of every text that is seen: its colour, and the first colour behind it.
TEXTS = """() => {
  const found = [];
  const clear = (colour) => /^rgba\\(.*, 0\\)$/.test(colour);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!clear(colour)) return colour;
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, noscript, style")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    found.push([colour, behind(element), walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
}"""
SERIES = """() => {
  const probe = document.createElement("span");
  document.body.append(probe);
  const worn = (name) => ((probe.style.color = `var(--${name})`), getComputedStyle(probe).color);
  return [1, 2, 3, 4, 5, 6, 7, 8].map((n) => worn(`series-${n}`)).concat(worn("paper"));
}"""


@pytest.fixture(scope="module")
def seen(browser: Browser, file: Path) -> Iterator[Opened]:
    with opened(browser, file) as page:
        yield page


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(browser: Browser, file: Path, scheme: str) -> None:
    with opened(browser, file, color_scheme=scheme) as seen:
        for details in seen.page.locator("details").all():
            details.evaluate("(one) => (one.open = true)")
        texts = seen.js(TEXTS)
        assert len(texts) > 500
        faint = {(c, b): text for c, b, text in texts if contrast(c, b) < 4.5}
        assert not faint
        *series, paper = seen.js(SERIES)
        assert len(set(series)) == 8
        assert all(contrast(colour, paper) >= 3 for colour in series)


def test_contrast_can_fail() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(119, 119, 119)", "rgb(255, 255, 255)") < 4.5


def test_ids_are_unique_and_point_somewhere(seen: Opened) -> None:
    ids = seen.js("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    own = [name for name in ids if not name.startswith(("clip", "topdefs", "defs-", "legend"))]
    assert len(own) == len(set(own))
    assert all(name and not set(name) & set(" <>\"'") for name in own)
    dangling = """[...document.querySelectorAll("a[href^='#'], use")].filter(
      (one) => !document.getElementById(one.getAttribute("href").slice(1))).length"""
    assert seen.js(dangling) == 0


def test_everything_to_press_has_a_name(seen: Opened) -> None:
    names = seen.js(
        """[...document.querySelectorAll("button, a[href], summary")].map(
          (one) => (one.getAttribute("aria-label") ?? one.textContent).trim())"""
    )
    assert len(names) > 40
    assert all(names)
    plots = seen.page.locator(".plot").all()
    assert len(plots) == 6
    assert all(plot.get_attribute("role") == "img" for plot in plots)
    assert all(plot.get_attribute("aria-label") for plot in plots)
    assert seen.page.locator("img:not([alt])").count() == 0


def test_headings_are_in_order(seen: Opened) -> None:
    levels = seen.js("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert 3 in levels
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("header", "nav", "main", "footer"):
        assert seen.page.locator(landmark).count() >= 1
    assert seen.js("document.documentElement.lang") == "en"


def test_tables_say_what_is_what(seen: Opened) -> None:
    assert seen.page.locator("table").count() == seen.page.locator("table > caption").count() == 10
    assert seen.page.locator("thead th:not([scope=col])").count() == 0
    assert seen.page.locator("tbody th:not([scope=row])").count() == 0
    absent = seen.page.locator("#table-sorting td[data-value='']").first
    assert absent.text_content() == "–none"


def test_the_first_tab_skips_to_the_results(seen: Opened) -> None:
    seen.page.reload()
    seen.page.keyboard.press("Tab")
    skip = seen.page.locator(".skip")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    assert skip.evaluate("(one) => getComputedStyle(one).outlineStyle") == "solid"
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("main")).to_be_focused()


def test_every_status_has_its_own_word_shape_and_meaning(seen: Opened) -> None:
    badges = seen.page.locator("footer .badge").all()
    assert [badge.inner_text() for badge in badges] == list(MEANINGS)
    shapes = [badge.locator("use").get_attribute("href") or "" for badge in badges]
    drawings = [seen.js("(id) => document.querySelector(id).innerHTML", shape) for shape in shapes]
    assert len(set(drawings)) == len(MEANINGS)
    meanings = seen.page.locator("footer .labels dd").all_inner_texts()
    assert meanings == list(MEANINGS.values())


def test_nothing_moves_where_that_is_not_wanted(browser: Browser, file: Path) -> None:
    moving = """[...document.querySelectorAll("*")].map((one) => getComputedStyle(one)).filter(
      (style) => style.transitionDuration !== "0s" || style.animationName !== "none").length"""
    with opened(browser, file) as seen:
        assert seen.js(moving) > 0  # plotly's buttons
        seen.page.emulate_media(reduced_motion="reduce")
        assert seen.js(moving) == 0
