"""For which design choices is there a normal form?

Architectures with symmetries that the code does not remove are refused by the name of the design
choice, not by family.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from segre.errors import CheckpointError, UnsupportedError
from segre.transformer.by_layer import every
from segre.transformer.spec import Transformer


def joint(spec: Transformer) -> bool:
    """Whether the first readers of the stream are those of all layers."""
    return spec.share and spec.layers > 1


def require_normal_form(spec: Transformer) -> None:
    """Refuse an architecture that cannot be reduced, and so cannot be compared or shrunk."""
    missing = _missing_in_layers(spec), _missing_at_the_ends(spec), _missing_norms(spec)
    for choice, what in chain(*missing):
        raise UnsupportedError(f"{choice}: the normal form is not implemented for {what}")
    if spec.mlp in ("bilinear", "reglu"):
        raise CheckpointError(
            f"MLPs of kind {spec.mlp}: the normal form is not implemented for them; allowed: "
            "gelu, silu, relu and gates of gelu or silu"
        )
    if max(spec.head, spec.dv) > spec.d:
        raise CheckpointError(
            f"heads of {max(spec.head, spec.dv)} dimensions are wider than the stream of "
            f"{spec.d}; the normal form is not implemented for such models"
        )
    if spec.latent and max(spec.head, spec.dv) > min(spec.kvrank, spec.qrank or spec.d):
        raise CheckpointError(
            f"heads of {max(spec.head, spec.dv)} dimensions are wider than the latents they read; "
            "the normal form is not implemented for such models"
        )


def _missing_in_layers(spec: Transformer) -> Iterator[tuple[str, str]]:
    """The unsupported choices inside layers, each with a description."""
    pre = spec.norm == "rms" and spec.place == "pre"
    if spec.experts and not pre:
        yield "experts", "routed experts without RMSNorms before them"
    if spec.experts and spec.active == 1 and not spec.router.endswith("-raw"):
        yield "active", "a single active expert, whose share is always 1"
    if spec.latent and not (pre and spec.eps):
        yield "kvrank", "latent attention without RMSNorms before it, or with eps=0"
    if spec.latent and max(spec.kvrank, spec.qrank) > spec.d:
        yield "kvrank", "latents wider than the stream"
    if spec.bias in ("norm", "mlp-norm"):
        yield "bias", "norms with biases before linear maps without"
    if spec.share and not (spec.embed and _normed_throughout(spec)):
        yield "share", "layers that share their weights, except in ALBERT"
    if spec.sharedgate:
        yield "sharedgate", "shared experts with a gate"
    if spec.skip != 1:
        yield "skip", "skips with a factor"
    if spec.feature != "none":
        yield "feature", "queries, keys and values through a feature map"
    if spec.gate != "none":
        yield "gate", "heads with gates"


def _missing_at_the_ends(spec: Transformer) -> Iterator[tuple[str, str]]:
    """The same of embeddings and heads."""
    if spec.project:
        yield "project", "outputs mapped back to the width of the embeddings"
    if spec.embed and not _normed_throughout(spec):
        yield "embed", "embeddings of another width without a norm, or norms after the skips"
    narrow = max(spec.head, spec.dv) < spec.embed <= spec.d
    if spec.embed and not joint(spec) and not narrow:
        yield "embed", "embeddings wider than the stream, or no wider than a head"
    if spec.labels and spec.place == "post" and not (spec.outbias or spec.pooler):
        yield "outbias", "labels without biases after a norm of the stream"


def _missing_norms(spec: Transformer) -> Iterator[tuple[str, str]]:
    """The same of norms."""
    if spec.qknorm and (spec.still or 0 in every(spec.base, spec.layers)):
        yield "qknorm", "norms of partially rotary queries and keys"
    # one layer of attention on matrices: nothing but its heads and biases is free
    bare = spec.layers == 1 and spec.mlp == "none" and spec.norm == "none" and not spec.embedded
    if not bare and not (spec.norm != "none" and spec.gain and spec.residual):
        yield "norm", "models without norms, without gains or without skips"
    if spec.embnorm and spec.place != "post" and not _keeps_its_embeddings(spec):
        yield "embnorm", "normed embeddings before pre-norm layers, except with tied tables only"
    plain = spec.embedded and not spec.embnorm and not spec.tied
    if spec.place == "post" and plain:
        yield "place", "post-norms with embeddings that are neither normed nor tied"
    if spec.place == "pre" and spec.embedded and spec.norm != "none" and not spec.final:
        yield "final", "an output that is read from the stream without a norm"
    if spec.normed_inside and (spec.norm == "layer" or not spec.eps):
        yield "place", "LayerNorms of sublayer outputs, or norms of sublayer outputs with eps=0"


def _keeps_its_embeddings(spec: Transformer) -> bool:
    """Whether the table of tokens, read at the end too, lets no gain of its norm be absorbed."""
    alone = spec.pos != "learned" and not spec.types
    return spec.tied and spec.transform and spec.norm == "layer" and spec.bias == "none" and alone


def _normed_throughout(spec: Transformer) -> bool:
    """Whether LayerNorms follow the embeddings and all skips, and everything has biases."""
    normed = spec.norm == "layer" and spec.place == "post" and spec.embnorm
    return normed and spec.bias == "all"
