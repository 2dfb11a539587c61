"""A kind of network answers for itself: few places ask which kind one is."""

import ast
from pathlib import Path

import segre

KINDS = {"Network", "Transformer", "Polynomial"}
MOST = 25


def test_few_places_ask_for_the_kind_of_a_network() -> None:
    """What differs is a property of the kind, or a function registered for it."""
    found = []
    for file in sorted(Path(segre.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
            if asks and KINDS & {getattr(one, "id", "") for one in ast.walk(node.args[1])}:
                found.append(f"{file}:{node.lineno}")
    assert len(found) <= MOST, found
