"""The documentation builds without a warning, and the site needs no network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from blocks import ROOT, blocks, pages

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
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for style in [*folder.rglob("*.css"), *folder.rglob("*.html")]:
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text()), style
    explorer = (folder / "explorer" / "index.html").read_text()
    anchors = set(re.findall(r' id="([\w-]+)"', (folder / "theorems.html").read_text()))
    proofs = re.findall(r'"proof": "docs/theorems.md#([\w-]+)"', explorer)
    assert '"theorems": "../theorems.html"' in explorer  # where the explorer's proofs are
    assert {"theorem-a", "theorem-c", "theorem-d2"} <= set(proofs) <= anchors
    return {path.name: Read(path.read_text()) for path in folder.glob("*.html")}


def test_every_page_is_there(site: dict[str, Read]) -> None:
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\n\n")[0]
    named = re.findall(r": ([\w-]+)\.md$", nav, re.MULTILINE)
    assert {f"{name}.html" for name in named} | {"404.html"} == set(site)
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= set(named)


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
