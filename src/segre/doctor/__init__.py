"""Does this installation work? What is installed, what is missing, and what is it needed for?

Requirements are read from the metadata of segre, so that there is no second list. Packages are
imported only on request: PyTorch alone would take seconds. Nothing here loads NumPy, since NumPy
may be what is broken.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import segre
from segre.doctor.packages import (
    Extra,
    Package,
    State,
    import_problem,
    judged,
    own_metadata,
    python,
    segre_itself,
    wanted_by,
)
from segre.geometry.progress import Progress, quiet
from segre.shown import Shown
from segre.sweep.local import THREADS, cores

__all__ = ["Check", "Examination", "Extra", "Package", "examine"]
SAMPLE = "softmax/d=3,3,3/a=2/t=2"


@dataclass(frozen=True)
class Check:
    """One check of the arithmetic by independent code, and its outcome."""

    words: str
    state: State


@dataclass(frozen=True)
class Examination(Shown):
    """The results of all checks."""

    python: Package
    segre: Package
    place: str  # where segre is installed
    core: tuple[Package, ...]
    extras: tuple[Extra, ...]
    machine: dict[str, Any]
    checks: tuple[Check, ...]

    @property
    def works(self) -> bool:
        """Whether the core is complete and works; extras may be missing, but not broken."""
        packages = (self.python, *self.core)
        return (
            self.segre.state in ("ok", "missing")  # it also works without being installed
            and all(package.state == "ok" for package in packages)
            and all(check.state == "ok" for check in self.checks)
            and all(extra.state != "broken" for extra in self.extras)
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        told = ("name", "state", "needed_for", "command")
        extras = [
            {
                **{key: getattr(extra, key) for key in told},
                "packages": [asdict(package) for package in extra.packages],
            }
            for extra in self.extras
        ]
        return {
            "works": self.works,
            "python": asdict(self.python),
            "segre": {**asdict(self.segre), "place": self.place},
            "core": [asdict(package) for package in self.core],
            "extras": extras,
            "machine": self.machine,
            "checks": [asdict(check) for check in self.checks],
        }


def examine(imports: bool = False, progress: Progress = quiet) -> Examination:
    """Run all checks; with `imports`, also import every package, each in a separate process."""
    own = own_metadata()
    core, extras = wanted_by(own)
    if imports:
        every = [*core, *(package for extra in extras for package in extra.packages)]
        installed = list(dict.fromkeys(one.name for one in every if one.state == "ok"))
        problems = {}
        for done, name in enumerate(installed):
            progress(f"importing {name}", done, len(installed))
            problems[name] = import_problem(name)
        core = [judged(package, problems) for package in core]
        extras = [
            replace(extra, packages=tuple(judged(one, problems) for one in extra.packages))
            for extra in extras
        ]
    return Examination(
        python=python(own),
        segre=segre_itself(own),
        place=str(Path(segre.__file__).parent),
        core=tuple(core),
        extras=tuple(extras),
        machine=machine(),
        checks=tuple(self_test()),
    )


def machine() -> dict[str, Any]:
    """What speed and limits depend on; what only NumPy knows is left out if it is missing."""
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


def self_test() -> Iterator[Check]:
    """Run all checks; a failure is reported, not raised."""
    for name, test in (("proof", _prove_and_verify), ("rank mod p", _compare_ranks)):
        try:
            yield Check(test(), "ok")
        except Exception as error:  # whatever it is, it is the answer
            message = " ".join(str(error).split())
            yield Check(f"{name}: {type(error).__name__}: {message}", "broken")


def _prove_and_verify() -> str:
    from segre.certificate import certify
    from segre.kernel import verify

    verdict = verify(certify(SAMPLE))
    if not verdict.valid:
        raise ArithmeticError(f"the kernel rejects the proof for {SAMPLE}: {verdict.reason}")
    number = verdict.claim["upper"]
    return f"proved that {SAMPLE} has dimension {number}, and the kernel accepts the proof"


def _compare_ranks() -> str:
    import numpy as np
    from flint import nmod_mat

    from segre.fields import Prime, rank

    field, size, true = Prime(), 60, 40
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, field.p, (size, true)), rng.integers(0, field.p, (true, size))
    matrix = field.residues(field.matmul(field.constant(left), field.constant(right)))
    ours, theirs = rank(matrix, field), nmod_mat(matrix.tolist(), field.p).rank()
    if not ours == theirs == true:
        raise ArithmeticError(
            f"segre finds {ours}, FLINT finds {theirs}, the correct rank is {true}"
        )
    return f"rank mod {field.p} of a {size} x {size} matrix is {true}, and FLINT agrees"
