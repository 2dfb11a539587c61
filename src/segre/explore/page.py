"""The page as one HTML file: served by `segre explore`, or by itself, with a table of answers."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from segre import __version__
from segre.errors import SegreError
from segre.explore.designs import BESIDE, FIRST, STACK, families, family_of, presets, shown_first
from segre.explore.grid import in_words, packed_table
from segre.explore.stack_controls import FIRST_STACK
from segre.files import extension, whole_file
from segre.finding import GROUPS
from segre.geometry.progress import Progress, quiet
from segre.models import Source
from segre.report.page.embed import embedded, policy
from segre.report.page.marks import MARKS
from segre.report.page.render import environment

_SCRIPTS = ("design.js", "results.js", "controls.js", "page.js")


def served_page(first: Source = FIRST, against: str = BESIDE) -> tuple[str, str]:
    """The page that asks a server, and its content security policy."""
    strict = policy([_script()], styles=[_style()], connect=True)
    return _page({**_data(first, against), "live": True, "theorems": ""}), strict


def static_page(
    first: Source = FIRST, against: str = BESIDE, *, theorems: str = "", progress: Progress = quiet
) -> str:
    """The page that needs no server; `theorems` is where the proofs are, if they are anywhere."""
    data = {**_data(first, against), "live": False, "theorems": theorems}
    packed, count = packed_table(data["first"], progress)
    named = {"transformer": FIRST, STACK: f"the {FIRST_STACK}"}
    named[family_of(data["first"])] = str(first)
    strict = policy([_script()], styles=[_style()])
    said = {"designs": in_words(named), "count": f"{count:,}"}
    return _page(data, fixed=True, policy=strict, table=packed, **said)


def write_static_page(
    path: Path, first: Source = FIRST, against: str = BESIDE, progress: Progress = quiet
) -> None:
    """Write the static page, whole or not at all."""
    if extension(path, formats := (".html", ".htm")) not in formats:
        raise SegreError(f"--output {str(path)!r}: a page is written as .html")
    text = static_page(first, against, progress=progress)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _data(first: Source, against: str) -> dict[str, Any]:
    known = presets()
    if against and against not in known:
        raise SegreError(f"--against {against!r} is not a preset; segre model list has all names")
    return {
        "families": families(),
        "presets": known,
        "first": shown_first(first),
        "first_model": known[FIRST],
        "first_stack": known[FIRST_STACK],
        "against": against,
        "groups": GROUPS,
    }


def _page(data: dict[str, Any], **more: Any) -> str:
    return (
        environment()
        .from_string(_asset("page.html"))
        .render(
            style=Markup(_style()),
            script=Markup(_script()),
            data=Markup(embedded(data)),
            marks=MARKS,
            version=__version__,
            **{"fixed": False, "policy": "", "table": "", "designs": (), **more},
        )
    )


def _script() -> str:
    """All scripts as one, in a scope of its own."""
    parts = "\n".join(_asset(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _style() -> str:
    ground = files("segre.report.page").joinpath("style.css").read_text(encoding="utf-8")
    return ground + _asset("page.css")


def _asset(name: str) -> str:
    return files("segre.explore").joinpath(name).read_text(encoding="utf-8")
