"""The documentation builds without a warning, and the site needs no network."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import segre
from blocks import ROOT, blocks, pages
from segre.reproduce.registry import experiments
from segre.theorems import THEOREMS
from support.site import built

# What loads, by tag: the attribute that says from where.
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
# Raw HTML that Python-Markdown makes of a formula such as a scalar product is not among these.
TAGS = re.compile(
    "html|head|meta|link|title|body|script|style|div|span|p|a|ul|ol|li|h[1-6]|nav|header|footer|main|"
    "article|aside|form|label|input|button|svg|path|table|thead|tbody|tr|th|td|code|pre|em|strong|"
    "blockquote|hr|br|img|small|abbr|cite|noscript"
)


class Read(HTMLParser):
    """Tags, what is loaded, and the text of code blocks and paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loaded: list[str] = []
        self.paragraphs: list[str] = []
        self.code: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        given = dict(attrs)
        if tag in LOADS and given.get("rel") not in ("next", "prev", "canonical"):
            self.loaded.append(given.get(LOADS[tag]) or "")
        if tag in ("p", "pre"):
            (self.paragraphs if tag == "p" else self.code).append("")

    def handle_endtag(self, tag: str) -> None:
        while tag in self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.code[-1] += data
        elif "p" in self.open and "code" not in self.open:
            self.paragraphs[-1] += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory)


@pytest.fixture(scope="module")
def site(folder: Path) -> dict[str, Read]:
    """Pages by name; the design explorer is a page of its own kind, and has tests of its own."""
    return {name: Read(path.read_text()) for name, path in found_in(folder / "site").items()}


def found_in(folder: Path) -> dict[str, Path]:
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.html")}
    return {name: path for name, path in paths.items() if not name.startswith("explorer/")}


def test_every_page_is_there(site: dict[str, Read]) -> None:
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\n\n")[0]
    named = re.findall(r"[-:] ([\w/-]+)\.md$", nav, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {f"{name}.html" for name in named} | {"404.html"} == set(site)
    docs = ROOT / "docs"
    assert {path.relative_to(docs).as_posix()[:-3] for path in docs.rglob("*.md")} <= set(named)


def test_the_explorer_leads_to_its_proofs(folder: Path) -> None:
    explorer = (folder / "site" / "explorer" / "index.html").read_text()
    theorems = (folder / "site" / "theorems.html").read_text()
    proofs = {theorem.page.partition("#")[2] for theorem in THEOREMS}
    assert '"theorems": "../theorems.html"' in explorer
    anchors = set(re.findall(r' id="([\w-]+)"', theorems))
    assert {"theorem-a", "theorem-c", "theorem-d2"} <= proofs <= anchors


def test_styles_load_nothing_from_the_network(folder: Path) -> None:
    for style in [*(folder / "site").rglob("*.css"), *(folder / "site").rglob("*.html")]:
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text()), style


def test_nothing_is_loaded_from_the_network(site: dict[str, Read]) -> None:
    for name, page in site.items():
        assert page.loaded, name
        for target in page.loaded:
            assert not re.match(r"(\w+:)?//", target), f"{name}: {target}"


def test_formulas_and_lists_survive(site: dict[str, Read]) -> None:
    for name, page in site.items():
        strange = {tag for tag in page.tags if not TAGS.fullmatch(tag)}
        assert not strange, f"{name}: {strange}"
        for paragraph in page.paragraphs:
            assert not re.search(r"^(- |\d+\. |\|)|```|\*\*", paragraph, re.MULTILINE), paragraph


def test_every_block_is_shown(site: dict[str, Read]) -> None:
    shown = {re.sub(r"\s+", "", code) for page in site.values() for code in page.code}
    for path in pages():
        if path != ROOT / "README.md":
            for block in blocks(path.read_text()):
                assert re.sub(r"\s+", "", block.text) in shown, f"{path}, line {block.line}"


def test_every_public_name_is_in_the_reference(folder: Path) -> None:
    """With a heading of its own, in the page as it is built."""
    page = (folder / "site" / "reference.html").read_text()
    headings = re.findall(r'<h\d id="([\w.]+)"', page)
    assert len(headings) == len(set(headings))
    for door in (segre, segre.checkpoints, segre.collapse, segre.sweeps):
        for name in door.__all__:
            named = getattr(door, name)
            home = f"{getattr(named, '__module__', '')}.{name}"
            assert {home, f"{door.__name__}.{name}", getattr(named, "__name__", "")} & set(headings)


def test_every_experiment_is_on_the_page_of_its_work() -> None:
    asked = [
        (path, name)
        for path in (ROOT / "docs" / "works").glob("*.md")
        for line in re.findall(r"^<!-- claims: (.*) -->$", path.read_text(), re.MULTILINE)
        for name in line.split()
    ]
    works = {one.name: one.work.arxiv for one in experiments()}
    assert sorted(name for _, name in asked) == sorted(works)
    for path, name in asked:
        assert works[name] in path.read_text(), f"{path.name}: {name}"


def test_claims_are_shown_with_their_status(folder: Path) -> None:
    page = (folder / "site" / "works" / "mind-the-gap.html").read_text()
    assert page.count('<a href="../reproductions.html#gap">') >= 10
    assert "<strong>not reproduced</strong>" in page


# --- the theme can be replaced --------------------------------------------------------------------

# What may know of the theme, beside mkdocs.yml; docs/design.md says what each has to do with it.
THEMED = {"docs/assets/site.css", "docs/assets/iframe-worker.js", "scripts/mkdocs_hooks.py"}


def test_another_theme_shows_the_same_pages(folder: Path) -> None:
    """Built without a warning by the theme that comes with MkDocs: all pages, links and blocks."""
    ours, plain = found_in(folder / "site"), found_in(folder / "plain")
    assert set(plain) - set(ours) == {"search.html"}
    for name, path in ours.items():
        one, two = Read(path.read_text()), Read(plain[name].read_text())
        assert one.code == two.code, name
        assert not re.search(r'class="[^"]*\bmd-', plain[name].read_text()), name


def test_nothing_else_knows_the_theme() -> None:
    """No page has its syntax, and no other script or style sheet its name."""
    syntax = re.compile(r'\{ ?[.:]|^[!?]{3} |^=== "|:material-|\bmd-[a-z]', re.MULTILINE)
    code = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
    for path in pages():
        assert not syntax.search(code.sub("", path.read_text())), path
    for folder in ("docs", "scripts"):
        for path in (ROOT / folder).rglob("*.[cjp][sy]*"):
            known = path.relative_to(ROOT).as_posix() in THEMED
            assert known or not re.search(r"material\b|\bmd-[a-z]", path.read_text()), path
