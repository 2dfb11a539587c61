"""The page in a real browser: served and static, by mouse and by keyboard, without the network."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import segre
from segre.explore.page import served_page, static_page
from segre.explore.server import Explorer
from segre.geometry.redundancy import counted
from support.browser import Opened, opened, running

pytestmark = pytest.mark.browser

SMALL = "transformer/d=64/layers=4/heads=4/ff=128/mlp=gelu/norm=rms/eps=1e-05/causal=true/t=64"
DESIGN = ("rms", "pre", "gelu", "none", "none", "none", "softmax")
NEAR = {DESIGN, (*DESIGN[:3], "rope", *DESIGN[4:])}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def server() -> Iterator[Explorer]:
    page, policy = served_page()
    with Explorer(page, policy, seconds=120) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "explorer.html"
    path.write_text(static_page("theorems.html", NEAR.__contains__), encoding="utf-8")
    return path


def settled(page: Opened, change: str, argument: Any = None) -> str:
    """Change something, and wait until the answer is about the design of the controls."""
    page.js("() => delete document.documentElement.dataset.drawn")
    page.js(change, argument)
    page.page.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
    return str(page.js("() => document.getElementById('spec').textContent"))


def text(page: Opened, name: str) -> str:
    return str(page.js("(id) => document.getElementById(id).textContent", name))


def digits(words: str) -> int:
    return int(re.sub(r"\D", "", words))


SLIDE = """([key, by]) => {
  const slider = document.getElementById(`s-${key}`);
  slider.value = Number(slider.value) + by;
  slider.dispatchEvent(new Event("input"));
}"""
CHOOSE = """([key, value]) => {
  const select = document.getElementById(`c-${key}`);
  select.value = value;
  select.dispatchEvent(new Event("change"));
}"""


def agrees(page: Opened, spec: str) -> None:
    """What the page shows is what segre says of the spec that it shows."""
    found = segre.explain(spec).finding  # type: ignore[union-attr]
    assert digits(text(page, "parameters")) == found.parameters
    assert digits(text(page, "dimension")) == found.upper
    assert text(page, "dimension").startswith("at most") == (found.value is None)
    assert ("proved by" in text(page, "badge")) == (found.value is not None)
    assert digits(text(page, "redundant")) == found.parameters - found.upper


def test_a_served_page_follows_its_controls(browser: Browser, server: Explorer) -> None:
    with opened(browser, server.url) as page:
        assert text(page, "dimension") == "8,016,918,528"
        assert "proved by theorem C" in text(page, "badge")
        assert "gpt2: 124,439,808" in text(page, "parameters-beside")
        seen = set()
        for change, argument in (
            (SLIDE, ["kv", -1]),
            (SLIDE, ["d", -3]),
            (CHOOSE, ["norm", "layer"]),
            (CHOOSE, ["pos", "none"]),
            (CHOOSE, ["attn", "lightning"]),
            (CHOOSE, ["start", "qwen2-7b"]),
        ):
            if argument[0] == "start":
                change = change.replace("c-${key}", "${key}")
            spec = settled(page, change, argument)
            agrees(page, spec)
            seen.add(spec)
            assert page.js("decodeURIComponent(location.hash)").startswith(f"#{spec}")
        assert len(seen) == 6
        page.check()


def test_a_served_page_refuses_proves_and_measures(browser: Browser, server: Explorer) -> None:
    tiny = "transformer/d=4/heads=2/t=3"
    with opened(browser, server.url, anchor=f"#{tiny}") as page:
        page.page.get_by_role("button", name="Prove it by computing").click()
        page.page.get_by_text("proved by computation").wait_for(timeout=120_000)
        assert digits(text(page, "dimension")) == segre.dimension(tiny).value
        with page.page.expect_download() as saved:
            page.page.get_by_role("button", name="Download the certificate").click()
        assert segre.verify(saved.value.path()).valid
        page.page.wait_for_selector("#curve-chart path", state="attached", timeout=120_000)
        settled(page, CHOOSE, ["norm", "rms"])
        settled(page, CHOOSE, ["place", "post"])
        settled(page, CHOOSE, ["pos", "rope"])
        settled(page, CHOOSE, ["qknorm", "true"])
        spec = settled(page, CHOOSE, ["attn", "softmax"])
        agrees(page, spec)
        settled(page, "() => { location.hash = '#transformer/d=8/heads=3/t=3' }")
        assert "does not divide" in text(page, "problem")
        page.check()


def test_nothing_leaves_loopback(browser: Browser, server: Explorer) -> None:
    with opened(browser, server.url) as page:
        asked: list[str] = []
        page.page.on("request", lambda request: asked.append(request.url))
        settled(page, SLIDE, ["layers", 1])
        assert asked
        assert all(url.startswith((server.url, "data:")) for url in asked)
        blocked = page.js(
            "() => fetch('http://127.0.0.1:9/').then(() => 'let through', () => 'blocked')"
        )
        assert blocked == "blocked"
        assert any("Content Security Policy" in one for one in page.complaints)


def test_a_walk_by_keyboard(browser: Browser, server: Explorer) -> None:
    with opened(browser, server.url, anchor=f"#{SMALL}") as page:
        keys, reached = page.page.keyboard, []
        for _ in range(60):
            keys.press("Tab")
            name = page.js("() => document.activeElement.id")
            reached.append(name)
            if name == "s-layers":
                before = text(page, "parameters")
                page.js("() => delete document.documentElement.dataset.drawn")
                keys.press("ArrowRight")
                page.page.wait_for_selector("html[data-drawn]", state="attached")
                assert text(page, "parameters") != before
                agrees(page, text(page, "spec"))
            if name:
                ring = "() => getComputedStyle(document.activeElement).outlineStyle"
                assert page.js(ring) != "none", name
        for name in ("start", "against", "s-d", "c-d", "c-mlp", "c-causal", "copy-spec"):
            assert name in reached
        unnamed = """() => [...document.querySelectorAll("input, select, button")].filter(
            (one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim()
        ).map((one) => one.id)"""
        assert page.js(unnamed) == []
        heard = page.page.locator("#status", has_text="functional dimension")
        heard.wait_for(state="attached")
        page.check()


def test_a_static_page_counts_as_segre_does(browser: Browser, file: Path) -> None:
    with opened(browser, file, anchor=f"#{SMALL}") as page:
        for change, argument in (
            (SLIDE, ["d", 2]),
            (SLIDE, ["layers", 5]),
            (SLIDE, ["heads", 2]),
            (SLIDE, ["kv", -2]),
            (CHOOSE, ["pos", "rope"]),
            (CHOOSE, ["mlp", "gelu-tanh"]),
        ):
            spec = settled(page, change, argument)
            assert page.js("() => document.getElementById('problem').hidden"), text(page, "problem")
            found = counted(segre.architecture(spec))
            assert digits(text(page, "parameters")) == found.parameters
            assert text(page, "dimension") == f"at most {found.upper:,}"
            assert "not proved" in text(page, "badge")
        settled(page, CHOOSE, ["bias", "mlp"])
        assert "Run segre explore" in text(page, "problem")
        settled(page, CHOOSE.replace("c-${key}", "${key}"), ["start", "llama-3-8b"])
        assert text(page, "dimension") == "8,016,918,528"
        assert page.js("document.querySelector('#actions a').href").endswith("#theorem-c")
        assert "run segre explore" in text(page, "curve-said")
        page.check()


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Browser, file: Path, width: int) -> None:
    with opened(browser, file, width=width) as page:
        assert page.scroll_width() <= width
        page.check()
