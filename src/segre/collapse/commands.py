"""Questions about depth, each in one call: residuals by layer, sums over paths, shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log10
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from segre.checkpoint.inputs import Inputs, longest, random_tokens, read_text
from segre.checkpoint.model import Model
from segre.checkpoint.opening import trained
from segre.checkpoint.outputs import furthest
from segre.checkpoint.runnable import family_of, load
from segre.collapse.curves import Curves, curves
from segre.collapse.mechanisms import MechanismStudy, mechanism_advice, mechanism_study
from segre.collapse.passes import Pass
from segre.collapse.paths import (
    PathSums,
    head_shares,
    path_sums,
    path_term,
    sample_paths,
    shares_of,
)
from segre.collapse.record import record
from segre.collapse.residual import norm, relative_residual
from segre.collapse.streams import Fusion
from segre.collapse.study import Study, medians, random_pass, study, study_advice
from segre.collapse.variants import ALL, FULL, PAPER, Variant, variant, what_if
from segre.collapse.verdict import THRESHOLD, advice, not_measured
from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.finding import Status, Unbounded
from segre.geometry.memory import DEFAULT_LIMIT
from segre.geometry.progress import Progress, quiet
from segre.models import POLYNOMIALS, STACKS, Source, called, with_attention
from segre.shown import Tabular
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.values import counted, quote

__all__ = ["Depth", "PathShares", "Paths", "count_paths", "decompose", "measure"]

_TOKENS = 32


@dataclass(frozen=True)
class Depth(Unbounded, Tabular):
    """How different tokens are after every layer, and the verdict."""

    found: Curves | Study | MechanismStudy
    advice: list[str]
    status: ClassVar[Status] = "measured"

    @property
    def value(self) -> float | None:
        """log10 of the relative residual after the last layer; None if it was not measured."""
        if isinstance(self.found, Study):
            return float(medians(self.found.own.relative)[-1])
        if isinstance(self.found, MechanismStudy):
            return float(np.median(self.found.relative[:, -1]))
        return float(self.found[FULL].log10[-1]) if FULL in self.found else None

    @property
    def how(self) -> str:
        """The inputs on which they were measured."""
        if isinstance(self.found, Study | MechanismStudy):
            many = counted(self.found.inputs, "random input")
            return f"random weights and {many}, seed {self.found.seed}"
        inputs = self.found.inputs
        return f"{counted(inputs['count'], 'input')} of {inputs['length']} tokens"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**self.found.document(), "advice": self.advice}


@dataclass(frozen=True)
class Paths(Unbounded, Tabular):
    """A forward pass as the sum over all paths."""

    name: str
    sums: PathSums
    heads: tuple[Array, ...]  # shares of all paths through each head: (H, ...) by layer
    error: float  # of the sum of all paths and biases against the output, relative
    sampled: list[dict[str, Any]]
    status: ClassVar[Status] = "measured"

    @property
    def value(self) -> list[float]:
        """The shares of the output, by length."""
        return [float(np.mean(one)) for one in self.sums.shares]

    @property
    def how(self) -> str:
        """How close the sum is to the output."""
        return (
            "the sum of all paths and biases equals the output up to a relative error of "
            f"{self.error:.1e}"
        )

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "model": self.name,
            "paths": self.sums.document(),
            "through": {
                "layers": {"share": [layer.sum(axis=0).tolist() for layer in self.heads]},
                "heads": [{"share": layer.tolist()} for layer in self.heads],
            },
            "identity": self.error,
            "sampled": self.sampled,
        }


@dataclass(frozen=True)
class PathShares(Unbounded, Tabular):
    """Shares of all paths, by length."""

    model: str
    value: list[float]
    status: ClassVar[Status] = "exact"
    how: ClassVar[str] = "each path takes one head or the skip in every layer"

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {"model": self.model, "shares": self.value}


def measure(
    model: Source,
    *,
    variants: str | Sequence[Variant] = "all",
    inputs: int = 8,
    length: int | None = None,
    text: str | Path | None = None,
    ranks: bool = False,
    certify: bool = False,
    threshold: float = THRESHOLD,
    fuse: str | None = None,
    seed: int = 0,
    memory: int = DEFAULT_LIMIT,
    progress: Progress = quiet,
) -> Depth:
    """Do tokens become alike with depth, also with parts removed? Like `segre model collapse`.

    Stacks, and transformers without a vocabulary, get random weights and random tokens, and their
    residuals are followed below the smallest float; `certify` proves those of the first input.
    Other models are run with parts removed: `variants` is "all", "paper", "what-if" (attention
    changed), or names separated by commas. `ranks` adds measures that need singular values. `text`
    is read with the model's tokenizer; without it, tokens are random. `fuse` ("max", "mean" or
    "concat") also measures the fused streams of all layers. A residual below `threshold` counts as
    collapsed. `seed` is also used for gates that the model has no weights for.

    >>> found = measure("softmax/d=16,16,16,16,16,16,16/a=8/heads=2/t=6", inputs=2)
    >>> found.status, found.value < -3, found.advice[0].split(":")[0]
    ('measured', True, 'Collapses without skips')
    """
    spec = own_spec(model)
    if fuse is not None:
        Fusion(fuse)  # refuses what is not known
        if spec is not None:
            raise UnsupportedError(
                f"spec {quote(str(spec))}: --fuse is supported only for models "
                "with tokens as inputs"
            )
    limit = log10(threshold) if threshold > 0 else -inf
    if spec is not None and spec.residuals_in_balls:
        many = mechanism_study(spec, seed, inputs)
        return Depth(many, mechanism_advice(many, limit))
    if spec is not None:
        alone = study(spec, seed, inputs, certify=certify)
        return Depth(alone, study_advice(alone, limit))
    asked = _named(variants)
    loaded = load(model, seed, memory=memory)
    tokens = _tokens(loaded, inputs, length, text, seed)
    changed, refused = what_if(loaded.spec, tokens.length) if None in asked else ((), ())
    every = (one for each in asked for one in (changed if each is None else (each,)))
    chosen = tuple(dict.fromkeys(every))
    found = curves(
        loaded,
        tokens,
        chosen,
        ranks=ranks,
        past_floor=True,
        fuse=fuse,
        seed=seed,
        progress=progress,
    )
    return Depth(found, [*advice(found, threshold), *not_measured(refused)])


def decompose(
    model: Source,
    *,
    skip: bool | None = None,
    mlp: bool = True,
    norms: bool = True,
    length: int | None = None,
    text: str | Path | None = None,
    sample: int = 0,
    of_length: int | None = None,
    seed: int = 0,
    memory: int = DEFAULT_LIMIT,
) -> Paths:
    """A forward pass as the exact sum over all paths, like `segre model paths`.

    `skip`, `mlp` and `norms` keep these parts, the last two as fixed linear maps. `sample` is the
    number of single paths to draw, of length `of_length` (by default 1).

    >>> found = decompose("softmax/d=8,8,8/a=4/heads=2/t=6", skip=True)
    >>> found.sums.counts, found.error < 1e-12
    ((1, 4, 4), True)
    """
    spec = own_spec(model)
    if spec is not None:
        name, done = random_pass(spec, seed, skip=skip)
    else:
        kept = Variant(skip=skip is not False, mlp=mlp, norm=norms)
        loaded = load(model, seed, memory=memory)
        tokens = _tokens(
            loaded, 1, length or min(_TOKENS, longest(loaded.spec) or _TOKENS), text, seed
        )
        done = record(loaded, tokens.batches[0][0], kept, memory=memory)
        drawn = "" if loaded.random is None else ", random weights"
        name = f"{loaded.name}{drawn} ({kept.words})"
    sums, heads = path_sums(done), head_shares(done)
    error = furthest(done.output, sums.total)
    return Paths(name, sums, heads, error, _drawn(done, sample, of_length, seed))


def count_paths(model: Source) -> PathShares:
    """Shares of all paths by length; no weights are needed.

    >>> print(f"{count_paths('gpt2').value[12]:.4f}")
    0.3827
    """
    name = called(model)
    return PathShares(name, shares_of(model))


def own_spec(model: Source) -> Network | Transformer | None:
    """The spec, if it is a stack, or one of the kind transformer without a vocabulary."""
    if isinstance(model, Model) or trained(model):
        return None
    if family_of(model) not in (*STACKS, *POLYNOMIALS, "transformer"):
        return None
    spec = with_attention(model, "this command")
    return None if spec.embedded else spec


def _named(given: str | Sequence[Variant]) -> Sequence[Variant | None]:
    """The requested variants; None stands for those of `what_if`, which depend on the model."""
    if not isinstance(given, str):
        return given
    groups = {"all": ALL, "paper": PAPER, "what-if": (None,)}
    names = [name.strip() for name in given.split(",")]
    return [one for name in names for one in groups.get(name) or (variant(name),)]


def _tokens(
    loaded: Model, count: int, length: int | None, text: str | Path | None, seed: int
) -> Inputs:
    if text is None:
        return random_tokens(loaded, count, length, seed)
    return read_text(loaded, text, count, length)


def _drawn(done: Pass, count: int, length: int | None, seed: int) -> list[dict[str, Any]]:
    """Sampled single paths, by default of length 1; without skips there is only one length."""
    if not count:
        return []
    usual = len(done.layers) if done.layers[0].past is None else 1
    out = []
    for path in sample_paths(done, usual if length is None else length, count, seed):
        term = path_term(done, path)
        size, relative = float(norm(term)), float(relative_residual(term))
        out.append({"path": list(path), "norm": size, "relative": relative})
    return out
