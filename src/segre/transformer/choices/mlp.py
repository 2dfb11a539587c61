"""MLPs: hidden units, and experts between which tokens choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from segre.transformer.by_layer import Dense
from segre.transformer.choices.positions import Positions

MlpKind = Literal[
    "none",
    "gelu",
    "gelu-tanh",
    "gelu-quick",
    "silu",
    "relu",
    "relu2",
    "swiglu",
    "geglu",
    "geglu-tanh",
    "geglu-quick",
    "reglu",
    "bilinear",
    "clamped",
]
Router = Literal["sigmoid", "softmax", "sigmoid-raw", "softmax-raw"]

PIECEWISE = ("relu", "relu2", "reglu", "clamped")
GATED = ("swiglu", "geglu", "geglu-tanh", "geglu-quick", "reglu", "bilinear", "clamped")


@dataclass(frozen=True)
class Mlp(Positions):
    """The choices of MLPs."""

    ff: int = 0  # hidden units of the MLP
    mlp: MlpKind = "none"
    experts: int = 0  # routed experts of the MLP; 0 is a dense MLP
    active: int = 0  # routed experts that a token uses
    shared: int = 0  # hidden units of the experts that all tokens use
    sharedgate: bool = False  # what those write is multiplied by a sigmoid, one for each token
    eff: int = 0  # hidden units of one routed expert
    expbias: bool = False  # routed experts and their router have biases
    limit: Fraction = Fraction(0)  # where mlp=clamped clamps its gate and its other factor
    dense: Dense = 0  # how many of the first layers have a dense MLP all the same; or a list
    router: Router = "sigmoid"  # shares of the chosen experts; raw: not divided by their sum
    groups: int = 0  # groups of experts, one after the other; 0 is none
    within: int = 0  # how many of the groups a token may use

    @property
    def gated(self) -> bool:
        """Whether the MLP multiplies two linear maps."""
        return self.mlp in GATED

    @property
    def mlp_bias(self) -> bool:
        """Whether the linear maps of MLPs have biases."""
        return self.bias in ("mlp", "mlp-norm", "all")

    @property
    def normal_cdf(self) -> bool:
        """Whether it computes the distribution function of a normal variable."""
        return self.mlp in ("gelu", "geglu")

    @property
    def exponentials(self) -> bool:
        """Whether there are transcendental functions: in scores, gates or MLPs."""
        scored = self.by_mechanism or self.mechanism.exponentials
        return scored or self.gate != "none" or self.mlp not in ("none", "bilinear")

    @property
    def piecewise(self) -> bool:
        """Whether the function is piecewise: by active units, or by chosen experts."""
        return self.piecewise_units or self.experts > 0

    @property
    def piecewise_units(self) -> bool:
        """Whether the function is piecewise by active units."""
        return self.mlp in PIECEWISE

    @property
    def regions(self) -> tuple[str, ...]:
        """What separates the regions of a piecewise function, in words."""
        experts = ("a choice of experts",) if self.experts > 0 else ()
        return ("relu", *experts) if self.piecewise_units else experts

    @property
    def softmax_router(self) -> bool:
        """Whether the router uses a softmax over experts instead of a sigmoid for each."""
        return self.experts > 0 and self.router in ("softmax", "softmax-raw")

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        if self.parallel and self.mlp == "none":
            yield "parallel=true cannot be combined with mlp=none"
        if (self.mlp != "none") != (self.ff > 0 or self.experts > 0):
            yield (
                f"ff: {self.ff} cannot be combined with mlp={self.mlp}; give both hidden units "
                "(ff=8) and an MLP (mlp=gelu), or neither"
            )
        if self.bias in ("norm", "mlp-norm"):
            yield from self.excludes(f"bias={self.bias}", {"experts": self.experts})
        if self.experts:
            yield from self._experts()
        else:
            if self.active or self.shared or self.eff or self.dense:
                yield "active, shared, eff and dense need experts"
            if self.router != "sigmoid" or self.groups or self.within:
                yield "router, groups and within need experts"
        if self.sharedgate and not self.shared:
            yield "sharedgate needs shared, for example shared=8"
        if (self.mlp == "clamped") != bool(self.limit):
            yield "mlp=clamped needs limit, for example limit=7, and limit needs mlp=clamped"
        if self.expbias and not (self.experts and self.norm == "rms" and not self.shared):
            yield "expbias needs experts, norm=rms and shared=0"

    def _experts(self) -> Iterator[str]:
        if not self.gated or not 0 < self.active <= self.experts or not self.eff:
            yield "experts need a gated mlp, active (1 to experts) and eff"
        if self.dense and not self.ff:
            yield "dense layers need ff"
        if self.groups or self.within:
            yield from self._groups()

    def _groups(self) -> Iterator[str]:
        """A token first chooses groups by their two largest affinities, then experts in them."""
        if not self.groups:
            yield "within needs groups, the number of groups of experts, for example groups=4"
        size = self.experts // self.groups
        if self.experts % self.groups or size < 2:
            yield (
                f"groups: {self.groups} groups of experts={self.experts}; allowed: a divisor that "
                "leaves at least 2 experts in each group"
            )
        if not 0 < self.within <= self.groups or self.within * size < self.active:
            yield (
                f"within: {self.within} of {self.groups} groups; allowed: enough groups for "
                f"active={self.active} experts"
            )
        if self.softmax_router:
            yield "groups need router=sigmoid or sigmoid-raw"
