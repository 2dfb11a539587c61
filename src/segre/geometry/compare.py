"""Several architectures side by side: their parameters, and how many of them are redundant."""

from __future__ import annotations

from segre.finding import Findings
from segre.geometry.at_any_size import at_any_size
from segre.geometry.redundancy import asked_for, counted
from segre.models import Source, architecture, called, only
from segre.transformer.choices import Output
from segre.transformer.spec import Transformer

_ONLY = "dim --compare supports only transformers; use segre compare for other designs"


def compare(
    *specs: Source,
    output: Output | None = None,
) -> Findings:
    """Transformers of any size, by a theorem or counted, in the order in which they are given.

    >>> found = compare("gpt2", "llama-3-8b")
    >>> [(one.value, one.redundancy["total"]) for one in found.found]
    [(123092456, 1347352), (8016918528, 13342720)]
    """
    found = []
    for spec in specs:
        net = architecture(spec)
        net = net if output is None else asked_for(net, output)
        found.append(at_any_size(only(Transformer, net, _ONLY), counted))
    return Findings(tuple(map(called, specs)), tuple(found))
