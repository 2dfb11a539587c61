"""The pages as mkdocs needs them, from files that are written for a code host.

- Pages outside docs/ are added to the site (`ELSEWHERE`), and links between all pages rewritten.
- What a fence says after its kind (`console measured`) is for the tests, and dropped here.
- Lists that follow a line of text get the blank line that Python-Markdown needs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

from blocks import FENCE, ROOT
from mkdocs.structure.files import File, Files

# file of the repository: its page in the site
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "measurements.md",
    "examples/README.md": "examples.md",
}
_PAGES = {page: file for file, page in ELSEWHERE.items() if page != "index.md"}
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")
_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    for page, file in _PAGES.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page, as Python-Markdown reads it."""
    source = _PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    linked = _outside_fences(
        markdown, lambda text: _LINK.sub(lambda m: _target(source, m[0]), text)
    )
    return for_python_markdown(linked)


def for_python_markdown(text: str) -> str:
    """Fences with a kind alone, and blank lines before lists."""
    kinds = FENCE.sub(lambda m: f"{m[1]}{m[2]}{m[3].split(' ')[0]}\n{m[4]}{m[1]}{m[2]}", text)
    return _outside_fences(kinds, _separate_lists)


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    done, end = [], 0
    for match in FENCE.finditer(text):
        done += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*done, change(text[end:])])


def _separate_lists(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if _ITEM.match(line) and before.strip() and not re.match(r"[-*+#|]|\d+\. |\s", before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _target(source: str, link: str) -> str:
    """Where a relative link of a file of the repository leads in the site."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    path = f"{path}/README.md" if path in ("bench", "examples") else path
    return ELSEWHERE.get(path, path.removeprefix("docs/"))
