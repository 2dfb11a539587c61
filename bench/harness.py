"""Code shared by the benchmarks: arguments, timing, machine facts, tables and JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import files
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info, threadpool_limits

import segre

Row = Mapping[str, Any]
Columns = Mapping[str, tuple[str, str]]  # key of a row -> heading, format specification

_PIPED_WIDTH = 160


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="run a small version")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    return parser


def timed(action: Callable[[], Any], repeats: int = 1) -> list[float]:
    """Seconds of each of several calls."""
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        action()
        seconds.append(perf_counter() - start)
    return seconds


def blas_threads(count: int) -> Any:
    """Limit the threads of BLAS: from now on, or within a `with` block."""
    return threadpool_limits(count)


def peak_memory() -> float:
    """The largest resident size of this process so far, in MiB.

    On Linux from /proc, since ru_maxrss of a child begins at the size of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        if "VmHWM" in lines:
            return int(lines["VmHWM"].split()[0]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def measured_apart(
    benchmark: str, *options: object, timeout: float | None = None
) -> dict[str, Any] | None:
    """What a benchmark prints as JSON in a fresh process, so that peak memory is its own.

    None if it takes longer than `timeout` seconds.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{benchmark}", *map(str, options)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            timeout=timeout,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def packaged(package: str, suffix: str) -> Path:
    """The one file of an installed package that ends like this."""
    (found,) = [Path(str(f.locate())) for f in files(package) or [] if f.suffix == suffix]
    return found


def machine() -> dict[str, Any]:
    """Facts about the machine on which the numbers depend."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load average at start": _load(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "segre": segre.__version__,
        "blas": [
            f"{pool['internal_api']} {pool['version']} "
            f"({pool.get('architecture', 'generic')}, up to {pool['num_threads']} threads)"
            for pool in threadpool_info()
            if pool["user_api"] == "blas"
        ],
    }


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


class Report:
    """Prints facts, tables and remarks, and keeps them for the JSON file."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self._file: Path | None = options.json
        self._console = Console()
        if not self._console.is_terminal:
            self._console.width = _PIPED_WIDTH
        self._document: dict[str, Any] = {
            "benchmark": name,
            "quick": options.quick,
            "machine": machine(),
        }
        for key, value in self._document["machine"].items():
            shown = "; ".join(value) if isinstance(value, list) else value
            self._console.print(f"{key}: {shown}", markup=False, highlight=False)

    def table(self, title: str, columns: Columns, rows: Sequence[Row]) -> None:
        """Print the named columns of the rows; all of every row goes to the JSON file."""
        table = Table(title=title, title_justify="left")
        for heading, _ in columns.values():
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(*(_cell(row[key], form) for key, (_, form) in columns.items()))
        self._console.print(table)
        self._document["rows"] = list(rows)

    def remark(self, key: str, value: Any, sentence: str) -> None:
        """Print a sentence; the value in it goes to the JSON file."""
        self._console.print(sentence, markup=False, highlight=False)
        self._document[key] = value

    def finish(self) -> None:
        """Print the load at the end, and write the JSON file if one was asked for."""
        load = _load()
        self.remark("load average at end", load, f"load average at end: {load}")
        if self._file is not None:
            self._file.write_text(json.dumps(self._document, indent=2) + "\n")


def _cell(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)
