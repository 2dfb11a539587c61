"""The pages as mkdocs needs them, from files that are written for a code host.

- Pages outside docs/ are added to the site (`ELSEWHERE`), and links between all pages rewritten.
- The page of examples also has the scripts.
- The page of reproductions is made from the stored results in docs/results, with its pictures.
- A link whose text is the name of a file gets the title of its page.
- The design explorer is added as a page of its own, with formulas in place of a server.
- What a fence says after its kind (`console measured`) is for the tests, and dropped here.
- Lists that follow a line of text get the blank line that Python-Markdown needs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.structure.files import File, Files

from blocks import FENCE, ROOT, separate_lists
from example import Example
from segre.explore.page import static_page
from segre.report.outcome_plots import plot_outcome
from segre.report.scoreboard import markdown
from segre.reproduce.scoreboard import read_all

# file of the repository: its page in the site
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "measurements.md",
    "examples/README.md": "examples.md",
}
EXPLORER = "explorer/index.html"
_SOURCES = {page: file for file, page in ELSEWHERE.items() if page != "index.md"}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_titles: dict[str, str] = {}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    for page, file in _SOURCES.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        if page == "examples.md":
            text += "".join(f"\n## {x.path.name}\n```python\n{x.text}```\n" for x in Example.all())
        files.append(File.generated(config, page, content=text))
    explorer = static_page(theorems="../theorems.html")
    files.append(File.generated(config, EXPLORER, content=explorer))
    for name, content in reproductions():
        files.append(File.generated(config, name, content=content))
    return files


def reproductions() -> Iterator[tuple[str, str | bytes]]:
    """The page of all claims, and a picture of every experiment: names of files, and contents."""
    found = read_all(ROOT / "docs" / "results")
    yield "reproductions.md", markdown(found, "results")
    with TemporaryDirectory() as folder:
        for one in found.outcomes:
            picture = Path(folder) / f"{one.experiment}.svg"
            plot_outcome(one, picture)
            yield f"results/{picture.name}", picture.read_bytes()


def on_nav(nav: Any, **_: Any) -> None:
    """Remember the titles of pages."""
    _titles.update({page.file.src_uri: page.title for page in nav.pages})


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page, as Python-Markdown reads it."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if page.file.src_uri == "explore.md":  # there is no such file beside the page in docs/
        markdown = markdown.replace(EXPLORER, f"[{EXPLORER}]({EXPLORER})")
    kinds = FENCE.sub(lambda m: f"{m[1]}{m[2]}{m[3].split(' ')[0]}\n{m[4]}{m[1]}{m[2]}", markdown)
    return _outside_fences(kinds, lambda text: separate_lists(_linked(text, source)))


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    done, end = [], 0
    for match in FENCE.finditer(text):
        done += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*done, change(text[end:])])


def _linked(text: str, source: str) -> str:
    """Links of a file of the repository as links of the site."""

    def link(match: re.Match[str]) -> str:
        words, name, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        path = f"{path}/README.md" if path in ("bench", "examples") else path
        if path.endswith(".ipynb"):  # to be opened in Jupyter
            return f"`{path}`"
        if path.startswith("examples/") and path.endswith(".py"):
            anchor, path = "#" + posixpath.basename(path).replace(".", ""), "examples/README.md"
        target = ELSEWHERE.get(path, path.removeprefix("docs/"))
        if words.endswith(".md"):
            words = _titles.get(target, words)
        return f"[{words}]({target}{anchor})"

    return _LINK.sub(link, text)
