"""An installation: what works, what is missing, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from segre.doctor import Examination, Extra, Package
from segre.report.blocks import Blocks, Say, Title
from segre.report.views import view

_COLOURS = {"ok": "green", "missing": "yellow", "wrong version": "yellow", "broken": "red"}
_WIDTH = max(map(len, _COLOURS))
_GIB = 1 << 30
Line = tuple[str, str]  # a state, or nothing, and words


@view
def of_examination(found: Examination) -> Blocks:
    """The state of every part, and a summary in the last line."""
    for title, lines in (
        ("segre", _own(found)),
        ("core", map(_package, found.core)),
        ("extras", (line for extra in found.extras for line in _extra(extra))),
        ("machine", _machine(found.machine)),
        ("self-test", ((check.state, check.words) for check in found.checks)),
    ):
        yield Title(title, style="bold")
        for state, words in lines:
            yield Say(f"  {state:<{_WIDTH}}  {words}", _COLOURS.get(state, ""), wrap=False)
    yield _summary(found)


def _own(found: Examination) -> Iterator[Line]:
    yield _package(found.segre)
    yield "", f"in {found.place}"
    yield _package(found.python)
    yield "", found.machine["system"]


def _package(package: Package) -> Line:
    version = "" if package.version is None else f" {package.version}"
    problem = f": {package.problem}" if package.problem else ""
    wanted = f" ({package.wanted})" if package.wanted and not problem else ""
    return package.state, f"{package.name}{version}{wanted}{problem}"


def _extra(extra: Extra) -> Iterator[Line]:
    """One line if everything is installed; otherwise the problem, what needs it, and what to do."""
    if extra.state == "ok":
        listed = ", ".join(f"{one.name} {one.version}" for one in extra.packages)
        yield "ok", f"{extra.name}: {listed}"
        return
    missing = [f"{one.name}{one.wanted}" for one in extra.packages if one.state == "missing"]
    if missing:
        yield "missing", f"{extra.name}: not installed: {', '.join(missing)}"
    for package in extra.packages:
        if package.state not in ("ok", "missing"):
            state, words = _package(package)
            yield state, f"{extra.name}: {words}"
    yield "", f"needed for {extra.needed_for}; install it with {extra.command}"


def _machine(facts: dict[str, Any]) -> Iterator[Line]:
    for pool in facts["blas"]:
        name = f"{pool['internal_api']} {pool['version'] or ''}".strip()
        yield "", f"{name}, threads: {pool['num_threads']} of {facts['cores']} cores"
    given = [f"{name}={value}" for name, value in facts["threads"].items() if value]
    yield "", f"threads set in the environment: {', '.join(given) or 'none'}"
    if "one_thread_columns" in facts:
        yield "", f"segre uses one thread for matrices up to {facts['one_thread_columns']} columns"
    memory = f"memory: {facts['memory'] / _GIB:.1f} GiB available"
    if "memory_limit" in facts:
        memory += f"; --memory defaults to {facts['memory_limit'] / _GIB:.0f} GiB"
        if facts["memory"] < facts["memory_limit"]:
            memory += f", which is more: give --memory {max(1, facts['memory'] // _GIB)}G"
    yield "", memory
    yield "", f"disk: {facts['disk'] / _GIB:.1f} GiB free here"
    yield "", "not needed: GPU, display, browser, network"


def _summary(found: Examination) -> Say:
    absent = [extra.name for extra in found.extras if extra.state != "ok"]
    rest = f"; extras not installed completely: {', '.join(absent)}" if absent else ""
    if found.works:
        return Say(f"segre works{rest}", "bold green", wrap=False)
    return Say(f"segre does not work: see the problems above{rest}", "bold red", wrap=False)
