"""For which design choices is there a normal form?

Architectures with symmetries that the code does not remove are refused by the name of the design
choice, not by family.
"""

from __future__ import annotations

from collections.abc import Iterator

from segre.errors import CheckpointError, UnsupportedError
from segre.transformer.by_layer import every
from segre.transformer.spec import Transformer


def joint(spec: Transformer) -> bool:
    """Whether the first readers of the stream are those of all layers."""
    return spec.share and spec.layers > 1


def require_normal_form(spec: Transformer) -> None:
    """Refuse an architecture that cannot be reduced, and so cannot be compared or shrunk."""
    for choice, what in _missing(spec):
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


def _missing(spec: Transformer) -> Iterator[tuple[str, str]]:
    """The unsupported choices, each with a description."""
    if spec.experts and (spec.norm != "rms" or spec.place != "pre"):
        yield "experts", "routed experts without RMSNorms before them"
    if spec.experts and spec.active == 1 and not spec.router.endswith("-raw"):
        yield "active", "a single active expert, whose share is always 1"
    if spec.latent and (spec.norm != "rms" or spec.place != "pre" or not spec.eps):
        yield "kvrank", "latent attention without RMSNorms before it, or with eps=0"
    if spec.latent and max(spec.kvrank, spec.qrank) > spec.d:
        yield "kvrank", "latents wider than the stream"
    known = spec.norm == "layer" and spec.place == "post" and spec.embnorm and spec.bias == "all"
    if spec.bias in ("norm", "mlp-norm"):
        yield "bias", "norms with biases before linear maps without"
    if spec.share and not (spec.embed and known):
        yield "share", "layers that share their weights, except in ALBERT"
    if spec.sharedgate:
        yield "sharedgate", "shared experts with a gate"
    if spec.skip != 1:
        yield "skip", "skips with a factor"
    if spec.feature != "none":
        yield "feature", "queries, keys and values through a feature map"
    if spec.gate != "none":
        yield "gate", "heads with gates"
    if spec.project:
        yield "project", "outputs mapped back to the width of the embeddings"
    if spec.embed and not known:
        yield "embed", "embeddings of another width without a norm, or norms after the skips"
    narrow = max(spec.head, spec.dv) < spec.embed <= spec.d
    if spec.embed and not joint(spec) and not narrow:
        yield "embed", "embeddings wider than the stream, or no wider than a head"
    if spec.labels and spec.place == "post" and not (spec.outbias or spec.pooler):
        yield "outbias", "labels without biases after a norm of the stream"
    if spec.qknorm and (spec.still or 0 in every(spec.base, spec.layers)):
        yield "qknorm", "norms of partially rotary queries and keys"
    # one layer of attention on matrices: nothing but its heads and biases is free
    bare = spec.layers == 1 and spec.mlp == "none" and spec.norm == "none" and not spec.embedded
    if not bare and not (spec.norm != "none" and spec.gain and spec.residual):
        yield "norm", "models without norms, without gains or without skips"
    # a table of tokens that is read at the end too may let no gain of its norm be absorbed
    alone = spec.tied and spec.transform and spec.pos != "learned" and not spec.types
    kept = alone and spec.norm == "layer" and spec.bias == "none"
    if spec.embnorm and spec.place != "post" and not kept:
        yield "embnorm", "normed embeddings before pre-norm layers, except with tied tables only"
    if spec.place == "post" and spec.embedded and not spec.embnorm and not spec.tied:
        yield "place", "post-norms with embeddings that are neither normed nor tied"
    if spec.place == "pre" and spec.embedded and spec.norm != "none" and not spec.final:
        yield "final", "an output that is read from the stream without a norm"
    if spec.normed_inside and (spec.norm == "layer" or not spec.eps):
        yield "place", "LayerNorms of sublayer outputs, or norms of sublayer outputs with eps=0"
