"""segre: the exact geometry of attention networks.

>>> import segre
>>> segre.dimension("softmax/d=10,10,10/a=2,2/t=3").value
172

Besides the names of this module, `segre.checkpoints` has functions on model directories,
`segre.collapse` functions on depth (and is one itself), and `segre.sweeps` functions on thousands
of architectures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from segre import checkpoints, collapse, sweeps
    from segre.analysis.comparison import compare
    from segre.analysis.diff import diff
    from segre.analysis.run import Analysis, analyze
    from segre.certificate import certify, write_certificate
    from segre.checkpoint.same_function import same_function
    from segre.discovery import catalog
    from segre.errors import SegreError
    from segre.finding import Finding
    from segre.geometry.closed_form import closed_form
    from segre.geometry.dimension import dimension
    from segre.geometry.explain import explain
    from segre.geometry.fiber import canonical, connect, sample
    from segre.geometry.recover import recover
    from segre.geometry.samples import samples
    from segre.geometry.strata import classify
    from segre.inspect.diagnose import diagnose
    from segre.inspect.trace import trace
    from segre.kernel import Verdict, verify
    from segre.models import architecture
    from segre.report.progress import progress_bar
    from segre.sequence.attend import attend
    from segre.sequence.cost import cost
    from segre.spec import Network
    from segre.transformer.spec import Transformer
    from segre.variety.critical import critical
    from segre.variety.degree import degree
    from segre.variety.landscape import landscape
    from segre.weights import Weights

# Names are loaded when first used, so that `segre --help` does not wait for NumPy.
_HOMES = {
    "Analysis": "segre.analysis.run",
    "Finding": "segre.finding",
    "Network": "segre.spec",
    "SegreError": "segre.errors",
    "Transformer": "segre.transformer.spec",
    "Verdict": "segre.kernel",
    "Weights": "segre.weights",
    "analyze": "segre.analysis.run",
    "architecture": "segre.models",
    "attend": "segre.sequence.attend",
    "canonical": "segre.geometry.fiber",
    "catalog": "segre.discovery",
    "certify": "segre.certificate",
    "classify": "segre.geometry.strata",
    "closed_form": "segre.geometry.closed_form",
    "compare": "segre.analysis.comparison",
    "connect": "segre.geometry.fiber",
    "cost": "segre.sequence.cost",
    "critical": "segre.variety.critical",
    "degree": "segre.variety.degree",
    "diagnose": "segre.inspect.diagnose",
    "diff": "segre.analysis.diff",
    "dimension": "segre.geometry.dimension",
    "explain": "segre.geometry.explain",
    "landscape": "segre.variety.landscape",
    "progress_bar": "segre.report.progress",
    "recover": "segre.geometry.recover",
    "same_function": "segre.checkpoint.same_function",
    "sample": "segre.geometry.fiber",
    "samples": "segre.geometry.samples",
    "trace": "segre.inspect.trace",
    "verify": "segre.kernel",
    "write_certificate": "segre.certificate",
}
_NAMESPACES = ("checkpoints", "collapse", "sweeps")

__all__ = [
    "Analysis",
    "Finding",
    "Network",
    "SegreError",
    "Transformer",
    "Verdict",
    "Weights",
    "analyze",
    "architecture",
    "attend",
    "canonical",
    "catalog",
    "certify",
    "checkpoints",
    "classify",
    "closed_form",
    "collapse",
    "compare",
    "connect",
    "cost",
    "critical",
    "degree",
    "diagnose",
    "diff",
    "dimension",
    "explain",
    "landscape",
    "progress_bar",
    "recover",
    "same_function",
    "sample",
    "samples",
    "sweeps",
    "trace",
    "verify",
    "write_certificate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _NAMESPACES:
        return import_module(f"segre.{name}")
    raise AttributeError(f"module 'segre' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
