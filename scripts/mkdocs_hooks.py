"""The pages as mkdocs needs them, from files that are written for a code host.

- Pages outside docs/ are added to the site (`ELSEWHERE`), and links between all pages rewritten.
- The page of examples also has the scripts.
- The page of reproductions is made from the stored results in docs/results, with its pictures;
  a page asks for the claims of some experiments by a comment, `<!-- claims: gap localise -->`.
- A link whose text is the name of a file gets the title of its page.
- The design explorer is added as a page of its own, with a table of answers in place of a server.
- What a fence says after its kind (`console measured`) is for the tests, and dropped here.
- Lists that follow a line of text get the blank line that Python-Markdown needs.
- Wide tables scroll inside a box of their own, which the keyboard can reach.
- The search index is also written as a script, since pages opened from the file system may not
  fetch files. The theme "material" reads it; others leave it alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

from blocks import FENCE, ROOT, separate_lists
from example import Example
from generated_pages import claims, explorer, reproductions

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
_CLAIMS = re.compile(r"^<!-- claims: ([\w -]+) -->$", re.MULTILINE)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_titles: dict[str, str] = {}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    for page, file in _SOURCES.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        if page == "examples.md":
            text += "".join(f"\n## {x.path.name}\n```python\n{x.text}```\n" for x in Example.all())
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, EXPLORER, content=explorer()))
    for name, content in reproductions().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_nav(nav: Any, **_: Any) -> None:
    """Remember the titles of pages."""
    _titles.update({page.file.src_uri: page.title for page in nav.pages})


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page, as Python-Markdown reads it."""
    name = page.file.src_uri
    source = _SOURCES.get(name, f"docs/{name}")
    if name == "explore.md":  # there is no such file beside the page in docs/
        markdown = markdown.replace(EXPLORER, f"[{EXPLORER}]({EXPLORER})")
    kinds = FENCE.sub(lambda m: f"{m[1]}{m[2]}{m[3].split(' ')[0]}\n{m[4]}{m[1]}{m[2]}", markdown)
    linked = _outside_fences(kinds, lambda text: separate_lists(_linked(text, source, name)))
    up = "../" * name.count("/")
    return _CLAIMS.sub(lambda match: claims(match[1].split(), up), linked)


def on_page_content(html: str, **_: Any) -> str:
    """Every table in a box that scrolls, with a name for those who do not see it."""
    box = '<div class="wide" role="region" aria-label="Table" tabindex="0">'
    return _TABLE.sub(lambda match: f"{box}{match[0]}</div>", html)


@event_priority(-100)  # after the plugin that writes the index
def on_post_build(config: Any, **_: Any) -> None:
    """The search index as a script."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    if index.exists():
        text = f"var __index = {index.read_text(encoding='utf-8')}"
        index.with_suffix(".js").write_text(text, encoding="utf-8")


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    done, end = [], 0
    for match in FENCE.finditer(text):
        done += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*done, change(text[end:])])


def _linked(text: str, source: str, page: str) -> str:
    """Links of a file of the repository as links of its page in the site."""

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
        target = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"[{words}]({target}{anchor})"

    return _LINK.sub(link, text)
