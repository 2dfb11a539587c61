"""Variants of a transformer: skips, MLPs and norms taken out of its layers, as edits of its spec.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from segre.errors import SpecError
from segre.transformer.forward import ATTENTION, MLP
from segre.transformer.spec import Transformer
from segre.values import quote


@dataclass(frozen=True)
class Variant:
    """What the layers still have beside attention.

    >>> str(Variant()), str(Variant(skip=False, mlp=False)), str(Variant(mlp=False, norm=False))
    ('full', 'attention', 'attention+skip-norm')
    >>> str(Variant(skip=False)), str(Variant(skip=False, mlp_skip=True))
    ('attention+mlp', 'attention+skipped-mlp')
    """

    skip: bool = True
    mlp: bool = True
    norm: bool = True
    mlp_skip: bool | None = None  # the skip of the MLP, if it is not as that of attention

    @property
    def skips_mlp(self) -> bool:
        """Whether the input of the MLP is added to its output."""
        return self.skip if self.mlp_skip is None else self.mlp_skip

    def edit(self, spec: Transformer, number: int) -> Transformer | None:
        """What becomes of a sub-layer of a transformer: its attention (1), or its MLP (2)."""
        if number == MLP and not self.mlp:
            return None
        skip = self.skip if number == ATTENTION else self.skips_mlp
        norm = spec.norm if self.norm else "none"
        return replace(spec, residual=spec.residual and skip, norm=norm)

    @property
    def described(self) -> str:
        """Its name, and what it is.

        >>> Variant().described, Variant(skip=False, norm=False).described
        ('full, the model as it is', 'attention+mlp-norm, without skips and norms')
        """
        parts = {"skips": self.skip, "MLPs": self.mlp, "norms": self.norm}
        gone = [name for name, there in parts.items() if not there]
        if not gone:
            return f"{self}, the model as it is"
        *others, last = gone
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"{self}, without {listed}"

    def __str__(self) -> str:
        mlp = "mlp"
        if self.skips_mlp != self.skip:
            mlp = "skipped-mlp" if self.skips_mlp else "bare-mlp"
        parts = ["attention", *["skip"] * self.skip, *[mlp] * self.mlp]
        base = "+".join(parts).replace("attention+skip+mlp", "full")
        return base if self.norm else f"{base}-norm"


ALONE = Variant(skip=False, mlp=False)
FULL = Variant()
PAPER = (ALONE, Variant(skip=False), Variant(mlp=False), FULL)
PUBLISHED = (ALONE, Variant(skip=False, mlp_skip=True), Variant(mlp=False), FULL)
BARE = Variant(skip=False, mlp=False, norm=False)  # the networks of the theorems
ALL = tuple(Variant(v.skip, v.mlp, norm) for norm in (True, False) for v in PAPER)


def variant(name: str) -> Variant:
    """A variant by its name."""
    found = {str(each): each for each in (*ALL, *PUBLISHED)}
    if name not in found:
        raise SpecError(f"variant {quote(name)}: not known; allowed: {', '.join(found)}")
    return found[name]
