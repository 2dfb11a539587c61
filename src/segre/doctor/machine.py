"""What do speed and limits depend on? Cores, BLAS and its threads, memory, disk."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

from segre.sweep.local import THREADS, cores


def machine() -> dict[str, Any]:
    """Everything as plain data; what only NumPy knows is left out if NumPy is missing."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": cores(),
        "blas": _blas(),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "memory": _memory(),
        "disk": shutil.disk_usage(Path.cwd()).free,
        **_limits(),
    }


def _limits() -> dict[str, int]:
    """Limits that segre keeps: bytes of memory, and columns up to which BLAS uses one thread."""
    try:
        from segre.fields.threads import SMALL
        from segre.geometry.memory import DEFAULT_LIMIT
    except ImportError:
        return {}
    return {"memory_limit": DEFAULT_LIMIT, "one_thread_columns": SMALL}


def _blas() -> list[dict[str, Any]]:
    try:
        import numpy as np  # noqa: F401 - it loads the library that is looked for
        from threadpoolctl import threadpool_info
    except ImportError:  # the list of packages says so
        return []
    keys = ("internal_api", "version", "num_threads")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [{key: pool[key] for key in keys} for pool in pools]


def _memory() -> int:
    """Available memory in bytes, of the machine or of the container."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    free = [line for line in _lines("/proc/meminfo") if line.startswith("MemAvailable:")]
    found += [int(line.split()[1]) << 10 for line in free]
    found += [int(line) for line in _lines("/sys/fs/cgroup/memory.max") if line.isdigit()]
    return min(found)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
