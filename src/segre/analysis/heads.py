"""What do the heads do? Spectra of their matrices, and of their patterns on real inputs."""

from __future__ import annotations

import numpy as np

from segre.analysis.part import Answer
from segre.analysis.workbench import Workbench
from segre.checkpoint.info import Info, Product
from segre.errors import TooLargeError, UnsupportedError
from segre.fields.interface import Array


def what_heads_do(bench: Workbench) -> Answer:
    """Singular values of OV and QK of every head, and of the patterns of one forward pass."""
    info = bench.info
    try:
        patterns: list[list[dict[str, float]]] | None = [
            [pattern(P) for P in layer] for layer in bench.patterns
        ]
        missing = ""
    except (TooLargeError, UnsupportedError) as error:  # no patterns, or too large to run
        patterns, missing = None, str(error)
    return Answer(
        status="measured",
        lead=_lead(info, patterns),
        how="Singular values of W_O W_V and W_Q' W_K in double precision, norms folded in"
        + (
            "."
            if patterns is None
            else f"; patterns are those of one forward pass on {len(bench.patterns[0][0])} tokens."
        ),
        command=bench.command(["heads"]),
        data={
            "layers": [
                {
                    "layer": layer.number,
                    "OV": [head.document() for head in layer.ov],
                    "QK": [head.document() for head in layer.qk],
                }
                for layer in info.layers
            ],
            "spectra": {
                "OV": [spectrum(layer.ov) for layer in info.layers],
                "QK": [spectrum(layer.qk) for layer in info.layers],
            },
            "patterns": patterns,
        },
        notes=(f"Patterns are not shown: {missing}.",) if missing else (),
    )


def spectrum(heads: tuple[Product, ...]) -> list[float]:
    """Medians over the heads of a layer of singular values over the largest.

    >>> spectrum((Product((2.0, 1.0), 2), Product((4.0, 1.0), 2), Product((0.0, 0.0), 0)))
    [1.0, 0.375]
    """
    known = [head.singular_values for head in heads if head.singular_values[0]]
    if not known:
        return [0.0] * len(heads[0].singular_values)
    values = np.array(known)
    return [float(value) for value in np.median(values / values[:, :1], axis=0)]


def pattern(P: Array) -> dict[str, float]:
    """One pattern in numbers: how spread out, how far back it looks, how near to rank one.

    `entropy` is the mean over queries, as a share of that of the uniform pattern over what a query
    can see; `second` is the largest singular value of the pattern on residuals, over the largest of
    all: what is 0 there makes all tokens alike.

    >>> uniform = np.full((4, 4), 0.25)
    >>> {name: round(value, 6) for name, value in pattern(uniform).items()}
    {'entropy': 1.0, 'distance': 1.25, 'itself': 0.25, 'first': 0.25, 'second': 0.0, 'rank': 1.0}
    """
    n = len(P)
    logs = np.log(np.where(P > 0, P, 1.0))
    causal = not np.triu(P, 1).any()
    seen = np.arange(1, n + 1) if causal else np.full(n, n)
    most = np.log(np.maximum(seen, 2))
    places = np.arange(n)
    sigma = np.linalg.svd(P, compute_uv=False)
    centred = P - P.mean(axis=0)  # what the pattern does beyond one row for all
    return {
        "entropy": float((-(P * logs).sum(axis=1) / most)[seen > 1].mean()),
        "distance": float((P * abs(places[:, None] - places)).sum(axis=1).mean()),
        "itself": float(np.diag(P).mean()),
        "first": float(P[:, 0].mean()),
        "second": float(np.linalg.norm(centred, 2) / sigma[0]),
        "rank": float((sigma**2).sum() / sigma[0] ** 2),
    }


def _lead(info: Info, patterns: list[list[dict[str, float]]] | None) -> str:
    ov = [head.stable_rank for layer in info.layers for head in layer.ov]
    qk = [head.stable_rank for layer in info.layers for head in layer.qk]
    full = len(info.layers[0].ov[0].singular_values)
    said = (
        f"{len(ov)} heads. Values: stable rank {min(ov):.1f} to {max(ov):.1f} of {full}. "
        f"Scores: {min(qk):.1f} to {max(qk):.1f} of {len(info.layers[0].qk[0].singular_values)}."
    )
    if patterns is None:
        return said
    every = [head for layer in patterns for head in layer]
    first = sum(head["first"] > 0.5 for head in every)
    spread = sum(head["entropy"] > 0.9 for head in every)
    parts = []
    if first:
        parts.append(f"{first} give most of their attention to the first token")
    if spread:
        parts.append(f"{spread} spread it nearly evenly")
    return f"{said} On this input {' and '.join(parts)}." if parts else said
