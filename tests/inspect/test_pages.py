"""Pages in a real browser: the switch changes the map, a click or a key opens a head."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from segre.checkpoint.runnable import open_model
from segre.cli.app import app
from segre.inspect.recorded import recorded
from support.browser import Opened, opened, running
from support.zoo import save_tiny


def test_the_switch_changes_the_map(tmp_path: Path) -> None:
    model = str(save_tiny("llama", tmp_path / "model"))
    page, other = tmp_path / "d.html", tmp_path / "t.html"
    done = CliRunner().invoke(
        app, ["model", "diagnose", model, "--length", "12", "--ablate", "1.1", "-o", str(page)]
    )
    assert f"page: {page}" in done.stdout
    CliRunner().invoke(app, ["model", "trace", model, "--length", "12", "-o", str(other)])
    with running() as browser:
        with opened(browser, page) as seen:
            plot = "document.querySelector('#figure-layers-and-heads .plot')"
            shown = f"{plot}.data.map((one) => one.visible)"
            assert seen.js(shown).index(True) == 0
            seen.page.locator("#figure-layers-and-heads .choice select").select_option(index=3)
            seen.page.wait_for_function(f"() => ({shown}).indexOf(true) === 3")
            assert "controls" in seen.page.inner_text("body")
            seen.check()
        with opened(browser, other) as seen:
            assert seen.page.locator("text=Contributions of tokens").count() >= 1
            seen.check()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three pages that have a map of heads, of one model."""
    folder = tmp_path_factory.mktemp("pages")
    model = str(save_tiny("llama", folder / "model"))
    size = ["--length", "12"]
    lines = {
        "diagnose": ["model", "diagnose", model, *size],
        "analyze": ["analyze", model, "--only", "findings,heads", *size],
        "against": ["analyze", model, "--against", model, "--only", "findings,heads", *size],
    }
    for name, line in lines.items():
        done = CliRunner().invoke(app, [*line, "-o", str(folder / f"{name}.html")])
        assert done.exit_code == 0, done.output
    return {name: folder / f"{name}.html" for name in lines} | {"model": Path(model)}


def title(seen: Opened, number: int = 0) -> str:
    return str(seen.page.locator("[data-said]").nth(number).text_content())


PAINTED = "document.querySelector('[data-canvas]').toDataURL()"


def painted(seen: Opened) -> str:
    return str(seen.js(PAINTED))


@pytest.mark.parametrize("name", ["diagnose", "analyze", "against"])
def test_a_click_on_the_map_opens_the_head(
    name: str, browser: Browser, files: dict[str, Path]
) -> None:
    with opened(browser, files[name]) as seen:
        assert title(seen) == "Layer 1, head 1"
        before = painted(seen)
        figure = seen.page.locator("figure:has([data-panel])").first
        figure.scroll_into_view_if_needed()
        box = figure.locator(".plot .heatmaplayer").first.bounding_box()
        assert box is not None
        # of 3 layers and 4 heads, the second layer and the third head
        seen.page.mouse.click(box["x"] + box["width"] * 0.63, box["y"] + box["height"] * 0.5)
        expect(seen.page.locator("[data-said]").first).to_have_text("Layer 2, head 3")
        assert painted(seen) != before
        expect(figure.locator(".plot .shapelayer path")).to_have_count(1)
        assert seen.page.locator("[data-layer]").first.input_value() == "1"
        if name == "against":
            assert title(seen, 1) == "Layer 1, head 1"  # the other model's panel is its own
        seen.check()


def test_keys_open_heads_and_what_is_shown_is_the_pass(
    browser: Browser, files: dict[str, Path]
) -> None:
    model = open_model(files["model"])
    ids = np.random.default_rng(0).integers(model.spec.vocab, size=(1, 12))[0]
    layer = recorded(model, ids).layers[2]
    with opened(browser, files["diagnose"]) as seen:
        canvas = seen.page.locator("[data-canvas]")
        seen.page.locator(".chief > summary").press("Enter")
        canvas.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowDown"):
            seen.page.keyboard.press(key)
        assert title(seen) == "Layer 3, head 2"  # the last layer: there is no next one
        assert "layer 3, head 2" in str(canvas.get_attribute("aria-label"))
        mean = layer.patterns[1, 3:].mean(axis=0)
        top = seen.page.locator("[data-top] li").first
        assert f"token {int(mean.argmax())}" in str(top.text_content())
        shown = float(str(top.locator(".value").text_content()))
        assert shown == pytest.approx(mean.max(), rel=5e-3)
        first = seen.page.locator("[data-singular] .value").first.text_content()
        assert float(str(first)) == pytest.approx(np.linalg.norm(layer.patterns[1], 2), rel=5e-3)
        box = canvas.bounding_box()
        assert box is not None
        size = box["width"] / 12
        seen.page.mouse.move(box["x"] + 1.5 * size, box["y"] + 7.5 * size)  # key 1, query 7
        words = str(seen.page.locator("[data-under]").text_content())
        assert words.startswith("token 7 attends to token 1: ")
        right = layer.patterns[1, 7, 1]
        assert float(words.rpartition(" ")[2]) == pytest.approx(right, abs=0.5 / 255 + 6e-4)
        seen.page.locator("[data-head]").select_option(index=3)
        assert title(seen) == "Layer 3, head 4"
        seen.check()


@pytest.mark.parametrize("width", [1280, 390])
def test_panels_fit_and_follow_the_colours(
    width: int, browser: Browser, files: dict[str, Path]
) -> None:
    with opened(browser, files["against"], width=width) as seen:
        assert seen.scroll_width() <= width
        light = painted(seen)
        button = seen.page.locator("[data-theme-button]").first
        button.click()  # light
        button.click()  # dark
        seen.page.wait_for_function(f"(light) => {PAINTED} !== light", arg=light)
        expect(seen.page.locator(".plot .shapelayer path")).to_have_count(2)  # drawn again
        seen.check()


def test_a_page_grows_by_no_more_than_its_heads(files: dict[str, Path]) -> None:
    """Patterns are bytes: of 12 heads and 12 tokens 1,728, as text a third more."""
    text = files["diagnose"].read_text()
    start = text.index("data-panel")
    panel = text[start : text.index("</script>", start)]
    assert len(panel) < 12 * 12 * 12 * 4 / 3 + 12 * 300 + 500
