"""Where the stream ends: hidden states, logits or probabilities, of a vocabulary or of labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from segre.transformer.choices.embedding import Embedding
from segre.transformer.choices.mlp import PIECEWISE

Output = Literal["hidden", "logits", "softmax"]
Read = Literal["all", "first", "last"]


@dataclass(frozen=True)
class Head(Embedding):
    """The choices of outputs."""

    logitcap: Fraction = Fraction(0)  # soft cap of the logits; 0 is none
    transform: bool = False  # a dense layer, an activation and a norm before the unembedding
    headnorm: bool = True  # that norm is there
    outbias: bool = False  # the unembedding has a bias
    pooler: bool = False  # tanh of a linear map of the first token: an output, or what labels read
    labels: int = 0  # logits are of so many labels, instead of the vocabulary; 0 is none
    read: Read = "all"  # from which tokens labels are read
    relation: int = 0  # labels of a second output, read from the pooled token; 0 is none
    output: Output = "hidden"

    @property
    def table_reads(self) -> bool:
        """Whether a tied table reads the stream directly, not through a linear map."""
        return self.tied and not self.transform and not self.project

    @property
    def shows_stream(self) -> bool:
        """Whether the output is the stream, with or without a last norm."""
        return self.output == "hidden" and not self.project

    @property
    def head_width(self) -> int:
        """The output width of the transform: that of the embedding table that follows."""
        return self.d if self.labels else self.embed or self.d

    @property
    def output_shape(self) -> tuple[int, int]:
        """Rows and columns of an output; a pooled token or its labels add one column."""
        if self.labels:
            return self.labels, self.t if self.read == "all" else 1
        hidden = self.embed if self.project else self.d
        return (hidden if self.output == "hidden" else self.vocab), self.t + self.pooler

    def rules(self) -> Iterator[str]:
        """Which choices contradict each other, one line each."""
        yield from super().rules()
        hidden = self.output == "hidden"
        if self.place == "after" and not hidden and not self.final:
            yield "place=after needs final=true before an unembedding"
        yield from self._without_vocabulary(hidden)
        if hidden and (self.tied or self.transform or self.outbias or self.logitcap):
            yield "tied, transform, outbias and logitcap need output=logits or softmax"
        if self.bias in ("norm", "mlp-norm"):
            yield from self.excludes(f"bias={self.bias}", {"transform": self.transform})
        yield from self._labels() if self.labels else self._no_labels()
        if self.relation:
            yield from self._relation()
        yield from self._tables()

    def _without_vocabulary(self, hidden: bool) -> Iterator[str]:
        """What matrices and patches as inputs exclude."""
        of_patches = ("transform", "logitcap") if self.patch else ()
        for key in of_patches if self.embedded else ("transform", "outbias", "pooler"):
            if getattr(self, key):
                yield f"{key} needs a vocabulary, for example vocab=11"
        if not self.embedded and (self.logitcap or (not hidden and not self.labels)):
            yield "embed, logitcap and output need a vocabulary, for example vocab=11"
        if self.patch:
            if self.layerscale and (not hidden or self.bias != "all"):
                yield "layerscale needs output=hidden and bias=all"
            if not hidden and not self.labels:
                yield f"output={self.output} with patch needs labels, for example labels=2"

    def _tables(self) -> Iterator[str]:
        """Choices of the tables before and after the layers together."""
        if self.project:
            keys = ("transform", "outbias", "pooler", "labels")
            yield from self.excludes("project", {key: getattr(self, key) for key in keys})
        if not self.project and self.tied and self.embed and not self.transform:
            yield "tied embeddings of another width need transform=true or project=true"
        if self.transform and (self.mlp in ("none", "bilinear") or self.norm == "none"):
            yield "transform needs a norm and an MLP whose activation it shares"
        smooth = self.transform and self.labels and self.mlp not in PIECEWISE
        if not self.headnorm and not smooth:
            yield "headnorm=false needs transform=true, labels, and a smooth activation"
        absorbed = self.gain and (self.final or self.transform)
        if self.embscale and self.tied and not absorbed:
            yield "embscale with tied tables needs a norm with gains before the output"

    def _no_labels(self) -> Iterator[str]:
        if self.read != "all":
            yield f"read={self.read} needs labels, for example labels=2"
        if self.pooler and self.output != "hidden" and not self.relation:
            yield "pooler needs output=hidden, labels or relation"

    def _labels(self) -> Iterator[str]:
        if not self.embedded:
            yield "labels need a vocabulary (vocab=11) or patches (patch=12)"
        if self.output == "hidden":
            yield "labels need output=logits or softmax"
        for key in ("tied", "logitcap", "relation"):
            if getattr(self, key):
                yield f"{key} cannot be combined with labels"
        if self.transform and self.pooler:
            yield "pooler cannot be combined with transform and labels"
        if self.pooler and self.read != "first":
            yield f"read={self.read} cannot be combined with pooler; allowed: first"
        if self.read == "first" and self.causal:
            yield "read=first needs causal=false: the first token would see only itself"
        learned = self.pos == "learned"
        if self.read == "last" and self.window and learned:
            yield "read=last with window cannot be combined with pos=learned"
        if not self.normed_at_end:
            yield "labels need a norm before them: final=true or place=post"
        if self.read != "all" and self.latent and learned:
            yield f"read={self.read} with latent attention cannot be combined with pos=learned"
        if self.labels == 1 and self.output == "softmax":
            yield "labels=1 needs output=logits: the softmax of one label is constant"

    def _relation(self) -> Iterator[str]:
        if not self.pooler or not self.transform or self.causal:
            yield "relation needs pooler=true, transform=true and causal=false"
        if not 2 <= self.relation <= self.vocab:
            yield f"relation: {self.relation} is not allowed; allowed: 2 to vocab"
