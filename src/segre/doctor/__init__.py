"""Does this installation work? What is installed, what is missing, and what is it needed for?

Requirements are read from the metadata of segre, so that there is no second list. Packages are
imported only on request: PyTorch alone would take seconds. Nothing here loads NumPy, since NumPy
may be what is broken.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import segre
from segre.doctor.machine import machine
from segre.doctor.packages import (
    Extra,
    Package,
    import_problem,
    judged,
    own_metadata,
    python,
    segre_itself,
    wanted_by,
)
from segre.doctor.selftest import Check, self_test
from segre.geometry.progress import Progress, quiet
from segre.shown import Shown

__all__ = ["Check", "Examination", "Extra", "Package", "examine"]


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
        extras = [
            {
                "name": extra.name,
                "state": extra.state,
                "needed_for": extra.needed_for,
                "command": extra.command,
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
