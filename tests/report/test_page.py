"""A report in a real browser: it is drawn, coloured, printed, read, and asks for nothing."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from segre.report.blocks import Figure
from segre.report.page.cells import slug
from support.browser import Opened, opened
from support.sample_pages import HOSTILE, SPEC, everything, hostile_plot

FIGURES = [
    block for section in everything().sections for block in section.blocks if type(block) is Figure
]
PAPER = {"light": "rgb(251, 251, 249)", "dark": "rgb(20, 23, 26)"}


# ---- it is drawn ------------------------------------------------------------------------------


def test_every_plot_is_drawn(seen: Opened) -> None:
    assert len(FIGURES) == 5
    assert seen.js("document.documentElement.dataset.drawn") == "6"  # one of them is folded
    for figure in FIGURES:
        plot = f"#figure-{slug(figure.title)} .plot"
        box = seen.page.locator(f"{plot} svg.main-svg").first.bounding_box()
        assert box
        assert box["width"] > 600
        assert box["height"] == figure.height
        assert seen.js(f"document.querySelector('{plot}').data.length") == len(figure.traces)
    marks = ".points path, .lines path.js-line, .hm image"
    for figure in FIGURES:
        assert seen.page.locator(f"#figure-{slug(figure.title)} .plot").locator(marks).count() > 0


def test_a_folded_plot_is_drawn_when_it_is_opened(seen: Opened) -> None:
    plot = seen.page.locator("#figure-heat-folded .plot svg.main-svg").first
    assert seen.page.locator("#figure-heat-folded svg.main-svg").count() == 0
    seen.page.locator("#fold-more-regions > summary").press("Enter")
    expect(plot).to_be_visible()
    box = plot.bounding_box()
    assert box
    assert box["width"] > 600


def test_blocks_of_a_row_stand_side_by_side_where_there_is_room(seen: Opened) -> None:
    tops = "[...document.querySelectorAll('#bound .row > div')].map((e) => e.offsetTop)"
    left, right = seen.js(tops)
    assert left == right
    seen.page.set_viewport_size({"width": 700, "height": 900})
    above, below = seen.js(tops)
    assert above < below


def test_named_colours_are_resolved(seen: Opened) -> None:
    drawn = json.dumps(seen.js("[...document.querySelectorAll('.plot')].map(p => p.data)"))
    assert not re.search(r'"@[\w/.]+"', drawn)
    assert "rgba(0, 103, 176, 0.2)" in drawn  # "@1/0.2"
    scale = seen.js("document.querySelector('#figure-heat-square .plot').data[0].colorscale")
    assert len(scale) == 9
    assert all(re.fullmatch(r"rgb\(\d+, \d+, \d+\)", colour) for _, colour in scale)


def test_plots_follow_the_width(seen: Opened) -> None:
    seen.page.set_viewport_size({"width": 700, "height": 900})
    plot = seen.page.locator("#figure-bars svg.main-svg").first
    expect(plot).to_have_attribute("width", re.compile(r"^6\d\d(\.\d+)?$"))


def test_keys_hide_and_show_series(seen: Opened) -> None:
    lines = seen.page.locator("#figure-bars .plot .trace.bars")
    key = seen.page.locator("#figure-bars .keys button").first
    expect(lines).to_have_count(2)
    key.click()
    expect(key).to_have_attribute("aria-pressed", "false")
    expect(lines).to_have_count(1)
    key.press("Enter")
    expect(lines).to_have_count(2)
    assert seen.page.locator("#figure-lines .keys button").count() == 6  # the band has none


def test_a_plot_is_saved_as_an_image(seen: Opened) -> None:
    with seen.page.expect_download() as download:
        seen.page.locator("#figure-lines [data-image]").click()
    assert download.value.suggested_filename == "lines.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_fails_says_so_and_the_others_are_drawn(browser: Browser, file: Path) -> None:
    script = """
      let given;
      Object.defineProperty(window, "Plotly", { get: () => given, set(plotly) {
        const react = plotly.react;
        given = Object.assign(plotly, { react(plot, ...rest) {
          if (plot.closest("#figure-bars")) throw Error("no bars");
          return react(plot, ...rest);
        } });
      } });
    """
    with opened(browser, file, script=script) as seen:
        assert seen.js("document.documentElement.dataset.drawn") == "5"
        assert "no bars" in seen.page.locator("#figure-bars .plot").inner_text()
        assert len(seen.complaints) == 1


# ---- colours, widths, paper -------------------------------------------------------------------


def test_colours_are_chosen_and_remembered(seen: Opened) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('#figure-bars .ytitle')).fill"
    assert (seen.js(paper), seen.js(text)) == (PAPER["light"], "rgb(27, 31, 36)")
    button = seen.page.locator("[data-theme-button]")
    button.click()
    expect(button).to_have_text("Theme: light")
    button.click()
    expect(button).to_have_text("Theme: dark")
    assert (seen.js(paper), seen.js(text)) == (PAPER["dark"], "rgb(232, 230, 225)")
    seen.page.reload()
    seen.page.wait_for_selector("html[data-drawn]", state="attached")
    assert (seen.js(paper), seen.js(text)) == (PAPER["dark"], "rgb(232, 230, 225)")
    button.click()
    expect(button).to_have_text("Theme: auto")
    assert seen.js(paper) == PAPER["light"]
    seen.page.emulate_media(color_scheme="dark")
    assert seen.js(paper) == PAPER["dark"]
    expect(seen.page.locator("#figure-bars .ytitle")).to_have_css("fill", "rgb(232, 230, 225)")


def test_colours_work_without_storage(browser: Browser, plain_file: Path) -> None:
    script = """Object.defineProperty(window, "localStorage", { get() { throw Error("no"); } });"""
    with opened(browser, plain_file, script=script, color_scheme="dark") as seen:
        seen.page.locator("[data-theme-button]").click()
        assert seen.js("getComputedStyle(document.body).backgroundColor") == PAPER["light"]
        seen.check()


@pytest.mark.parametrize("width", [320, 390, 768, 1099, 1100])
def test_the_page_never_scrolls_sideways(browser: Browser, file: Path, width: int) -> None:
    phone = width < 500
    with opened(browser, file, width=width, is_mobile=phone, has_touch=phone) as seen:
        for details in seen.page.locator("details").all():
            details.evaluate("(one) => (one.open = true)")
        assert seen.scroll_width() <= width
        assert seen.page.locator("nav.side").is_visible() == (width >= 1100)
        assert seen.page.locator("nav.fold").is_visible() == (width < 1100)
        seen.check()


def test_fingers_scroll_over_plots(browser: Browser, file: Path) -> None:
    with opened(browser, file, width=390, is_mobile=True, has_touch=True) as seen:
        assert (
            seen.js("document.querySelector('#figure-lines .plot')._fullLayout.dragmode") is False
        )
        assert seen.page.locator(".plot .modebar-btn").count() == 0


def test_keys_stand_below_their_plots(browser: Browser, file: Path) -> None:
    with opened(browser, file, width=390) as seen:
        title = seen.page.locator("#figure-lines .xtitle").bounding_box()
        keys = seen.page.locator("#figure-lines .keys").bounding_box()
        assert title
        assert keys
        assert keys["y"] >= title["y"] + title["height"]


def test_paper_is_light_and_whole(browser: Browser, file: Path) -> None:
    with opened(browser, file, color_scheme="dark") as seen:
        closed = "document.querySelectorAll('details:not([open])').length"
        before = seen.js(closed)
        assert before > 0
        seen.js(
            """addEventListener("beforeprint", () => (window.printed = {
              closed: document.querySelectorAll("details:not([open])").length,
              width: document.querySelector("#figure-bars svg.main-svg").getAttribute("width"),
              text: getComputedStyle(document.querySelector("#figure-bars .ytitle")).fill,
            }))"""
        )
        document = seen.page.pdf()
        assert document.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", document)) > 3
        assert seen.js("window.printed") == {"closed": 0, "width": "660", "text": "rgb(27, 31, 36)"}
        assert seen.js(closed) == before
        seen.js("document.documentElement.dataset.theme = 'dark'")
        seen.page.emulate_media(media="print", color_scheme="dark")
        assert seen.js("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
        tall = seen.page.locator(".scroll:has(#table-tall)")
        assert tall.evaluate("(box) => box.scrollHeight <= box.clientHeight + 1")
        for hidden in (".side", ".fold", "[data-everything]", "[data-tsv]"):
            assert not seen.page.locator(hidden).first.is_visible()
        seen.check()


# ---- what is read -----------------------------------------------------------------------------


def test_hostile_text_is_text(seen: Opened) -> None:
    assert seen.page.title() == SPEC
    assert seen.js("document.querySelectorAll('body img').length") == 0
    assert seen.js("document.querySelectorAll('.plot a[href], .plot svg a').length") == 0
    section = seen.page.locator("main > section").nth(6)
    assert section.locator("h2").text_content() == HOSTILE
    assert section.locator("dt").first.text_content() == HOSTILE
    assert section.locator("caption").first.text_content() == HOSTILE
    assert section.locator("tbody th").first.text_content() == HOSTILE
    assert section.locator("pre").text_content() == HOSTILE
    assert section.locator(".plot").get_attribute("aria-label") == hostile_plot().alt
    assert section.locator(".keys button").last.text_content() == HOSTILE
    assert section.locator(".lead").text_content() == HOSTILE.replace("`", "")  # as code
    labels = section.locator(".plot .xtick text").all_text_contents()
    assert "a < b" in labels
    assert any(label.startswith("</script><img src=x onerror=") for label in labels)


def test_the_policy_refuses_what_is_not_the_page(browser: Browser, file: Path) -> None:
    with opened(browser, file) as seen:
        refused = seen.js(
            """async () => {
              const refused = [];
              addEventListener("securitypolicyviolation", (event) =>
                refused.push(event.effectiveDirective));
              const far = new Image();
              far.src = "https://example.org/x.png";
              const near = document.createElement("div");
              near.innerHTML = "<img src=data:, onerror='window.taken = 1'>";
              const script = document.createElement("script");
              script.textContent = "window.taken = 2";
              document.body.append(far, near, script);
              await new Promise((resolve) => setTimeout(resolve, 300));
              return [refused.sort(), window.taken ?? null];
            }"""
        )
        assert refused == [["img-src", "script-src-attr", "script-src-elem"], None]
        assert seen.failed == ["https://example.org/x.png"]


def test_links_lead_to_sections(browser: Browser, file: Path) -> None:
    with opened(browser, file, anchor="#heads") as seen:
        top = seen.page.locator("#heads").evaluate("(one) => one.getBoundingClientRect().top")
        assert -50 < top < 200
        seen.page.locator("nav.side a", has_text="learning coefficient").click()
        expect(seen.page.locator("#estimate h2")).to_be_in_viewport()
        assert seen.page.url.endswith("#estimate")
        expect(seen.page.locator("nav.side a[aria-current]")).to_contain_text("coefficient")
        seen.check()


def test_a_page_without_plots_has_no_plotly(light: Opened, plain_file: Path) -> None:
    assert light.js("typeof Plotly") == "undefined"
    assert plain_file.stat().st_size < 150_000


def test_without_scripts_everything_is_readable(browser: Browser, file: Path) -> None:
    with opened(browser, file, java_script_enabled=False) as seen:
        assert "9,007,199,254,740,993" in seen.page.locator("#table-sorting").inner_text()
        assert seen.page.locator("header noscript").is_visible()
        assert "need scripts" in seen.page.locator("header noscript").inner_text()
        assert FIGURES[0].alt in seen.page.locator("#figure-bars noscript").inner_text()
        assert not seen.page.locator("[data-everything]").first.is_visible()
        seen.page.locator("#figure-bars summary").click()
        assert seen.page.locator("#table-bars").is_visible()
        assert seen.page.locator("nav.side").is_visible()
