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
from warnings import warn

__version__ = "0.2.0"

if TYPE_CHECKING:
    from segre import checkpoints as checkpoints
    from segre import collapse as collapse
    from segre import sweeps as sweeps
    from segre.analysis.comparison import compare as compare
    from segre.analysis.diff import diff as diff
    from segre.analysis.run import Analysis as Analysis
    from segre.analysis.run import analyze as analyze
    from segre.certificate import certify as certify
    from segre.certificate import write_certificate as write_certificate
    from segre.checkpoint.any_size import move as move
    from segre.checkpoint.any_size import same as same
    from segre.checkpoint.runnable import open_model
    from segre.discovery import catalog as catalog
    from segre.errors import SegreError as SegreError
    from segre.finding import Finding as Finding
    from segre.geometry.closed_form import closed_form as closed_form
    from segre.geometry.dimension import dimension as dimension
    from segre.geometry.explain import explain as explain
    from segre.geometry.fiber import canonical as canonical
    from segre.geometry.fiber import connect as connect
    from segre.geometry.recover import recover as recover
    from segre.geometry.samples import samples as samples
    from segre.geometry.strata import classify as classify
    from segre.inspect.diagnose import diagnose as diagnose
    from segre.inspect.recording import record as record
    from segre.inspect.trace import trace as trace
    from segre.kernel import Verdict as Verdict
    from segre.kernel import verify as verify
    from segre.models import architecture as architecture
    from segre.polynomial.spec import Polynomial as Polynomial
    from segre.report.progress import progress_bar as progress_bar
    from segre.sequence.attend import attend as attend
    from segre.sequence.cost import cost as cost
    from segre.spec import Network as Network
    from segre.transformer.spec import Transformer as Transformer
    from segre.variety.critical import critical as critical
    from segre.variety.degree import degree as degree
    from segre.variety.landscape import landscape as landscape
    from segre.weights import PolynomialWeights as PolynomialWeights
    from segre.weights import Weights as Weights

    open = open_model

# Names are loaded when first used, so that `segre --help` does not wait for NumPy.
_HOMES = {
    # networks and weights
    "architecture": "segre.models",
    "catalog": "segre.discovery",
    "Network": "segre.spec",
    "Polynomial": "segre.polynomial.spec",
    "Transformer": "segre.transformer.spec",
    "Weights": "segre.weights",
    "PolynomialWeights": "segre.weights",
    # what a model or design is, and does
    "analyze": "segre.analysis.run",
    "Analysis": "segre.analysis.run",
    "compare": "segre.analysis.comparison",
    "diff": "segre.analysis.diff",
    "open": "segre.checkpoint.runnable:open_model",
    "diagnose": "segre.inspect.diagnose",
    "record": "segre.inspect.recording",
    "trace": "segre.inspect.trace",
    "cost": "segre.sequence.cost",
    "attend": "segre.sequence.attend",
    # how many dimensions of function
    "dimension": "segre.geometry.dimension",
    "closed_form": "segre.geometry.closed_form",
    "explain": "segre.geometry.explain",
    "samples": "segre.geometry.samples",
    "Finding": "segre.finding",
    # proofs
    "certify": "segre.certificate",
    "write_certificate": "segre.certificate",
    "verify": "segre.kernel",
    "Verdict": "segre.kernel",
    # which weights are one function
    "same": "segre.checkpoint.any_size",
    "move": "segre.checkpoint.any_size",
    "canonical": "segre.geometry.fiber",
    "connect": "segre.geometry.fiber",
    "classify": "segre.geometry.strata",
    "recover": "segre.geometry.recover",
    # varieties of functions
    "degree": "segre.variety.degree",
    "critical": "segre.variety.critical",
    "landscape": "segre.variety.landscape",
    # everywhere
    "progress_bar": "segre.report.progress",
    "SegreError": "segre.errors",
}
_NAMESPACES = ("checkpoints", "collapse", "sweeps")
_RENAMED = {"sample": "move", "same_function": "same"}  # names of version 0.2

__all__ = [*_HOMES, *_NAMESPACES]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        now = _RENAMED[name]
        warn(f"segre.{name} is now segre.{now}", DeprecationWarning, stacklevel=2)
        name = now
    if name in _HOMES:
        home, _, own = _HOMES[name].partition(":")
        return getattr(import_module(home), own or name)
    if name in _NAMESPACES:
        return import_module(f"segre.{name}")
    raise AttributeError(f"module 'segre' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
