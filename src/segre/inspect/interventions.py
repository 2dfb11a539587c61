"""What if one number were different, or one head or MLP were gone?

Both are hooks of a pass: numbers of the stream are set, and what heads and MLPs write is replaced
by zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
        return f"{self.depth}:{self.token}:{self.channel}={value}"

    def require(self, spec: Transformer, tokens: int) -> None:
        """Refuse a place that there is not."""
        for name, value, most in (
            ("depth", self.depth, spec.layers),
            ("token", self.token, tokens - 1),
            ("channel", self.channel, spec.d - 1),
        ):
            if value > most:
                raise SpecError(
                    f"--set {self}: {name} {value} does not exist; allowed: 0 to {most}"
                )

    def apply(self, x: Array) -> None:
        """Set it in a stream (inputs, 1, 1, width, tokens), in place."""
        row = x[..., self.channel, :]
        value = np.median(row, axis=-1) if self.value is None else self.value
        row[..., self.token] = value


@dataclass(frozen=True)
class Ablation:
    """A head, or the MLP of a layer, that writes nothing; counted from 1."""

    layer: int
    head: int | None  # None: the MLP

    @classmethod
    def read(cls, text: str) -> Ablation:
        """As the command line has it: LAYER.HEAD or mlp:LAYER.

        >>> str(Ablation.read("3.7")), Ablation.read("mlp:2")
        ('3.7', Ablation(layer=2, head=None))
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
        return f"mlp:{self.layer}" if self.head is None else f"{self.layer}.{self.head}"

    def require(self, spec: Transformer) -> None:
        """Refuse a place that there is not."""
        if not 1 <= self.layer <= spec.layers:
            raise SpecError(f"--ablate {self}: no such layer; allowed: 1 to {spec.layers}")
        if self.head is None and spec.mlp == "none":
            raise SpecError(f"--ablate {self}: the model has no MLPs; allowed: LAYER.HEAD")
        if self.head is not None and not 1 <= self.head <= spec.heads:
            raise SpecError(f"--ablate {self}: no such head; allowed: 1 to {spec.heads}")
        if spec.share:
            raise SpecError(
                f"--ablate {self}: all layers share their weights, so a single one "
                "cannot be ablated"
            )


@dataclass(frozen=True)
class Intervention:
    """Numbers that are set and parts that are ablated, together."""

    settings: tuple[Setting, ...] = ()
    ablations: tuple[Ablation, ...] = ()

    @classmethod
    def read(cls, settings: Sequence[str] = (), ablations: Sequence[str] = ()) -> Intervention:
        """As the command line has them."""
        return cls(tuple(map(Setting.read, settings)), tuple(map(Ablation.read, ablations)))

    def __bool__(self) -> bool:
        return bool(self.settings or self.ablations)

    def __str__(self) -> str:
        return ", ".join(
            (*(f"set {one}" for one in self.settings), *(f"ablate {one}" for one in self.ablations))
        )

    def require(self, spec: Transformer, tokens: int) -> None:
        """Refuse places that there are not."""
        for setting in self.settings:
            setting.require(spec, tokens)
        for ablation in self.ablations:
            ablation.require(spec)

    def at(self, place: Place, name: str, x: Array) -> Array:
        """The value at a point of a pass, with what is set or ablated there."""
        depth = place.depth(name)
        if any(one.depth == depth for one in self.settings):
            x = np.array(x)
            for setting in self.settings:
                if setting.depth == depth:
                    setting.apply(x)
        for one in self.ablations:
            if one.layer == place.layer and one.head is None and name == "hook_mlp_out":
                x = np.zeros_like(x)
            elif one.layer == place.layer and one.head is not None and name == "attn.hook_z":
                x = np.array(x)
                x[:, *divmod(one.head - 1, x.shape[2])] = 0
        return x

    def controls(self, spec: Transformer, tokens: int, seed: int = 0) -> list[Intervention]:
        """The same at other places: another channel, another token, both; or another head.

        >>> from segre.models import architecture
        >>> spec = architecture("gpt2/d=8/layers=2/heads=2/ff=8/vocab=9/t=4")
        >>> [str(one) for one in Intervention.read(["1:0:3=median"]).controls(spec, 4)]
        ['set 1:0:1=median', 'set 1:2:3=median', 'set 1:2:1=median']
        """
        rng = np.random.default_rng(seed)
        out: list[Intervention] = []
        for one in self.settings:
            channel = int((one.channel + 1 + rng.integers(spec.d - 1)) % spec.d)
            token = int((one.token + 1 + rng.integers(tokens - 1)) % tokens)
            places = ((one.token, channel), (token, one.channel), (token, channel))
            out += [Intervention((replace(one, token=t, channel=c),)) for t, c in places]
        for ablation in self.ablations:
            if ablation.head is not None and spec.heads > 1:
                other = (ablation.head + int(rng.integers(spec.heads - 1))) % spec.heads + 1
                out.append(Intervention((), (replace(ablation, head=other),)))
            elif ablation.head is None and spec.layers > 1:
                other = (ablation.layer + int(rng.integers(spec.layers - 1))) % spec.layers + 1
                out.append(Intervention((), (replace(ablation, layer=other),)))
        return out


NOTHING = Intervention()
