"""Several architectures side by side: their parameters, and how many of them are redundant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segre.finding import Findings
from segre.geometry.dimension import dimension
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.spec import Network
from segre.transformer.choices import Output
from segre.transformer.spec import Transformer


def compare(
    *specs: str | Path | Mapping[str, Any] | Network | Transformer,
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
    names = [
        str(spec) if isinstance(spec, str | Path) else str(one.spec)
        for spec, one in zip(specs, found, strict=True)
    ]
    return Findings(tuple(names), tuple(found))
