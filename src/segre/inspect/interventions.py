"""What if one number were different, or one head or MLP were gone?

Both are hooks of a pass: numbers of the stream are set, and what heads and MLPs write is replaced
by zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from segre.errors import SpecError
from segre.fields.interface import Array
from segre.transformer.forward import Place
from segre.transformer.spec import Transformer
from segre.values import quote

_SET = re.compile(r"(\d+):(\d+):(\d+)=(.+)")
_HEAD = re.compile(r"(\d+)\.(\d+)")
_MLP = re.compile(r"mlp:(\d+)")


@dataclass(frozen=True)
class Setting:
    """One number of the stream, set at a depth."""

    depth: int  # after so many layers; 0 is before the first
    token: int  # from 0
    channel: int  # from 0
    value: float | None  # None: the median of its channel over the tokens

    @classmethod
    def read(cls, text: str) -> Setting:
        """As the command line has it: DEPTH:TOKEN:CHANNEL=VALUE.

        >>> Setting.read("12:0:507=median"), Setting.read("3:1:2=-0.5").value
        (Setting(depth=12, token=0, channel=507, value=None), -0.5)
        """
        found = _SET.fullmatch(text)
        if found is None:
            raise SpecError(
                f"--set {quote(text)} is not allowed; allowed: DEPTH:TOKEN:CHANNEL=VALUE, where "
                "VALUE is a number or median, such as 12:0:507=median"
            )
        depth, token, channel = (int(number) for number in found.groups()[:3])
        if found[4] == "median":
            return cls(depth, token, channel, None)
        try:
            value = float(found[4])
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise SpecError(
                f"--set {quote(text)}: {quote(found[4])} is neither a number nor median"
            )
        return cls(depth, token, channel, value)

    def __str__(self) -> str:
        value = "median" if self.value is None else f"{self.value:g}"
        return f"set {self.depth}:{self.token}:{self.channel}={value}"

    def require(self, spec: Transformer, tokens: int) -> None:
        """Refuse a place that there is not."""
        for name, value, most in (
            ("depth", self.depth, spec.layers),
            ("token", self.token, tokens - 1),
            ("channel", self.channel, spec.d - 1),
        ):
            if value > most:
                raise SpecError(f"--{self}: {name} {value} does not exist; allowed: 0 to {most}")

    def at(self, place: Place, name: str, x: Array) -> Array:
        """A stream (inputs, 1, 1, width, tokens) with the number set, if it is the one."""
        if place.depth(name) != self.depth:
            return x
        x = np.array(x)
        row = x[..., self.channel, :]
        row[..., self.token] = np.median(row, axis=-1) if self.value is None else self.value
        return x

    def elsewhere(
        self, spec: Transformer, tokens: int, rng: np.random.Generator
    ) -> Iterator[Setting]:
        """The same at another channel, another token, and both."""
        channel = int((self.channel + 1 + rng.integers(spec.d - 1)) % spec.d)
        token = int((self.token + 1 + rng.integers(tokens - 1)) % tokens)
        yield replace(self, channel=channel)
        yield replace(self, token=token)
        yield replace(self, token=token, channel=channel)


@dataclass(frozen=True)
class Ablation:
    """A head, or the MLP of a layer, that writes nothing; counted from 1."""

    layer: int
    head: int | None  # None: the MLP

    @classmethod
    def read(cls, text: str) -> Ablation:
        """As the command line has it: LAYER.HEAD or mlp:LAYER.

        >>> str(Ablation.read("3.7")), Ablation.read("mlp:2")
        ('ablate 3.7', Ablation(layer=2, head=None))
        """
        if found := _HEAD.fullmatch(text):
            return cls(int(found[1]), int(found[2]))
        if found := _MLP.fullmatch(text):
            return cls(int(found[1]), None)
        raise SpecError(
            f"--ablate {quote(text)} is not allowed; allowed: LAYER.HEAD or mlp:LAYER, counted "
            "from 1"
        )

    def __str__(self) -> str:
        return (
            f"ablate mlp:{self.layer}" if self.head is None else f"ablate {self.layer}.{self.head}"
        )

    def require(self, spec: Transformer, _tokens: int) -> None:
        """Refuse a place that there is not."""
        if not 1 <= self.layer <= spec.layers:
            raise SpecError(f"--{self}: no such layer; allowed: 1 to {spec.layers}")
        if self.head is None and spec.mlp == "none":
            raise SpecError(f"--{self}: the model has no MLPs; allowed: LAYER.HEAD")
        if self.head is not None and not 1 <= self.head <= spec.heads:
            raise SpecError(f"--{self}: no such head; allowed: 1 to {spec.heads}")
        if spec.share:
            raise SpecError(
                f"--{self}: all layers share their weights, so a single one cannot be ablated"
            )

    def at(self, place: Place, name: str, x: Array) -> Array:
        """What heads or an MLP write, replaced by zero if it is ablated."""
        point = "hook_mlp_out" if self.head is None else "attn.hook_z"
        if place.layer != self.layer or name != point:
            return x
        x = np.array(x)
        x[... if self.head is None else (slice(None), *divmod(self.head - 1, x.shape[2]))] = 0
        return x

    def elsewhere(
        self, spec: Transformer, _tokens: int, rng: np.random.Generator
    ) -> Iterator[Ablation]:
        """The same of another head of the layer, or of another layer."""
        key, here, count = (
            ("head", self.head, spec.heads) if self.head else ("layer", self.layer, spec.layers)
        )
        if count > 1:
            yield replace(self, **{key: (here + int(rng.integers(count - 1))) % count + 1})


@dataclass(frozen=True)
class Intervention:
    """Numbers that are set and parts that are ablated, together."""

    changes: tuple[Setting | Ablation, ...] = ()

    @classmethod
    def read(cls, settings: Sequence[str] = (), ablations: Sequence[str] = ()) -> Intervention:
        """As the command line has them."""
        return cls((*map(Setting.read, settings), *map(Ablation.read, ablations)))

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes))

    def require(self, spec: Transformer, tokens: int) -> None:
        """Refuse places that there are not."""
        for one in self.changes:
            one.require(spec, tokens)

    def at(self, place: Place, name: str, x: Array) -> Array:
        """The value at a point of a pass, with what is set or ablated there."""
        for one in self.changes:
            x = one.at(place, name, x)
        return x

    def controls(self, spec: Transformer, tokens: int, seed: int = 0) -> list[Intervention]:
        """The same at other places: another channel, another token, both; or another head.

        >>> from segre.models import architecture
        >>> spec = architecture("gpt2/d=8/layers=2/heads=2/ff=8/vocab=9/t=4")
        >>> [str(one) for one in Intervention.read(["1:0:3=median"]).controls(spec, 4)]
        ['set 1:0:1=median', 'set 1:2:3=median', 'set 1:2:1=median']
        """
        rng = np.random.default_rng(seed)
        every = (other for one in self.changes for other in one.elsewhere(spec, tokens, rng))
        return [Intervention((other,)) for other in every]


NOTHING = Intervention()
