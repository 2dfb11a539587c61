"""Tables and documents of a report in a real browser: sorted, copied, saved."""

import json
import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from support.browser import Opened, opened
from support.sample_pages import DOCUMENT, HOSTILE, SPEC


def column(seen: Opened, number: int) -> list[str]:
    """The text of a column of the table that is sorted."""
    return seen.page.locator(f"#table-sorting tbody tr > :nth-child({number})").all_text_contents()


def head(seen: Opened, name: str) -> str | None:
    return seen.page.locator(f"#table-sorting th:has-text('{name}')").get_attribute("aria-sort")


def test_numbers_are_sorted_by_a_click(light: Opened) -> None:
    first = column(light, 1)
    button = light.page.locator("#table-sorting th button", has_text="weights")
    button.click()
    assert head(light, "weights") == "ascending"
    # The two large ones are the same as floats; 12 and 12 keep their order; none comes last.
    largest = ["9,007,199,254,740,992", "9,007,199,254,740,993"]
    assert column(light, 2) == ["12", "12", *largest, "–none"]
    assert column(light, 1)[:2] == first[3:]
    button.click()
    assert head(light, "weights") == "descending"
    assert column(light, 2) == [*reversed(largest), "12", "12", "–none"]
    assert column(light, 1)[2:4] == first[3:]
    button.click()
    assert head(light, "weights") is None
    assert column(light, 1) == first


def test_floats_are_sorted_by_value_and_not_by_digits(light: Opened) -> None:
    light.page.locator("#table-sorting th button", has_text="share").click()
    assert column(light, 3) == ["−3", "1.5\u2009×\u200910⁻⁹", "0.25", "∞", "NaN"]


def test_words_are_sorted_as_words_by_the_keyboard(light: Opened) -> None:
    light.page.locator("#table-sorting th button", has_text="weights").focus()
    light.page.keyboard.press("Shift+Tab")
    light.page.keyboard.press("Enter")
    assert head(light, "part") == "ascending"
    assert column(light, 1)[1:] == ["layer 1", "Layer 2", "layer 9", "layer 10"]
    light.page.keyboard.press("Tab")
    light.page.keyboard.press("Enter")
    assert (head(light, "part"), head(light, "weights")) == (None, "ascending")
    expect(light.page.locator("#page-status")).to_have_text("sorted by weights, ascending")


def test_a_table_is_copied_in_full(light: Opened) -> None:
    light.page.locator("[data-tsv=table-sorting]").click()
    expect(light.page.locator("#page-status")).to_have_text("copied")
    rows = [row.split("\t") for row in light.js("navigator.clipboard.readText()").split("\n")]
    assert rows[0] == ["part", "weights", "share", "exact"]
    assert rows[1] == ["layer 10", "9007199254740993", "0.25", "true"]
    assert rows[2] == ["layer 9", "", "NaN", ""]
    assert rows[4] == [HOSTILE, "12", "-3.0", "true"]


def test_copying_works_where_the_clipboard_is_not_given(browser: Browser, plain_file: Path) -> None:
    script = """
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      addEventListener("copy", () => (window.copied = document.activeElement.value));
    """
    with opened(browser, plain_file, script=script) as seen:
        seen.page.locator("#dimension .source summary").click()
        seen.page.locator("#dimension .command [data-copy]").click()
        expect(seen.page.locator("#page-status")).to_have_text("copied")
        assert seen.js("window.copied") == f"segre dim {SPEC}"


def test_a_table_is_saved_as_csv(light: Opened) -> None:
    with light.page.expect_download() as download:
        light.page.locator("[data-csv=table-sorting]").click()
    assert download.value.suggested_filename == "sorting.csv"
    lines = Path(download.value.path()).read_text().split("\n")
    assert lines[1] == "layer 10,9007199254740993,0.25,true"
    assert lines[4] == '"' + HOSTILE.replace('"', '""') + '",12,-3.0,true'


def test_formulas_in_names_are_not_computed_by_spreadsheets(light: Opened) -> None:
    with light.page.expect_download() as download:
        light.page.locator("main > section").nth(6).locator("[data-csv]").click()
    assert Path(download.value.path()).read_text().split("\n")[2:4] == ["", "'=1+cmd()"]


def test_wide_and_tall_tables_scroll_by_themselves(light: Opened) -> None:
    sizes = "(box) => [box.scrollWidth > box.clientWidth, box.scrollHeight > box.clientHeight]"
    box = light.page.locator(".scroll:has(#table-tall)")
    assert box.evaluate(sizes) == [True, True]
    assert box.get_attribute("tabindex") == "0"
    top = box.evaluate("(box) => ((box.scrollTop = 300), box.getBoundingClientRect().top)")
    assert (
        abs(box.locator("thead th").first.evaluate("(h) => h.getBoundingClientRect().top") - top)
        < 3
    )
    assert light.page.locator(".scroll:has(#table-sorting)").get_attribute("tabindex") is None


def test_names_of_rows_stay_when_numbers_are_scrolled(light: Opened) -> None:
    box = light.page.locator(".scroll:has(#table-tall)")
    left = "(one) => one.getBoundingClientRect().left"
    before = box.locator("tbody tr:first-child > *").first.evaluate(left)
    number = box.locator("tbody td").first.evaluate(left)
    box.evaluate("(box) => (box.scrollLeft = 150)")
    assert box.locator("tbody tr:first-child > *").first.evaluate(left) == before
    assert box.locator("tbody td").first.evaluate(left) == number - 150


def test_everything_is_downloaded_as_it_was_given(light: Opened) -> None:
    assert light.page.locator("[data-everything]").count() == 2
    for n in range(2):
        with light.page.expect_download() as download:
            light.page.locator("[data-everything]").nth(n).click()
        assert re.fullmatch(r"llama-d-8-[a-z0-9-]+\.json", download.value.suggested_filename)
        assert json.loads(Path(download.value.path()).read_text()) == DOCUMENT


def test_documents_are_downloaded(light: Opened) -> None:
    saved = {}
    for button in light.page.locator("#dimension [data-save]").all():
        with light.page.expect_download() as download:
            button.click()
        saved[download.value.suggested_filename] = Path(download.value.path()).read_text()
    assert json.loads(saved["certificate.json"]) == {"rank": 1208, "p": 8388593}
    assert saved["network-spec.toml"] == 'family = "llama"\n'
    assert "28 bytes" in light.page.locator("#dimension [data-save]").first.inner_text()
