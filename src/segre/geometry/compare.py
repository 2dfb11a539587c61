"""Several architectures side by side: their parameters, and how many of them are redundant."""

from __future__ import annotations

from segre.finding import Findings
from segre.geometry.dimension import dimension
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.models import Source, called
from segre.transformer.choices import Output


def compare(
    *specs: Source,
    seed: int = 0,
    output: Output | None = None,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Findings:
    """Transformers of any size, counted by formulas, in the order in which they are given.

    >>> found = compare("gpt2", "llama-3-8b")
    >>> [one.redundancy["total"] for one in found.found]
    [1347352, 13342720]
    """
    found = [
        dimension(
            spec,
            method="count",
            seed=seed,
            output=output,
            symmetries=True,
            memory=memory,
            progress=progress,
        )
        for spec in specs
    ]
    return Findings(tuple(map(called, specs)), tuple(found))
