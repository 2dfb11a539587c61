"""Pages and pictures of the site that are computed: the design explorer, and the reproductions.

They take most of the time of a build. A process that builds the site twice computes them once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from blocks import ROOT
from segre.explore.page import static_page
from segre.report.experiments import markdown
from segre.report.markdown import table_cell
from segre.report.png import plot
from segre.reproduce.scoreboard import Scoreboard, read_all

REPRODUCTIONS = "reproductions.md"


@cache
def explorer() -> str:
    """The design explorer, with a table of answers in place of a server."""
    return static_page(theorems="../theorems.html")


@cache
def stored() -> Scoreboard:
    """The results in docs/results."""
    return read_all(ROOT / "docs" / "results")


@cache
def reproductions() -> dict[str, str | bytes]:
    """The page of all claims, and a picture of every experiment: contents by names of files."""
    out: dict[str, str | bytes] = {REPRODUCTIONS: markdown(stored(), "results")}
    with TemporaryDirectory() as folder:
        for one in stored().outcomes:
            picture = Path(folder) / f"{one.experiment}.svg"
            plot(one, picture)
            out[f"results/{picture.name}"] = picture.read_bytes()
    return out


def claims(names: list[str], up: str) -> str:
    """Claims of some experiments as a table; `up` leads from its page to the top of the site."""
    by_name = {one.experiment: one for one in stored().outcomes}
    lines = ["| status | claim | experiment |", "|---|---|---|"]
    for name in names:
        link = f"[`{name}`]({up}{REPRODUCTIONS}#{name})"
        for claim in by_name[name].claims:
            status = f"**{claim.status}**" if claim.status == "not reproduced" else claim.status
            lines.append(f"| {status} | {table_cell(claim.says)} | {link} |")
    return "\n".join(lines)
