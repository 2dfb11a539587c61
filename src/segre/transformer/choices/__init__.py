"""Which design choices of a transformer change its function? Each is a field, in canonical form.

Each module is one group of choices, with what follows from them and which of them contradict each
other. A group extends the one before it: stream, norms, attention, positions, MLPs, embedding,
head.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from segre.errors import SpecError
from segre.transformer.by_layer import dense_layers, mechanisms, rotations, windows
from segre.transformer.choices.attention import Decay as Decay
from segre.transformer.choices.attention import QkNorm as QkNorm
from segre.transformer.choices.attention import QkvFeature as QkvFeature
from segre.transformer.choices.head import Head
from segre.transformer.choices.head import Output as Output
from segre.transformer.choices.head import Read as Read
from segre.transformer.choices.mlp import GATED as GATED
from segre.transformer.choices.mlp import PIECEWISE as PIECEWISE
from segre.transformer.choices.mlp import MlpKind as MlpKind
from segre.transformer.choices.mlp import Router as Router
from segre.transformer.choices.norms import NormKind as NormKind
from segre.transformer.choices.norms import Place as Place
from segre.transformer.choices.positions import Layout as Layout
from segre.transformer.choices.positions import Position as Position
from segre.transformer.choices.stream import Bias as Bias


@dataclass(frozen=True)
class Choices(Head):
    """All choices."""

    def __post_init__(self) -> None:
        """A canonical form: shortest lists, standard scales left out."""
        object.__setattr__(self, "window", windows(self.window, self.layers))
        object.__setattr__(self, "dense", dense_layers(self.dense, self.layers))
        if self.turns_by_layer:
            base, how = rotations(self.base, self.rescale, self.layers)
            object.__setattr__(self, "base", base)
            object.__setattr__(self, "rescale", how)
        if isinstance(self.attn, tuple):
            object.__setattr__(self, "attn", mechanisms(self.attn, self.layers))
        if self.mixeps == self.eps:
            object.__setattr__(self, "mixeps", Fraction(0))
        if self.qknorm == "all" and self.heads == 1:
            object.__setattr__(self, "qknorm", True)
        if self.gate == "element" and self.dv == 1:
            object.__setattr__(self, "gate", "head")
        if self.scale == self.standard:
            object.__setattr__(self, "scale", Fraction(0))
        if self.within == self.groups:  # all groups: as if there were none
            object.__setattr__(self, "groups", 0)
            object.__setattr__(self, "within", 0)

    def require(self) -> None:
        """Refuse contradictory choices in one line that names the key and what is allowed."""
        broken = next(self.rules(), None)
        if broken is not None:
            raise SpecError(broken)


# The order of the keys in inline specs.
_ORDER = (
    "d layers heads kv head dv ff mlp norm place gain eps pos base rotary layout rescale bias "
    "causal window residual skip parallel qknorm vocab tied final attn sinks gate feature mixnorm "
    "mixeps decay scale bylayer cap logitcap qrank kvrank experts active shared sharedgate eff "
    "expbias limit dense router groups within share positions offset types embed project embnorm "
    "firstnorm embscale transform headnorm outbias pooler patch masked layerscale cls labels read "
    "relation output t"
)
KEYS = tuple(_ORDER.split())
_FIELDS = {item.name: item for item in fields(Choices)}
DEFAULTS = {key: _FIELDS[key].default for key in KEYS}
