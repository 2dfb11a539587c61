"""Which choices contradict each other? Each is refused in one line that names the key."""

from __future__ import annotations

from segre.errors import SpecError
from segre.spec import DEEPEST
from segre.transformer.choices import PIECEWISE
from segre.transformer.rescale import rescale
from segre.transformer.traits import Traits
from segre.values import show, whole


def require(spec: Traits) -> None:
    """Refuse contradictory choices, naming the key and what would be allowed."""
    for key in ("d", "layers", "heads", "t"):
        whole(key, getattr(spec, key), DEEPEST if key == "layers" else 10**9)
    if spec.head == 0:
        raise SpecError(
            f"heads: {spec.heads} does not divide d={spec.d}; give head, for example head=2"
        )
    if spec.heads % spec.kv:
        raise SpecError(f"kv: {spec.kv} does not divide heads={spec.heads}; allowed: a divisor")
    if spec.pos == "rope" and (spec.rotary % 2 or spec.rotary < 2):
        raise SpecError(f"rotary: {spec.rotary} is not allowed; allowed: even numbers from 2")
    if spec.pos == "rope" and not spec.latent and spec.rotary > spec.head:
        raise SpecError(
            f"rotary: {spec.rotary} is more than head={spec.head}; allowed: at most head"
        )
    _require_rotations(spec)
    if spec.bias in ("norm", "mlp-norm"):
        _require_norm_biases(spec)
    if not spec.firstnorm:
        _require_first_norm(spec)
    _require_absorbed(spec)
    _require_parallel(spec)
    if spec.pos == "learned" and spec.positions < spec.offset + spec.t:
        first = f" after the first {spec.offset}" if spec.offset else ""
        raise SpecError(f"positions: {spec.positions} is less than t={spec.t}{first}")
    if spec.pos != "learned" and spec.offset:
        raise SpecError("offset needs pos=learned")
    if spec.pos != "learned" and spec.positions:
        raise SpecError("positions needs pos=learned")
    if (spec.mlp != "none") != (spec.ff > 0 or spec.experts > 0):
        raise SpecError(
            f"ff: {spec.ff} cannot be combined with mlp={spec.mlp}; give both hidden units (ff=8) "
            "and an MLP (mlp=gelu), or neither"
        )
    if spec.norm == "none" and (spec.place != "pre" or spec.final or spec.embnorm):
        raise SpecError("place, final and embnorm need a norm: norm=rms or norm=layer")
    inner = spec.qknorm or spec.latent or spec.mixnorm
    if spec.norm == "none" and not inner and spec.eps:
        raise SpecError("eps needs a norm: norm=rms or norm=layer")
    if spec.place == "post" and spec.final:
        raise SpecError(
            "final=true cannot be combined with place=post: the last layer already ends with a norm"
        )
    if spec.place == "after" and spec.norm == "layer":
        raise SpecError("place=after needs norm=rms")
    if spec.place == "after" and spec.output != "hidden" and not spec.final:
        raise SpecError("place=after needs final=true before an unembedding")
    if spec.place != "pre" and not spec.residual:
        raise SpecError(f"place={spec.place} needs residual=true")
    _require_patches(spec)
    if not spec.discrete:
        of_patches = ("outbias", "pooler") if spec.patch else ()
        for key in ("tied", "embnorm", "embscale", "transform", "outbias", "pooler", "types"):
            if getattr(spec, key) and key not in of_patches:
                raise SpecError(f"{key} needs a vocabulary, for example vocab=11")
        if spec.embed or spec.logitcap or (spec.output != "hidden" and not spec.patch):
            raise SpecError("embed, logitcap and output need a vocabulary, for example vocab=11")
    if spec.output == "hidden" and (spec.tied or spec.transform or spec.outbias or spec.logitcap):
        raise SpecError("tied, transform, outbias and logitcap need output=logits or softmax")
    _require_labels(spec)
    if spec.project:
        _require_projection(spec)
    elif spec.tied and spec.embed and not spec.transform:
        raise SpecError("tied embeddings of another width need transform=true or project=true")
    if spec.transform and (spec.mlp in ("none", "bilinear") or spec.norm == "none"):
        raise SpecError("transform needs a norm and an MLP whose activation it shares")
    if not spec.headnorm and not (spec.transform and spec.labels and spec.mlp not in PIECEWISE):
        raise SpecError("headnorm=false needs transform=true, labels, and a smooth activation")
    if spec.embscale and spec.tied and not (spec.gain and (spec.final or spec.transform)):
        raise SpecError("embscale with tied tables needs a norm with gains before the output")
    if spec.by_mechanism:
        _require_mechanisms(spec)
    if spec.latent:
        for key, wrong in (
            ("qknorm", spec.qknorm),
            ("kv", spec.kv != spec.heads),
            ("bias", spec.bias != "none"),
            ("cap", spec.cap),
            ("attn", not spec.mechanism.sums_to_one),
            ("gate", spec.gate != "none"),
            ("feature", spec.feature != "none"),
            ("mixnorm", spec.mixnorm),
        ):
            if wrong:
                raise SpecError(f"{key} cannot be combined with latent attention (kvrank)")
    elif spec.qrank:
        raise SpecError("qrank needs kvrank: the two are the ranks of latent attention")
    if not spec.by_mechanism:
        _require_scores(spec)
    if spec.mixnorm and spec.gate != "element":
        raise SpecError("mixnorm needs gate=element, and heads of more than one dimension")
    if spec.mixeps and not spec.mixnorm:
        raise SpecError("mixeps needs mixnorm=true")
    if spec.decay != "none" and (spec.gate != "element" or not spec.causal):
        raise SpecError("decay needs causal=true and gate=element")
    if spec.skip != 1:
        _require_skip(spec)
    if spec.experts:
        if not spec.gated or not 0 < spec.active <= spec.experts or not spec.eff:
            raise SpecError("experts need a gated mlp, active (1 to experts) and eff")
        if spec.dense and not spec.ff:
            raise SpecError("dense layers need ff")
        if spec.groups or spec.within:
            _require_groups(spec)
    elif spec.active or spec.shared or spec.eff or spec.dense:
        raise SpecError("active, shared, eff and dense need experts")
    elif spec.router != "sigmoid" or spec.groups or spec.within:
        raise SpecError("router, groups and within need experts")
    if spec.sharedgate and not spec.shared:
        raise SpecError("sharedgate needs shared, for example shared=8")
    if (spec.mlp == "clamped") != bool(spec.limit):
        raise SpecError("mlp=clamped needs limit, for example limit=7, and limit needs mlp=clamped")
    if spec.expbias and not (spec.experts and spec.norm == "rms" and not spec.shared):
        raise SpecError("expbias needs experts, norm=rms and shared=0")


def _require_scores(spec: Traits) -> None:
    """Choices that depend on the mechanism of all layers."""
    if spec.cap and not spec.mechanism.ignores_shifts:
        raise SpecError("cap needs attn=softmax")
    if spec.sinks and not spec.mechanism.ignores_shifts:
        raise SpecError("sinks need attn=softmax")
    if spec.qknorm and not spec.mechanism.ignores_shifts:
        raise SpecError("qknorm needs attn=softmax")
    bilinear = spec.mechanism.linear
    if spec.feature != "none" and (not bilinear or spec.pos == "rope"):
        raise SpecError("feature needs attn=lightning, and not pos=rope")
    if spec.decay != "none" and (not bilinear or spec.pos == "rope" or spec.window):
        raise SpecError("decay needs attn=lightning, and neither pos=rope nor window")


def _require_skip(spec: Traits) -> None:
    """A factor of the skip needs post-norm with RMSNorms."""
    if not spec.skip:
        raise SpecError("skip: 0 is not allowed; allowed: numbers above 0, or residual=false")
    if spec.norm != "rms" or spec.place != "post" or spec.bias != "none" or spec.project:
        raise SpecError("skip needs norm=rms, place=post, bias=none and project=false")


def _require_mechanisms(spec: Traits) -> None:
    """Layers of both mechanisms: lightning layers are as in MiniMax, softmax layers are plain."""
    if spec.feature == "none" or not spec.mixnorm or spec.gate != "element":
        raise SpecError("attn by layer needs feature=silu, gate=element and mixnorm=true")
    if spec.norm != "rms" or spec.place not in ("pre", "post"):
        raise SpecError("attn by layer needs norm=rms, and place=pre or post")
    for key, wrong in (
        ("pos", spec.pos == "learned"),
        ("kvrank", spec.latent),
        *((key, getattr(spec, key)) for key in ("share", "parallel", "sinks", "cap", "qknorm")),
        ("bias", spec.bias != "none"),
        ("t", spec.t == 1),
    ):
        if wrong:
            raise SpecError(
                f"{key}={show(getattr(spec, key))} cannot be combined with attn by layer"
            )


def _require_patches(spec: Traits) -> None:
    """Choices that depend on patches as inputs."""
    if spec.cls and not spec.patch:
        raise SpecError("cls needs patch, for example patch=12")
    if not spec.patch:
        if spec.masked or spec.layerscale:
            raise SpecError("masked and layerscale need patch, for example patch=12")
        return
    if spec.layerscale and (spec.output != "hidden" or spec.bias != "all"):
        raise SpecError("layerscale needs output=hidden and bias=all")
    for key, wrong in (
        ("vocab", spec.discrete),
        ("norm=none", spec.norm == "none"),
        (f"place={spec.place}", spec.place != "pre"),
        ("final=false", not spec.final),
        ("residual=false", not spec.residual),
        (f"pos={spec.pos}", spec.pos != "learned"),
        ("offset", spec.offset),
        ("causal=true", spec.causal),
        ("parallel=true", spec.parallel),
        ("share=true", spec.share),
        ("qknorm", spec.qknorm),
        ("kvrank", spec.latent),
        ("experts", spec.experts),
    ):
        if wrong:
            raise SpecError(f"{key} cannot be combined with patch")
    if spec.output != "hidden" and not spec.labels:
        raise SpecError(f"output={spec.output} with patch needs labels, for example labels=2")


def _require_labels(spec: Traits) -> None:
    """Choices that depend on labels."""
    if not spec.labels and spec.read != "all":
        raise SpecError(f"read={spec.read} needs labels, for example labels=2")
    if spec.pooler and spec.output != "hidden" and not spec.labels and not spec.relation:
        raise SpecError("pooler needs output=hidden, labels or relation")
    if spec.labels:
        if not spec.embedded:
            raise SpecError("labels need a vocabulary (vocab=11) or patches (patch=12)")
        if spec.output == "hidden":
            raise SpecError("labels need output=logits or softmax")
        for key in ("tied", "logitcap", "relation"):
            if getattr(spec, key):
                raise SpecError(f"{key} cannot be combined with labels")
        if spec.transform and spec.pooler:
            raise SpecError("pooler cannot be combined with transform and labels")
        if spec.pooler and spec.read != "first":
            raise SpecError(f"read={spec.read} cannot be combined with pooler; allowed: first")
        if spec.read == "first" and spec.causal:
            raise SpecError("read=first needs causal=false: the first token would see only itself")
        if spec.read == "last" and spec.window and spec.pos == "learned":
            raise SpecError("read=last with window cannot be combined with pos=learned")
        if not (spec.final or spec.place == "post"):
            raise SpecError("labels need a norm before them: final=true or place=post")
        if spec.read != "all" and spec.latent and spec.pos == "learned":
            raise SpecError(
                f"read={spec.read} with latent attention cannot be combined with pos=learned"
            )
        if spec.labels == 1 and spec.output == "softmax":
            raise SpecError("labels=1 needs output=logits: the softmax of one label is constant")
    if spec.relation:
        if not spec.pooler or not spec.transform or spec.causal:
            raise SpecError("relation needs pooler=true, transform=true and causal=false")
        if not 2 <= spec.relation <= spec.vocab:
            raise SpecError(f"relation: {spec.relation} is not allowed; allowed: 2 to vocab")


def _require_norm_biases(spec: Traits) -> None:
    """Biases of norms, while those of attention, or of all linear maps, are missing."""
    if not spec.norm_bias or spec.place not in ("pre", "post"):
        raise SpecError(f"bias={spec.bias} needs norm=layer, gain=true, and place=pre or post")
    for key in ("transform", "patch", "experts", "share", "qknorm", "embnorm", "types"):
        if getattr(spec, key):
            raise SpecError(f"{key} cannot be combined with bias={spec.bias}")
    if spec.embed and not spec.project:
        raise SpecError(f"embed with bias={spec.bias} needs project=true")


def _require_rotations(spec: Traits) -> None:
    if spec.pos != "rope":
        if spec.rotary or spec.rescale:
            raise SpecError(f"{'rescale' if spec.rescale else 'rotary'} needs pos=rope")
        if isinstance(spec.base, tuple):
            raise SpecError("base by layer needs pos=rope")
        return
    if not spec.rotations:
        raise SpecError("base: 0 in all layers means no rotary positions; write pos=none")
    for base, how in spec.rotations:
        if base < 2:
            raise SpecError(f"base: {base} is not allowed; allowed: numbers from 2")
        if how.startswith("dynamic") and spec.rotary < 4:
            raise SpecError("rescale=dynamic needs rotary=4 or more")
        if how.startswith("longrope") and 2 * len(rescale(how).short) != spec.rotary:
            raise SpecError(
                f"rescale=longrope: {len(rescale(how).short)} numbers; allowed: one for each "
                f"rotary plane, {spec.rotary // 2}"
            )
    if isinstance(spec.base, tuple) and 0 in spec.base and spec.latent:
        raise SpecError("base: 0 in some layers cannot be combined with latent attention (kvrank)")
    if spec.share and (isinstance(spec.base, tuple) or isinstance(spec.rescale, tuple)):
        raise SpecError("base and rescale by layer cannot be combined with share=true")


def _require_groups(spec: Traits) -> None:
    """A token first chooses groups by their two largest affinities, then experts within them."""
    if not spec.groups:
        raise SpecError(
            "within needs groups, the number of groups of experts, for example groups=4"
        )
    size = spec.experts // spec.groups
    if spec.experts % spec.groups or size < 2:
        raise SpecError(
            f"groups: {spec.groups} groups of experts={spec.experts}; allowed: a divisor that "
            "leaves at least 2 experts in each group"
        )
    if not 0 < spec.within <= spec.groups or spec.within * size < spec.active:
        raise SpecError(
            f"within: {spec.within} of {spec.groups} groups; allowed: enough groups for "
            f"active={spec.active} experts"
        )
    if spec.softmax_router:
        raise SpecError("groups need router=sigmoid or sigmoid-raw")


def _require_absorbed(spec: Traits) -> None:
    """Weights must be able to absorb the factors of the scores, since proofs rely on it."""
    grows = next((how for _, how in spec.rotations if how and rescale(how).grows), "")
    if spec.qknorm and not spec.gain and (spec.scale or spec.bylayer or grows):
        key = "scale" if spec.scale else "bylayer" if spec.bylayer else f"rescale={grows}"
        raise SpecError(f"{key} needs gain=true where queries and keys have norms (qknorm)")
    if spec.bylayer and spec.share:
        raise SpecError("bylayer=true cannot be combined with share=true")


def _require_first_norm(spec: Traits) -> None:
    """A first attention without a norm reads the normed embeddings."""
    if spec.norm == "none" or spec.place != "pre" or not spec.embnorm or spec.embed:
        raise SpecError("firstnorm=false needs norms before the layers and embnorm=true")
    for key, wrong in (
        ("bias", spec.bias != "none"),
        ("share", spec.share),
        ("parallel", spec.parallel),
        ("residual", not spec.residual),
    ):
        if wrong:
            raise SpecError(
                f"{key}={show(getattr(spec, key))} cannot be combined with firstnorm=false"
            )


def _require_projection(spec: Traits) -> None:
    """Narrow embeddings are projected to the stream and back; positions are added in the stream."""
    if not 0 < spec.embed < spec.d:
        raise SpecError("project needs embed, less than d, for example embed=4")
    if spec.pos != "learned" or not (spec.final or spec.place == "post"):
        raise SpecError("project needs pos=learned, and a last norm: final=true or place=post")
    for key, wrong in (
        (f"place={spec.place}", spec.place not in ("pre", "post")),
        *((key, getattr(spec, key)) for key in ("types", "embnorm", "embscale", "transform")),
        *((key, getattr(spec, key)) for key in ("outbias", "pooler", "labels", "share")),
        ("residual=false", not spec.residual),
    ):
        if wrong:
            raise SpecError(f"{key} cannot be combined with project")


def _require_parallel(spec: Traits) -> None:
    """Parallel attention and MLP: both must exist, with a skip and at most pre-norms."""
    if not spec.parallel:
        return
    for key, wrong in (
        ("mlp=none", spec.mlp == "none"),
        (f"place={spec.place}", spec.place != "pre"),
        ("residual=false", not spec.residual),
        ("share=true", spec.share),
    ):
        if wrong:
            raise SpecError(f"parallel=true cannot be combined with {key}")
