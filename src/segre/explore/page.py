"""The page as one HTML file: served by `segre explore`, or by itself, with segre's polynomials."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from segre import __version__
from segre.errors import SegreError
from segre.explore.controls import BESIDE, CONTROLS, FIRST, presets, shown_first, values_of
from segre.explore.table import Design, named_models, table
from segre.files import whole_file
from segre.finding import GROUPS
from segre.models import Source
from segre.report.page.embed import embedded, policy
from segre.report.page.marks import MARKS
from segre.report.page.render import environment
from segre.transformer.spec import Transformer

_SERVED = (
    "This page is served only on this machine. segre computes everything on it, and it makes no "
    "network requests. Keep the token in the address to yourself."
)
_FIXED = (
    "This is a static page. Its counts are polynomials that interpolate segre’s own counts and "
    "were checked against them at other sizes when the page was made. It shows upper bounds, "
    "and what is proved about named models. Theorems at other sizes, computation and the "
    "collapse curve need segre explore."
)


def served_page(first: Source = FIRST, against: str = BESIDE) -> tuple[str, str]:
    """The page that asks a server, and its content security policy."""
    data = {**_data(first, against), "live": True, "theorems": ""}
    script = _asset("page.js")
    strict = policy([script], styles=[_style()], connect=True)
    return _page(data, script, _SERVED), strict


def static_page(theorems: str = "", choose: Callable[[Design], bool] = lambda _: True) -> str:
    """The page that needs no server; `theorems` is where the proofs are, if they are anywhere.

    `choose` says which designs the page has formulas for.
    """
    data = {**_data(FIRST, BESIDE), "live": False, "theorems": theorems}
    models = named_models()
    data |= {"table": table(choose), "models": models}
    data["presets"] = {name: model["spec"] for name, model in models.items()}
    script = _asset("page.js")
    return _page(data, script, _FIXED, policy([script], styles=[_style()]))


def write_static_page(path: Path) -> None:
    """Write the static page, completely or not at all."""
    if path.suffix not in (".html", ".htm"):
        raise SegreError(
            f"--output {str(path)!r} is not allowed; allowed: a file name that ends in .html"
        )
    text = static_page()
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _data(first: Source, against: str) -> dict[str, Any]:
    known = presets()
    if against and against not in known:
        raise SegreError(f"--against {against!r} is not a preset; segre models lists all names")
    usual = Transformer(d=1)
    return {
        "controls": [control.document() for control in CONTROLS],
        "usual": {**values_of(usual), "head": "", "kv": "", "output": ""},
        "presets": known,
        "first": shown_first(first),
        "against": against,
        "groups": GROUPS,
    }


def _page(data: dict[str, Any], script: str, foot: str, meta: str = "") -> str:
    template = environment().from_string(_asset("page.html"))
    return template.render(
        policy=meta,
        style=Markup(_style()),
        script=Markup(script),
        data=Markup(embedded(data)),
        marks=MARKS,
        version=__version__,
        fixed=bool(meta),
        foot=foot,
    )


def _style() -> str:
    ground = files("segre.report.page").joinpath("style.css").read_text(encoding="utf-8")
    return ground + _asset("page.css")


def _asset(name: str) -> str:
    return files("segre.explore").joinpath(name).read_text(encoding="utf-8")
