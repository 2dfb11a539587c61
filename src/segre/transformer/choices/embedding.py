"""Where the stream begins: token tables, narrow embeddings, patches, or bare inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from segre.transformer.choices.mlp import Mlp


@dataclass(frozen=True)
class Embedding(Mlp):
    """The choices of inputs and of how they enter the stream."""

    vocab: int = 0
    tied: bool = False
    types: int = 0  # token types
    embed: int = 0  # width of the embeddings, with a linear map to d; 0 is d, without
    project: bool = False  # such embeddings get positions after the map; outputs are mapped back
    embnorm: bool = False  # a norm after the embeddings
    firstnorm: bool = True  # where norms come before: one before the first attention too
    embscale: bool = False  # embeddings are multiplied by the square root of d
    patch: int = 0  # entries of a patch: inputs are patches, mapped to d; 0 is none
    masked: bool = False  # a token for masked patches, a weight that nothing reads
    layerscale: bool = False  # what a sublayer writes is multiplied by a vector
    cls: bool = False  # the first token is a weight, and not read from the input

    @property
    def discrete(self) -> bool:
        """Whether inputs are token sequences."""
        return self.vocab > 0

    @property
    def embedded(self) -> bool:
        """Whether the stream begins with weights: token tables, or a map of patches."""
        return self.discrete or self.patch > 0

    @property
    def width_in(self) -> int:
        """Rows of an input: d, a patch, or the vocabulary and the types (one-hot in each)."""
        return self.vocab + self.types if self.discrete else self.patch or self.d

    def normed_at(self, layer: int, number: int) -> bool:
        """Whether a norm comes before attention (number 1) or MLP (2) of a layer (from 1)."""
        return self.normed_before and (self.firstnorm or (layer, number) != (1, 1))

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        if self.norm == "none" and (self.place != "pre" or self.final or self.embnorm):
            yield "place, final and embnorm need a norm: norm=rms or norm=layer"
        if not self.discrete:
            for key in ("tied", "embnorm", "embscale", "types"):
                if getattr(self, key):
                    yield f"{key} needs a vocabulary, for example vocab=11"
            needs = "embed, logitcap and output need a vocabulary, for example vocab=11"
            if self.embed:
                yield needs
        if self.bias in ("norm", "mlp-norm"):
            wrong = {key: getattr(self, key) for key in ("patch", "embnorm", "types")}
            yield from self.excludes(f"bias={self.bias}", wrong)
            if self.embed and not self.project:
                yield f"embed with bias={self.bias} needs project=true"
        if self.skip != 1 and self.project:
            yield "skip needs norm=rms, place=post, bias=none and project=false"
        if not self.firstnorm:
            yield from self._no_first_norm()
        if self.project:
            yield from self._project()
        yield from self._patches()

    def _no_first_norm(self) -> Iterator[str]:
        """A first attention without a norm reads the normed embeddings."""
        if self.norm == "none" or self.place != "pre" or not self.embnorm or self.embed:
            yield "firstnorm=false needs norms before the layers and embnorm=true"
        wrong = {
            "bias": self.bias != "none",
            "share": self.share,
            "parallel": self.parallel,
            "residual": not self.residual,
        }
        yield from self.excludes("firstnorm=false", wrong)

    def _project(self) -> Iterator[str]:
        """Narrow embeddings are projected to the stream and back; positions are added there."""
        if not 0 < self.embed < self.d:
            yield "project needs embed, less than d, for example embed=4"
        if self.pos != "learned" or not self.normed_at_end:
            yield "project needs pos=learned, and a last norm: final=true or place=post"
        wrong = {key: getattr(self, key) for key in ("types", "embnorm", "embscale", "share")}
        wrong |= {"place": self.place not in ("pre", "post"), "residual": not self.residual}
        yield from self.excludes("project", wrong)

    def _patches(self) -> Iterator[str]:
        if not self.patch:
            if self.cls:
                yield "cls needs patch, for example patch=12"
            needs = "masked and layerscale need patch, for example patch=12"
            if self.masked or self.layerscale:
                yield needs
            return
        wrong = {
            "vocab": self.discrete,
            "norm": self.norm == "none",
            "place": self.place != "pre",
            "final": not self.final,
            "residual": not self.residual,
            "pos": self.pos != "learned",
            "kvrank": self.latent,
        }
        wrong |= {
            key: bool(getattr(self, key))
            for key in ("offset", "causal", "parallel", "share", "qknorm", "experts")
        }
        yield from self.excludes("patch", wrong)
