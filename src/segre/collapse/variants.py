"""Variants of a transformer: parts taken out of its layers, or attention changed, as spec edits.

A layer has two sub-layers, attention f and then the MLP f, each with a skip and norms N:

    post-norm (bert, albert)                        y = N(x + f(x))
    pre-norm (gpt2, llama, mistral, qwen2, qwen3)   y = x + f(N(x))
    both (gemma2)                                   y = x + N'(f(N(x)))

Parallel sub-layers (gpt_neox), attention f and the MLP g, read the same tokens: y = x + f(N(x)) +
g(N'(x)). Without skips that is f(N(x)) + g(N'(x)); a skip of the MLP alone does not exist there.

Without skips the "x +" of both sub-layers is gone. Without norms N is the identity. Without its MLP
a layer is its attention sub-layer: what comes out of that passes unchanged, so that the norm and
the skip of the MLP are gone too. What comes before the layers stays, with the norm of the
embeddings (bert, albert): all variants start from the same tokens. The norms of queries and keys
(qwen3) and of latents (deepseek_v3) stay, as a part of the pattern.

The code published with the paper removes the skip of attention alone (here: `mlp_skip`), which
delays collapse in trained models. It also leaves albert the activation of its MLP; its curve with
skips and without MLPs falls less than the one here.

Attention itself is changed by an option after a colon, on any of these:

    full:gapless          patterns A - 1 1^T / t: their leading direction is removed
    full:window=8         a token sees at most 8 tokens, itself included
    full:gate             what heads mix is multiplied by sigmoid(W_G x); W_G is random

A checkpoint has no W_G for a gate that its design lacks. It is drawn as a model has it before
training: normal with deviation 0.02, by a seed. What is measured with it is the model on the day
that gates are added, not the model that training with gates would give.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from segre.errors import SpecError, UnsupportedError
from segre.fields.interface import Array
from segre.transformer.drawn import Drawn
from segre.transformer.forward import ATTENTION, MLP, Tensors, WeightSource
from segre.transformer.spec import Transformer
from segre.values import listed, quote

PARTS = {"skip": "skips", "mlp": "MLPs", "norm": "norms"}
_ALL_KEYS = "1/t is subtracted from the weights of all t keys"
_PER_WINDOW = 4  # the window of `what_if` is this part of the tokens


@dataclass(frozen=True)
class Variant:
    """What the layers still have beside attention, and what becomes of attention.

    >>> str(Variant()), str(Variant(skip=False, mlp=False)), str(Variant(mlp=False, norm=False))
    ('full', 'attention', 'attention+skip-norm')
    >>> str(Variant(skip=False)), str(Variant(skip=False, mlp_skip=True))
    ('attention+mlp', 'attention+skipped-mlp')
    >>> str(Variant(gapless=True)), str(Variant(window=8, gate=True))
    ('full:gapless', 'full:window=8:gate')
    """

    skip: bool = True
    mlp: bool = True
    norm: bool = True
    mlp_skip: bool | None = None  # the skip of the MLP, if it is not as that of attention
    gapless: bool = False  # patterns have 1/t subtracted from every weight
    window: int = 0  # how many tokens a token sees at most, itself included; 0: as it is
    gate: bool = False  # what heads mix is multiplied, entry by entry, by a gate at random

    @property
    def skips_mlp(self) -> bool:
        """Whether the input of the MLP is added to its output."""
        return self.skip if self.mlp_skip is None else self.mlp_skip

    @property
    def plain(self) -> Variant:
        """The same variant with unchanged attention."""
        return replace(self, gapless=False, window=0, gate=False)

    def edit(self, spec: Transformer, number: int) -> Transformer | None:
        """What becomes of a sub-layer of a transformer: its attention (1), or its MLP (2)."""
        if number == MLP and not self.mlp:
            return None
        skip = self.skip if number == ATTENTION else self.skips_mlp
        norm = spec.norm if self.norm else "none"
        return replace(self.attending(spec), residual=spec.residual and skip, norm=norm)

    def attending(self, spec: Transformer) -> Transformer:
        """The transformer with its attention changed."""
        if self.gapless:
            spec = replace(spec, attn="gapless")
        if self.window:
            narrow = tuple(min(self.window, size or self.window) for size in spec.window)
            spec = replace(spec, window=narrow or (self.window,))
        return replace(spec, gate="element") if self.gate else spec

    def require(self, spec: Transformer) -> None:
        """Refuse a change of attention that goes against a choice of the spec, naming that."""
        if self == self.plain:
            return
        gated, causal = spec.gate != "none", spec.causal
        for wrong, key, why in (
            (spec.by_mechanism, "attn by layer", "not all layers have a softmax"),
            (not spec.mechanisms[0].sums_to_one, f"attn={spec.attn}", "it has no softmax"),
            (self.gapless and causal, "causal=true", _ALL_KEYS),
            (self.gapless and any(spec.window), "window", _ALL_KEYS),
            (self.gapless and self.window > 0, f"window={self.window}", _ALL_KEYS),
            (self.gapless and spec.sinks, "sinks", "the weights of a query do not sum to one"),
            (self.gate and gated, f"gate={spec.gate}", "the model already has gates"),
        ):
            if wrong:
                raise UnsupportedError(f"variant {self} is not possible with {key}: {why}")
        try:
            self.attending(spec).require()
        except SpecError as error:
            raise UnsupportedError(f"variant {self}: {error}") from None

    @property
    def words(self) -> str:
        """What it is, for readers who do not know the keys of `--variants`.

        >>> Variant().words, Variant(skip=False, mlp=False).words
        ('the whole model', 'attention only')
        >>> Variant(skip=False, norm=False).words, Variant(window=8).words
        ('without skips and norms', 'with a window of 8 tokens')
        >>> Variant(skip=False, mlp=False, norm=False, gapless=True).words
        'attention only, without norms, uniform part removed'
        """
        changes = {
            "uniform part removed": self.gapless,
            f"with a window of {self.window} tokens": self.window > 0,
            "with random gates": self.gate,
            "the MLPs with skips": self.mlp_skip is True and not self.skip,
            "the MLPs without skips": self.mlp_skip is False and self.skip,
        }
        changed = [words for words, there in changes.items() if there]
        if not self.skip and not self.mlp:
            return ", ".join(["attention only", *["without norms"] * (not self.norm), *changed])
        gone = [words for part, words in PARTS.items() if not getattr(self, part)]
        removed = [f"without {listed(gone)}"] if gone else []
        return ", ".join([*removed, *changed]) or "the whole model"

    def __str__(self) -> str:
        mlp = "mlp"
        if self.skips_mlp != self.skip:
            mlp = "skipped-mlp" if self.skips_mlp else "bare-mlp"
        parts = ["attention", *["skip"] * self.skip, *[mlp] * self.mlp]
        base = "+".join(parts).replace("attention+skip+mlp", "full")
        options = (
            *["gapless"] * self.gapless,
            *[f"window={self.window}"] * (self.window > 0),
            *["gate"] * self.gate,
        )
        return ":".join([base if self.norm else f"{base}-norm", *options])


ALONE = Variant(skip=False, mlp=False)
FULL = Variant()
PAPER = (ALONE, Variant(skip=False), Variant(mlp=False), FULL)
PUBLISHED = (ALONE, Variant(skip=False, mlp_skip=True), Variant(mlp=False), FULL)
BARE = Variant(skip=False, mlp=False, norm=False)  # the networks of the theorems
ALL = tuple(Variant(v.skip, v.mlp, norm) for norm in (True, False) for v in PAPER)
OPTIONS = ("gapless", "window=N", "gate")


def variant(name: str) -> Variant:
    """A variant by its name.

    >>> variant("attention:window=8:gate") == Variant(False, False, window=8, gate=True)
    True
    """
    base, *options = name.split(":")
    found = {str(each): each for each in (*ALL, *PUBLISHED)}
    if base not in found:
        raise SpecError(
            f"unknown variant {quote(name)}; allowed: {', '.join(found)}, and after a colon "
            f"{', '.join(OPTIONS)}"
        )
    out = found[base]
    for option in options:
        key, _, value = option.partition("=")
        if option in ("gapless", "gate"):
            out = replace(out, **{option: True})
        elif key == "window" and value.isdecimal() and value.isascii() and 0 < int(value) < 10**9:
            out = replace(out, window=int(value))
        else:
            raise SpecError(
                f"variant {quote(name)}: unknown change {quote(option)}; allowed: "
                f"{', '.join(OPTIONS)}, with N a whole number from 1"
            )
    return out


def what_if(spec: Transformer, length: int) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The model and its attention alone, each with every change; and what the spec refuses.

    The window is a quarter of the tokens.
    """
    window = max(1, length // _PER_WINDOW)
    changes = (Variant(gapless=True), Variant(window=window), Variant(gate=True))
    out, refused = [ALONE, FULL], []
    for change in changes:
        try:
            change.require(spec)
        except UnsupportedError as error:
            refused.append(str(error))
        else:
            out += [replace(change, skip=False, mlp=False), change]
    return tuple(out), tuple(refused)


@dataclass(frozen=True)
class WithGates:
    """The weights of a model, with random W_G for edits of its spec that have gates."""

    weights: WeightSource
    seed: int = 0

    @property
    def spec(self) -> Transformer:
        """The architecture without the gates."""
        return self.weights.spec

    @cached_property
    def drawn(self) -> Drawn:
        """What the gates are taken from."""
        return Drawn(replace(self.spec, gate="element"), self.seed)

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Tables are unchanged."""
        return self.weights.columns(name, which, dtype)

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part; of an attention, its gates too."""
        found = self.weights.part(part, names, dtype)
        return found | self.drawn.part(part, ["W_G"], dtype) if "W_O" in found else found
