"""How does a report become one HTML file that needs nothing else: no network, no other file?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from segre.errors import SegreError
from segre.files import extension, whole_file
from segre.json_data import strict_json
from segre.report.blocks import (
    Block,
    Cell,
    Download,
    Figure,
    Fold,
    Page,
    Row,
    Section,
    Table,
    Tile,
    flat,
    is_number,
    shown_in,
)
from segre.report.page import cells
from segre.report.page.embed import asset, drawing_script, embedded, policy
from segre.report.page.glossary import GLOSSARY, marked
from segre.report.page.marks import MARKS
from segre.report.views import MEANINGS, page_of

_FORMATS = (".html", ".htm")
TALL = 24  # tables with more rows than this scroll in a box of their own
WIDE = 18  # tables with more columns than this are left out on paper


def render(page: Page) -> str:
    """The page as the text of one HTML file."""
    blocks = flat("page", (block for section in page.sections for block in section.blocks))
    figures = [block for block in blocks if isinstance(block, Figure)]
    kinds = (str(trace.get("type", "scatter")) for one in figures for trace in one.traces)
    library, packed = drawing_script(kinds) if figures else ("", "")
    head = [asset("page.js")]
    foot = [asset("library.js"), asset("plots.js")] if figures else []
    foot += [asset("heads.js")] if any(figure.heads for figure in figures) else []
    names = _Names()
    text = (
        environment()
        .from_string(asset("template.html"))
        .render(
            page=page,
            sections=[_placed(section, names) for section in page.sections],
            meanings=MEANINGS,
            glossary=GLOSSARY,
            words=_Words(),
            marks=MARKS,
            policy=policy([*head, *foot, *[library] * bool(library)]),
            library=packed,
            style=Markup(asset("style.css")),
            head_scripts=[Markup(script) for script in head],
            foot_scripts=[Markup(script) for script in foot],
            file_name=f"{cells.slug(page.title)}.json",
            tall=TALL,
            wide=WIDE,
        )
    )
    return text.encode("utf-8", "replace").decode()  # half a pair of surrogates is no character


def write_page(page: Page, path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    text = render(page)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_answer(answer: Any, path: Path, made: str = "", command: str = "") -> None:
    """Write the page of an answer; `made` says when, and `command` how."""
    require_page(path)
    write_page(page_of(answer, made, command), path)


def require_page(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if extension(path, _FORMATS) not in _FORMATS:
        allowed = ", ".join(_FORMATS)
        raise SegreError(
            f"report {str(path)!r}: {path.suffix!r} is not a format; allowed: {allowed}"
        )


@dataclass(frozen=True)
class OnPage:
    """A part of the page with the id it has there; of a figure, also that of its numbers."""

    part: Any
    id: str
    kind: str = ""
    inner: OnPage | None = None
    blocks: tuple[OnPage, ...] = ()


class _Words:
    """Which words of the glossary were marked: in this section, and on the page."""

    def __init__(self) -> None:
        self.here: set[str] = set()
        self.used: set[str] = set()

    def begin(self) -> str:
        """Start a section, in which every word is marked again."""
        self.here = set()
        return ""

    def __call__(self, text: str) -> Markup:
        """A sentence whose `quoted` parts are code, and whose words of the field are explained."""
        return _sentence(text, self._explained)

    def _explained(self, text: str) -> Markup:
        link = Markup(
            '<a class="term" href="#page-term-{0}" aria-describedby="page-term-{0}">{1}</a>'
        )
        pieces = [
            link.format(cells.slug(word), piece) if word else escape(piece)
            for piece, word in marked(text, self.here)
        ]
        self.used |= self.here
        return Markup("").join(pieces)


class _Names:
    """Gives out ids, each once; those that start with `page-` are the template's own."""

    def __init__(self) -> None:
        self.given: set[str] = set()

    def __call__(self, text: str, prefix: str = "") -> str:
        wanted = prefix + cells.slug(text)
        if wanted[0].isdigit() or wanted.startswith("page-"):
            wanted = f"part-{wanted}"
        name, copy = wanted, 1
        while name in self.given:
            copy += 1
            name = f"{wanted}-{copy}"
        self.given.add(name)
        return name


def _placed(part: Section | Block, names: _Names) -> OnPage:
    """A section, so that #key leads to it, or a block, with what is in it."""
    kind, own, numbers = type(part).__name__.lower(), "", None
    if isinstance(part, Section):
        own = names(part.key)
    elif isinstance(part, Figure | Fold | Table):
        own = names(part.title, f"{kind}-")
    if isinstance(part, Figure):
        numbers = _placed(part.numbers, names)
    inner = part.blocks if isinstance(part, Section | Row | Fold) else ()
    blocks = tuple(_placed(block, names) for block in shown_in("page", inner))
    return OnPage(part, own, kind, numbers, blocks)


def environment() -> Environment:
    """The environment of templates: everything is escaped, and filters format values."""
    found = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {
        "breakable": _breakable,
        "command": _command,
        "sentence": _sentence,
        "shown": cells.shown,
        "raw": cells.raw,
        "duration": cells.duration,
        "slug": cells.slug,
        "formed": _formed,
        "kind": lambda block: type(block).__name__.lower(),
        "saved": _saved,
        "embedded": lambda value: Markup(embedded(value)),
        "is_number": is_number,
    }
    found.tests["is_tile"] = lambda row: isinstance(row, Tile)
    return found


def _breakable(text: str) -> Markup:
    """A spec, path or name with places for line breaks: after slashes, commas and dots.

    A number with separators is not broken.
    """
    if re.fullmatch(r"[\d,.]+", text):
        return escape(text)
    pieces = re.split(r"(?<=[/,_])|(?<=\.)(?=[^\W\d])", text)
    return Markup("<wbr>").join(escape(piece) for piece in pieces if piece)


def _command(text: str) -> Markup:
    """A command whose options are not broken after their hyphens."""
    option = Markup('<span class="nobreak">{}</span>')
    words = re.split(r"(\s+)", text)
    return Markup("").join(
        option.format(word) if word.startswith("-") and len(word) < 30 else _breakable(word)
        for word in words
    )


def _sentence(text: str, plain: Callable[[str], Markup] = escape) -> Markup:
    """A sentence whose `quoted` parts are code."""
    code = Markup("<code>{}</code>")
    parts = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        code.format(_breakable(part)) if n % 2 else plain(part) for n, part in enumerate(parts)
    )


def _formed(cell: Cell, table: Table, column: int) -> Markup:
    """A cell of a table, in the format of its column if that has one."""
    if isinstance(cell, str):
        return _breakable(cell)
    form = table.formats[column] if table.formats else ""
    if form and cell is not None and not isinstance(cell, bool):
        return escape(format(cell, form).replace("-", cells.MINUS))
    return escape(cells.shown(cell))


def _saved(download: Download) -> Iterator[str]:
    """The file name, size and kind of a document to save, and its data in the page."""
    is_text = isinstance(download.document, str) and not download.name.endswith(".json")
    text = download.document if is_text else strict_json(download.document)
    yield re.sub(r"[^\w.-]+", "-", download.name).lstrip(".-") or "document"
    yield cells.size(len(text.encode("utf-8", "replace")))
    yield "text" if is_text else "json"
    yield Markup(embedded(download.document))
