"""A kind of network answers for itself: few places ask which kind one is."""

import ast
from pathlib import Path

import segre

KINDS = {"Network", "Transformer", "Polynomial"}
MOST = 13
# The kernel builds on nothing but the choices of a spec, and so it asks which kind they are of.
KERNEL = 6


def test_few_places_ask_for_the_kind_of_a_network() -> None:
    """What differs is a property of the kind, or a function registered for it."""
    every = sorted(Path(segre.__file__).parent.rglob("*.py"))
    kernel = [file for file in every if file.parent.name == "kernel"]
    assert len(asking(kernel)) <= KERNEL, asking(kernel)
    rest = asking([file for file in every if file not in kernel])
    assert len(rest) <= MOST, rest


def asking(files: list[Path]) -> list[str]:
    """Where files ask for the kind of a network."""
    found = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
            if asks and KINDS & {getattr(one, "id", "") for one in ast.walk(node.args[1])}:
                found.append(f"{file}:{node.lineno}")
    return found
