"""Write the table of families into docs/transformers.md, from what `segre model list --json` says.

    python scripts/support_table.py

Run it after a family, a preset or what is supported has changed, and after a merge.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "transformers.md"
BEGIN, END = "<!-- support table: scripts/support_table.py -->", "<!-- end of the support table -->"


def listed() -> dict[str, Any]:
    """What the command says."""
    command = [sys.executable, "-m", "segre", "models", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(found: dict[str, Any]) -> str:
    """One line for each family: its name, its presets, what can be asked of it."""
    questions = [question["name"] for question in found["questions"]]
    rows = [["model type", "presets", *questions], ["---"] * (2 + len(questions))]
    for family in found["families"]:
        names = [p["name"] for p in found["presets"] if p["family"] == family["name"]]
        asked = ["yes" if family["supports"][question] else "" for question in questions]
        rows.append([f"`{family['model_type']}`", ", ".join(names), *asked])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def filled(text: str, made: str) -> str:
    """A page with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.exit(f"{PAGE.name}: there is no place for the table")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page, table(listed())), encoding="utf-8")
