"""Thousands of architectures: test a claim exactly on each, and find formulas.

>>> import segre
>>> from tempfile import TemporaryDirectory
>>> plan = {"kind": "softmax", "exhaustive": True, "claim": "dimension == a*(2*d - a) + d*d",
...     "fields": {"layers": 1, "d": "2..4", "a": 2, "t": 3}}
>>> with TemporaryDirectory() as folder:
...     ran = segre.sweeps.run(plan, f"{folder}/small.db", workers=1)
...     found = segre.sweeps.standing(f"{folder}/small.db")
>>> ran.done, found.verdicts, found.refuted
(3, {'holds': 3}, False)
"""

from __future__ import annotations

from segre.sweep.builtin import builtin_names, plan_of
from segre.sweep.export import export
from segre.sweep.fit import Fit, fit
from segre.sweep.plan import Plan
from segre.sweep.run import Ran, run
from segre.sweep.status import Standing, standing
from segre.sweep.verify import Verified, verify

__all__ = [
    "Fit",
    "Plan",
    "Ran",
    "Standing",
    "Verified",
    "builtin_names",
    "export",
    "fit",
    "plan_of",
    "run",
    "standing",
    "verify",
]


def __dir__() -> list[str]:
    return __all__
