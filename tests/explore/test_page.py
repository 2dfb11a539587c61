"""The page in a real browser: served and static, by mouse and by keyboard, without the network."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from playwright.sync_api import Error as PageError

import segre
from segre.explore import controls, stack_controls
from segre.explore.designs import design, presets
from segre.explore.grid import as_written, changed
from segre.explore.known import known_of_stack
from segre.explore.page import served_page
from segre.explore.server import Explorer
from segre.finding import Finding
from segre.geometry.at_any_size import at_any_size, formulas
from segre.transformer.spec import Transformer
from support.browser import Opened, opened, running
from support.terminal import run

pytestmark = pytest.mark.browser

SMALL = "transformer/d=64/layers=4/heads=4/ff=128/mlp=gelu/norm=rms/eps=1e-05/causal=true/t=64"


FIRST_SPEC = presets()["llama-3-8b"]  # whose changes are in the table of the static page


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


@pytest.fixture
def file(static_file: Path) -> Path:
    return static_file


def settled(page: Opened, change: str, argument: Any = None, patience: float = 120) -> str:
    """Change something, and wait until the answer is about the design of the controls."""
    page.js("() => delete document.documentElement.dataset.drawn")
    page.js(change, argument)
    page.drawn(patience=patience)
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


# Random changes of the controls, one after the other, and what the page then says.
WALK = """async ([steps, seed, keys, first, limit]) => {
  let state = seed;
  const random = (n) => ((state = (state * 48271) % 2147483647), state % n);
  const said = (id) => document.getElementById(id).textContent;
  let broken = null;
  window.addEventListener("error", (event) => (broken = event.message));
  window.addEventListener("unhandledrejection", (event) => (broken = String(event.reason)));
  const drawn = async (act) => {
    delete document.documentElement.dataset.drawn;
    act();
    for (const start = Date.now(); document.documentElement.dataset.drawn === undefined; ) {
      if (broken !== null) throw new Error(broken);
      if (Date.now() - start > limit) throw new Error("the page is not drawn");
      await new Promise((done) => setTimeout(done, 5));
    }
  };
  const found = [];
  while (found.length < steps) {
    if (found.length % 4 === 0 && found.length) await drawn(() => (location.hash = "#" + first));
    const every = [...document.querySelectorAll("#controls input, #controls select")].filter(
      (one) => !one.disabled && one.type !== "number" && (!keys || keys[one.id.slice(2)])
    );
    const one = every[random(every.length)], allowed = keys?.[one.id.slice(2)];
    if (one.type === "range") one.value = random(Number(one.max) + 1);
    else if (one.type === "checkbox") one.checked = !one.checked;
    else {
      const options = [...one.options].filter((x) => !x.disabled).map((x) => x.value);
      const chosen = options.filter((x) => !allowed?.length || allowed.includes(x));
      one.value = chosen[random(chosen.length)];
    }
    await drawn(() => one.dispatchEvent(new Event(one.type === "range" ? "input" : "change")));
    const problem = document.getElementById("problem");
    found.push({
      spec: said("spec"), problem: problem.hidden ? "" : problem.textContent, badge: said("badge"),
      parameters: said("parameters"), dimension: said("dimension"), redundant: said("redundant"),
    });
  }
  return found;
}"""


def expected(spec: str) -> Finding | None:
    """What segre says of a spec that was copied from the page; None if it has no formula for it."""
    net = segre.architecture(spec)
    if not isinstance(net, Transformer):
        return known_of_stack(design(spec))  # type: ignore[arg-type]
    return at_any_size(net, formulas)


def same(state: dict[str, str], found: Finding) -> None:
    """A state of the page has the numbers of a finding, and a bound or a prediction says so."""
    number = next(n for n in (found.value, found.upper, found.estimate) if n is not None)
    words = (
        "" if found.value is not None else "at most " if found.estimate is None else "predicted "
    )
    assert state["dimension"] == f"{words}{number:,}", state["spec"]
    assert digits(state["parameters"]) == found.parameters, state["spec"]
    assert digits(state["redundant"]) == found.parameters - number
    assert state["badge"].startswith("proved by") == (found.value is not None)


def agrees(page: Opened, spec: str) -> None:
    """What the page shows is what segre says of the spec that it shows."""
    found = expected(spec)
    assert found is not None
    names = ("parameters", "dimension", "redundant", "badge")
    same({"spec": spec, **{name: text(page, name) for name in names}}, found)


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
            (CHOOSE, ["family", "stack"]),
            (CHOOSE, ["kind", "double"]),
        ):
            if argument[0] in ("start", "family"):
                change = change.replace("c-${key}", "${key}")
            spec = settled(page, change, argument)
            agrees(page, spec)
            seen.add(spec)
            assert page.js("decodeURIComponent(location.hash)").startswith(f"#{spec}")
        assert len(seen) == 8
        page.check()


def test_a_served_page_refuses_proves_and_measures(browser: Browser, server: Explorer) -> None:
    tiny = "transformer/d=4/heads=2/t=3"
    with opened(browser, server.url, anchor=f"#{tiny}") as page:
        page.page.get_by_role("button", name="Prove it by computing").click()
        page.page.locator("#badge", has_text="proved by computation").wait_for(timeout=120_000)
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


def test_a_served_page_agrees_with_segre_wherever_its_controls_go(
    browser: Browser, server: Explorer
) -> None:
    large = "transformer/d=64/layers=3/heads=4/ff=96/mlp=swiglu/norm=rms/eps=1e-05/vocab=512/t=64"
    stack = "softmax/d=64/layers=3/a=8/heads=4/dv=16/t=32"
    answered = 0
    for first, seed in ((large, 11), (stack, 5)):
        with opened(browser, server.url, anchor=f"#{first}") as page:
            for state in page.js(WALK, [24, seed, None, first, 60_000]):
                if state["problem"]:
                    assert state["problem"].count("\n") == 0
                    continue
                found = expected(state["spec"])
                if found is not None and "computation" not in state["badge"]:
                    same(state, found)
                    answered += 1
            page.check()
    assert answered > 15


def test_a_theorem_is_opened_and_its_certificate_is_valid(
    browser: Browser, server: Explorer
) -> None:
    with opened(browser, server.url, anchor="#softmax/d=16/layers=3/a=4/t=8") as page:
        page.page.get_by_text("Open the proof: theorem A for this design").click()
        found = segre.dimension("softmax/d=16/layers=3/a=4/t=8")
        assert f"{found.parameters:,} − {found.fiber_dimension:,} = {found.value:,}" in text(
            page, "proof-statement"
        )
        assert text(page, "hypotheses-rows") == "t >= 28>= 2yes"
        with page.page.expect_download() as saved:
            page.page.get_by_role("button", name="Download the certificate").click()
        assert segre.verify(saved.value.path()).valid
        said = page.page.locator("#curve-said", has_text="Measured, not proved: one draw of random")
        said.wait_for(timeout=120_000)
        assert "(seed 0), run on 2 inputs of 8 random vectors" in text(page, "curve-said")
        page.check()


def test_a_design_is_pinned_and_copied_and_shared(browser: Browser, file: Path) -> None:
    with opened(browser, file, anchor=f"#{FIRST_SPEC}") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        before = text(page, "parameters")
        settled(page, "() => document.getElementById('pin').click()")
        spec = settled(page, SLIDE, ["layers", 2])
        assert f"pinned design: {before}" in text(page, "parameters-beside")
        page.page.get_by_role("button", name="Copy spec").click()
        page.page.get_by_role("button", name="Copied").wait_for()
        copied = page.js("() => navigator.clipboard.readText()")
        assert copied == spec
        assert segre.dimension(copied).upper == digits(text(page, "dimension"))
        hash_, shown = page.js("() => location.hash"), text(page, "dimension")
        page.check()
    with opened(browser, file, anchor=hash_) as page:
        assert (text(page, "spec"), text(page, "dimension")) == (spec, shown)
        assert f"pinned design: {before}" in text(page, "parameters-beside")


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
        for _ in range(75):
            keys.press("Tab")
            name = page.js("() => document.activeElement.id")
            reached.append(name)
            if name == "s-layers":
                before = text(page, "parameters")
                page.js("() => delete document.documentElement.dataset.drawn")
                keys.press("ArrowRight")
                page.drawn()
                assert text(page, "parameters") != before
                agrees(page, text(page, "spec"))
            ring = "() => getComputedStyle(document.activeElement).outlineStyle"
            assert page.js(ring) != "none" or page.js(
                "() => document.activeElement === document.body"
            )
        for name in ("family", "start", "against", "pin", "s-d", "c-d", "c-mlp", "c-causal"):
            assert name in reached
        assert "copy-spec" in reached
        unnamed = """() => [...document.querySelectorAll("input, select, button")].filter(
            (one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim()
        ).map((one) => one.id)"""
        assert page.js(unnamed) == []
        heard = page.page.locator("#status", has_text="functional dimension")
        heard.wait_for(state="attached")
        assert page.js("() => document.getElementById('status').ariaLive") == "polite"
        page.js("() => document.getElementById('family').focus()")
        keys.press("ArrowDown")
        page.page.locator("#spec", has_text="softmax/").wait_for()
        page.check()


@pytest.mark.parametrize("first", ["llama-3-8b", "softmax stack", "bert-base-uncased"])
def test_a_static_page_agrees_with_segre_wherever_its_controls_go(
    browser: Browser, file: Path, first: str
) -> None:
    """Sliders and menus stop only where the page has an answer, which is segre's."""
    kinds, spec = set(), presets()[first]
    with opened(browser, file, anchor=f"#{spec}") as page:
        for state in page.js(WALK, [40, 3, None, spec, 60_000]):
            if state["problem"]:
                assert state["problem"].startswith("Not known here")
                assert state["dimension"] == "–"
                assert state["badge"] == "not available"
                continue
            found = expected(state["spec"])
            assert found is not None, state["spec"]
            same(state, found)
            kinds.add(state["badge"].partition(" by")[0].partition(",")[0])
        page.check()
    assert len(kinds) >= 2


OFFERED = """() => Object.fromEntries([...document.querySelectorAll(
  "#controls input[type=range]:enabled, #controls select:enabled, #controls [type=checkbox]:enabled"
)].map((one) => [one.id.slice(2), one.type === "range" ? Number(one.max) + 1
  : one.type === "checkbox" ? 2 : [...one.options].filter((x) => !x.disabled).length]))"""


@pytest.mark.parametrize("first", ["llama-3-8b", "softmax stack"])
def test_controls_offer_what_the_table_has(browser: Browser, file: Path, first: str) -> None:
    """At the first design, nearly all values of nearly all controls, and segre accepts them."""
    text = as_written(presets()[first])
    known = controls.CONTROLS if first == "llama-3-8b" else stack_controls.CONTROLS
    with opened(browser, file, anchor=f"#{text}") as page:
        offered = page.js(OFFERED)
        page.check()
    assert len(offered) > 12
    for one in known:
        values = [str(value) for value in one.values or ("false", "true")]
        valid = [value for value in values if accepted(changed(text, one, value))]
        if one.key in offered and one.key not in ("d", "heads", "kv"):  # others follow from these
            assert abs(offered[one.key] - len(valid)) <= 1, one.key


def accepted(spec: str) -> bool:
    try:
        design(spec)
    except segre.SegreError:
        return False
    return True


def test_how_every_number_is_known_stands_beside_it(browser: Browser, file: Path) -> None:
    every = [f"{name}-status" for name in ("parameters", "redundant", "pieces", "symmetries")]
    every += ["badge", "choices-status", "cost-status", "curve-status"]
    with opened(browser, file, anchor=f"#{presets()['pythia-70m']}") as page:
        said = {name: text(page, name) for name in every}
        assert said["parameters-status"] == said["cost-status"] == "exact count"
        assert said["badge"] == "upper bound, counted by formulas; not proved to be reached"
        assert said["redundant-status"].startswith("lower bound")
        assert said["curve-status"] == "not available on this page"
        settled(page, CHOOSE.replace("c-${key}", "${key}"), ["start", "llama-3-8b"])
        assert text(page, "badge").startswith("proved by theorem C")
        assert text(page, "redundant-status").startswith("proved by theorem")
        settled(page, CHOOSE.replace("c-${key}", "${key}"), ["start", "gated softmax stack"])
        for name in ("badge", "redundant-status", "pieces-status", "symmetries-status"):
            assert text(page, name).startswith("predicted by a formula")
        page.check()


def test_what_changed_is_said_and_can_be_undone(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        first = text(page, "spec")
        settled(page, SLIDE, ["layers", -2])
        settled(page, CHOOSE, ["norm", "layer"])
        assert text(page, "changes-said") == (
            "Changed from llama-3-8b: Layers 32 → 28; Norm RMSNorm → LayerNorm."
        )
        marks = page.js(
            "() => [...document.querySelectorAll('.row.changed')].map((x) => x.innerText)"
        )
        assert len(marks) == 2
        assert "was 32" in marks[0]
        page.page.locator("a.skip").focus()
        page.page.keyboard.press("Enter")  # which moves the focus, and not the design
        assert page.js("() => document.activeElement.id") == "results"
        assert "layers=28" in text(page, "spec")
        settled(page, "() => document.getElementById('undo').click()")
        assert text(page, "spec") == first
        assert page.js("() => document.getElementById('changes').hidden")
        page.page.locator("#choices", has_text="grouped queries").wait_for()
        page.check()


def test_a_static_page_begins_with_the_design_that_is_given(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    done = run("explore", "llama-3-8b/kv=4", "--against", "bert-base-uncased", "-o", path)
    assert done.returncode == 0, done.stderr
    with opened(browser, path) as seen:
        assert design(text(seen, "spec")) == segre.architecture("llama-3-8b/kv=4")
        assert seen.js("() => document.getElementById('against').value") == "bert-base-uncased"


@pytest.mark.parametrize(
    "given", [["nosuch"], ["llama-3-8b/kv=5"], ["gpt2", "--against", "nosuch"]]
)
def test_a_static_page_of_no_design_is_not_written(given: list[str], tmp_path: Path) -> None:
    done = run("explore", *given, "-o", tmp_path / "page.html")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_static_page_says_what_it_does_not_know(browser: Browser, file: Path) -> None:
    with opened(browser, file, anchor=f"#{presets()['softmax stack']}") as page:
        settled(page, SLIDE, ["d", 1])
        assert text(page, "problem").startswith("Not known here: no formula covers")
        assert "run: segre dim softmax/d=48,48,48,48,48,48,48/" in text(page, "problem")
        assert page.js("() => document.getElementById('figures').inert")
        settled(page, CHOOSE.replace("c-${key}", "${key}"), ["start", "llama-3-8b"])
        assert text(page, "dimension") == "8,016,918,528"
        assert page.js("document.querySelector('#actions a').href").endswith(
            "theorems.html#theorem-c"
        )
        assert "segre certify transformer/d=4096" in text(page, "certify-command")
        assert "Run: segre model collapse transformer/" in text(page, "curve-said")
        assert "for exact ranks and collapse curves, run segre explore" in page.js(
            "document.body.innerText"
        )
        page.check()


def test_a_static_page_has_no_number_for_other_designs(browser: Browser, file: Path) -> None:
    end = "/ff=128/mlp=swiglu/norm=rms/eps=1e-05/causal=true"
    with opened(browser, file) as page:
        for spec in (
            f"transformer/d=64/layers=4/heads=5{end}/t=64",
            f"transformer/d=64/layers=4/heads=4/kv=3{end}/t=64",
            f"transformer/d=64/layers=4/heads=4/head=15{end}/pos=rope/t=64",
            f"transformer/d=64/layers=4/heads=4{end}/pos=rope/base=1/t=64",
            f"transformer/d=64/layers=4/heads=4{end}/colour=blue/t=64",
            f"transformer/d=64/layers=4/heads=4{end}/t=many",
            "softmax/d=64/layers=3/a=8/window=2/conv=full/kernel=2/t=32",
            "softmax/d=64/layers=3/a=0/t=32",
            "soft/d=64/layers=3/a=8/t=32",
            SMALL,  # which segre accepts, but the table does not have
        ):
            if spec != SMALL:
                with pytest.raises(segre.SegreError):
                    segre.architecture(spec)
            settled(page, "(spec) => { location.hash = '#' + spec }", spec)
            assert text(page, "dimension") == "–", spec
            said = f"Not in this page: ask the server: segre explore {text(page, 'spec')}"
            assert text(page, "problem") == said
            assert not page.js("() => document.getElementById('problem').hidden")
            assert page.js("() => document.getElementById('figures').inert")
        page.check()


# How a page may be broken from the start, and only after its first answer.
ASKING = "async function ask(question, spec) {\n"
AT_ONCE = {
    "no script": (re.compile(r"<script>.*?</script>", re.DOTALL), ""),
    "a script that its policy refuses": (re.compile(re.escape(ASKING)), ASKING + " "),
    "a syntax error": (re.compile(re.escape(ASKING)), ASKING + "const const;"),
    "an error": (re.compile(re.escape(ASKING)), ASKING + "throw new Error('broken');"),
    "no answer": (re.compile(re.escape(ASKING)), ASKING + "await new Promise(() => {});"),
}
LATER = {
    "an error": "if (own) throw new Error('broken');",
    "no answer": "if (own) await new Promise(() => {});",
}


def broken_page(file: Path, pattern: re.Pattern[str], other: str, *, policy: bool) -> Path:
    """The static page with one place of it replaced, and with its policy or without."""
    found, count = pattern.subn(lambda _: other, file.read_text(encoding="utf-8"))
    assert count == 1
    if not policy:
        found, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", found)
        assert count == 1
    path = file.with_name("broken.html")
    path.write_text(found, encoding="utf-8")
    return path


@pytest.mark.parametrize("how", AT_ONCE)
def test_a_broken_page_fails_and_does_not_hang(browser: Browser, file: Path, how: str) -> None:
    broken = broken_page(file, *AT_ONCE[how], policy="policy" in how)
    silent = how.startswith("no ")
    with (
        pytest.raises(pytest.fail.Exception, match="the page is not drawn") as failed,
        opened(browser, broken, patience=1 if silent else 60),
    ):
        pass
    assert ("it said: nothing" in str(failed.value)) == silent


@pytest.mark.parametrize("how", LATER)
def test_a_page_that_breaks_later_fails_and_does_not_hang(
    browser: Browser, file: Path, how: str
) -> None:
    place = re.compile(re.escape(ASKING))
    broken = broken_page(file, place, ASKING + LATER[how], policy=False)
    limit = 1_000 if how.startswith("no ") else 60_000
    with opened(browser, broken, anchor=f"#{FIRST_SPEC}") as page:
        said = "the page is not drawn" if how.startswith("no ") else "broken"
        with pytest.raises(PageError, match=said):
            page.js(WALK, [3, 3, None, FIRST_SPEC, limit])
        with pytest.raises(pytest.fail.Exception, match="the page is not drawn"):
            settled(page, SLIDE, ["layers", 1], patience=limit / 1000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(browser: Browser, file: Path, width: int, scheme: str) -> None:
    with opened(browser, file, width=width, color_scheme=scheme) as page:
        assert page.scroll_width() <= width
        settled(page, CHOOSE.replace("c-${key}", "${key}"), ["family", "stack"])
        page.js("() => { document.getElementById('proof').open = true }")
        assert page.scroll_width() <= width
        page.check()
