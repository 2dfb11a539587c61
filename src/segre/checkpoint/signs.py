"""Sign symmetries of norms: the output of a norm may change sign if all its readers do.

With post-norms, the stream has a free sign between any two norms: a gain and a bias change it, the
readers and writers in between follow, and the next gain changes it back. Where
hidden states are the output, the stream before the last norm may have either sign, and with
RMSNorms each of its coordinates; the last gain takes it back. The tables before a norm of the
embeddings may change theirs with its gain; a tied table then changes it with the gain before the
words.

The normal form has gains with positive sums (with RMSNorms, a positive last gain).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from segre.checkpoint.alignment import StreamAlignment
from segre.checkpoint.flips import unsure
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.served import joint
from segre.fields.interface import Array
from segre.symmetry.wiring import readers, writer_bias, writers
from segre.transformer.spec import Transformer
from segre.transformer.tensors import part_shapes, parts

Signs = dict[str, Array]  # by norm; of the whole stream: "stream"
NEAR = 4  # gains of so many rounding errors may have either sign, and are left as they are
_TABLES = ("tokens", "positions", "types")


def chosen_signs(model: Model) -> dict[str, Signs]:
    """By part, the signs that the normal form removes."""
    spec = model.spec
    out: dict[str, Signs] = {part: {} for part in model.parts}
    if not (spec.gain and spec.norm != "none"):
        return out
    for part, norm in _flipped(spec):
        gain = model.part(part, [f"{norm}.gain"])[f"{norm}.gain"]
        out[part][norm] = _sign(gain)
    if _seen(spec):
        part, norm = _last(spec)
        gain = model.part(part, [f"{norm}.gain"])[f"{norm}.gain"]
        if spec.norm == "rms":
            sure = ~unsure(gain, NEAR * model.roundoff())
            out["embed"]["stream"] = np.where(sure & (gain < 0), -1.0, 1.0)
        else:
            others = [sign for signs in out.values() for sign in signs.values()]
            out["embed"]["stream"] = _sign(gain) * np.prod(others)
    return out


def lost_signs(model: Model) -> str | None:
    """Special points at which rounding may have changed the sign of a gain that fixes a sign."""
    spec = model.spec
    if not (spec.gain and spec.norm == "rms" and _seen(spec)):
        return None
    part, norm = _last(spec)
    gain = model.part(part, [f"{norm}.gain"])[f"{norm}.gain"]
    if not unsure(gain, NEAR * model.roundoff()).any():
        return None
    return "a gain of the last norm is so small that rounding can change its sign"


def _sign(gain: Array) -> Array:
    return np.array([[-1.0 if gain.sum() < 0 else 1.0]])


def _seen(spec: Transformer) -> bool:
    """Whether a last norm stands between the stream and hidden states as the output."""
    last = spec.final or (spec.place == "post" and spec.norm == "layer" and not joint(spec))
    return spec.output == "hidden" and spec.embedded and last


def _last(spec: Transformer) -> tuple[str, str]:
    """The norm that puts out hidden states."""
    if spec.final:
        return "head", "norm"
    return parts(spec)[-2], "post1" if spec.mlp == "none" else "post2"


def _flipped(spec: Transformer) -> Iterator[tuple[str, str]]:
    """Norms of the stream whose sign is free, except the last."""
    if spec.norm != "layer":
        return
    if spec.embnorm and not spec.embed and (spec.place == "post" or spec.tied):
        yield "embed", "norm"
    if spec.place == "post":
        for part in parts(spec)[1:-1]:
            for norm in ("post1", "post2"):
                if f"{norm}.gain" in part_shapes(spec, part) and (part, norm) != _last(spec):
                    yield part, norm


@dataclass
class StreamSigns:
    """Changes signs, part by part; what is done twice is undone."""

    spec: Transformer
    stream: Array = field(default_factory=lambda: np.ones((1, 1)))  # of the stream, so far
    tables: Array | None = None  # of a tied table

    def apply(self, part: str, w: Tensors, signs: Signs) -> None:
        """Change signs of tensors of a part, in place."""
        if self.spec.place == "post":
            self._after_skips(part, w, signs)
            return
        if part == "embed":
            self.stream = signs.get("stream", self.stream)
            self.tables = signs.get("norm")
            if self.tables is not None:
                self._multiply(w, ("tokens", "norm.gain"), self.tables)
        if part == "head":
            if self.spec.output == "hidden":
                self._multiply(w, ("norm.gain",), self.stream)
            if self.tables is not None:
                self._multiply(w, ("normT.gain", "normT.bias"), self.tables)
        elif (self.stream != 1).any():
            every = np.broadcast_to(self.stream[:, 0], self.spec.d).copy()
            StreamAlignment(np.arange(self.spec.d), every).apply(self.spec, part, w)

    def _after_skips(self, part: str, w: Tensors, signs: Signs) -> None:
        if part == "embed":
            tables = signs.get("stream", np.ones((1, 1)))
            self.stream = tables
            self._multiply(w, ("W_E", "b_E") if self.spec.embed else _TABLES, tables)
            if "norm" in signs:
                self.stream = tables * signs["norm"]
                self._multiply(w, ("norm.gain",), signs["norm"])
                self._multiply(w, ("norm.bias",), self.stream)
        elif part != "head":
            for number, kind in ((1, "attention"), (2, "mlp")):
                if kind == "attention" or self.spec.mlp != "none":
                    self._sublayer((part, kind), f"post{number}", w, signs)

    def _sublayer(self, end: tuple[str, str], norm: str, w: Tensors, signs: Signs) -> None:
        bias = writer_bias(self.spec, end)
        names = [*(reader.weight for reader in readers(self.spec, end)), *writers(self.spec, end)]
        self._multiply(w, (*names, *([bias] if bias else [])), self.stream)
        if norm in signs:
            self._multiply(w, (f"{norm}.gain",), signs[norm])
            self.stream = self.stream * signs[norm]
            self._multiply(w, (f"{norm}.bias",), self.stream)
        else:
            self._multiply(w, (f"{norm}.gain",), self.stream)
            self.stream = np.ones((1, 1))

    @staticmethod
    def _multiply(w: Tensors, names: tuple[str, ...], by: Array) -> None:
        if (by != 1).any():
            w.update({name: w[name] * by for name in names if name in w})
