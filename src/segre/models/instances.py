"""Small instances: transformers with the same design choices, small enough for a proof.

`PROVED` holds the small instances of presets for which the lower and upper bounds meet; the tests
prove each of them again (tests/test_instances.py).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from segre.transformer.by_layer import Bases, Rescales, every
from segre.transformer.spec import Transformer

# By kind: one of the kind. Dynamic rescaling begins beyond the context, which no instance has.
RESCALES = {
    "": "",
    "linear": "linear:4",
    "dynamic": "",
    "llama3": "llama3:8:1:4:8192",
    "yarn": "yarn:4:4096",
    "longrope": "longrope:32:4096:short=1.5:long=2",
}
# Sizes and numbers of small instances, where they are not 0.
SIZES: dict[str, Any] = {
    **{"heads": 2, "dv": 2, "ff": 3, "eps": Fraction(1, 10**5), "vocab": 11, "embed": 4},
    **{"qrank": 3, "kvrank": 3, "experts": 3, "active": 2, "shared": 2, "eff": 2, "dense": 1},
    **{"groups": 2, "within": 1, "limit": Fraction(1, 2), "window": (2,), "scale": Fraction(1)},
}
AT_MOST = {"offset": 1, "types": 2, "labels": 2, "patch": 5, "relation": 2}


def small_instance(spec: Transformer) -> Transformer:
    """The same design choices, with sizes close to the smallest at which all have an effect.

    Grouped queries stay grouped, partial rotations partial, heads and latents narrower than what
    they read (of a LayerNorm's output one dimension is lost);
    the vocabulary is large enough to tell latents apart.
    """
    partial = 0 < spec.rotary_dim < spec.head and not spec.latent
    base, rescale = _rotations(spec)
    by_layer = isinstance(base, tuple) or isinstance(rescale, tuple) or spec.by_mechanism
    deep = any((spec.cls, by_layer, spec.share, spec.embed, not spec.firstnorm, spec.dense))
    sizes = {key: small for key, small in SIZES.items() if getattr(spec, key)}
    sizes |= {key: min(getattr(spec, key), most) for key, most in AT_MOST.items()}
    wide = spec.latent or spec.embed or (partial and spec.norm == "layer")
    sizes |= {"d": 5 if wide else 4, "layers": 2 if deep else 1, "head": 4 if partial else 2}
    if spec.parallel and spec.vocab:
        sizes["vocab"] = 17  # more than its MLP, which at first reads only the input, can fit
    if spec.groups:
        sizes["experts"] = 4
    return replace(
        spec,
        **sizes,
        kv=1 if spec.kv < spec.heads else 2,
        rotary=2 if spec.rotary_dim else 0,
        positions=3 + (spec.offset > 0) if spec.pos == "learned" else 0,
        base=base,
        rescale=rescale,
        attn=tuple(one.name for one in spec.mechanisms),
        skip=Fraction(3, 2) if spec.skip != 1 else spec.skip,
        t=3,
    )


def _rotations(spec: Transformer) -> tuple[Bases, Rescales]:
    """Base and rescaling of the layers of a small instance: one per kind of layer, at most two."""
    both = zip(every(spec.base, spec.layers), every(spec.rescale, spec.layers), strict=True)
    ways = list(dict.fromkeys(both))[:2]
    rescales = tuple(RESCALES[how.partition(":")[0]] for _, how in ways)
    if len(ways) == 1:
        return 10_000, rescales[0]
    return tuple(
        small if base else 0 for small, (base, _) in zip((10_000, 100), ways, strict=True)
    ), rescales


# The small instances of the presets, and their dimensions.
PROVED = {
    "gpt2/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 120,
    "gpt-neox/d=5/heads=2/head=4/dv=2/ff=3/eps=1e-5/rotary=2/vocab=17": 261,
    "gpt-neox/d=5/heads=2/head=4/dv=2/ff=3/mlp=gelu-tanh/eps=1e-5/rotary=2/vocab=17": 261,
    "opt/d=4/heads=2/ff=3/eps=1e-5/vocab=11/offset=1": 117,
    "opt/d=5/layers=2/heads=2/head=2/ff=3/place=post/eps=1e-5/vocab=11/offset=1/embed=4/"
    "project=true": 264,
    "gpt-oss/d=4/heads=2/kv=1/eff=2/eps=1e-5/rescale=yarn:4:4096/window=2/experts=3/limit=0.5/"
    "vocab=11": 240,
    "gpt-oss/d=4/heads=2/kv=1/eff=2/eps=1e-5/experts=3/limit=0.5/vocab=11/labels=2": 204,
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 153,
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=11/output=hidden/pooler=true": 137,
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2": 134,
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2/pooler=false/read=all": 117,
    "bert/d=4/heads=2/ff=3/eps=1e-5/vocab=11/relation=2": 174,
    "roberta/d=4/heads=2/ff=3/eps=1e-5/vocab=11/offset=1": 150,
    "distilbert/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 150,
    "electra/d=4/heads=2/ff=3/eps=1e-5/vocab=11/output=hidden": 121,
    "electra/d=5/layers=2/heads=2/head=2/ff=3/eps=1e-5/embed=4/vocab=11": 275,
    "electra/d=5/layers=2/heads=2/head=2/ff=3/eps=1e-5/embed=4/vocab=11/output=hidden": 238,
    "vit/d=4/layers=2/heads=2/ff=3/eps=1e-5/patch=5/labels=2": 151,
    "dinov2/d=4/layers=2/heads=2/ff=3/eps=1e-5/patch=5": 158,
    "albert/d=5/layers=2/heads=2/head=2/ff=3/eps=1e-5/embed=4/vocab=11": 214,
    "modernbert/d=4/layers=2/heads=2/ff=3/eps=1e-5/base=10000,100/window=2/vocab=11": 193,
    "gpt2/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2": 103,
    "gpt2/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2/read=all/outbias=true": 103,
    "llama/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 163,
    "llama/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2": 127,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/labels=2": 117,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/labels=2/read=all/outbias=true": 118,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11": 153,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/window=2": 153,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/tied=true": 123,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/rescale=llama3:8:1:4:8192/vocab=11": 153,
    "llama/d=4/heads=2/kv=1/ff=3/eps=1e-5/rescale=llama3:8:1:4:8192/vocab=11/tied=true": 123,
    "qwen2/d=4/heads=2/kv=1/ff=3/eps=1e-5/rescale=yarn:4:4096/vocab=11": 161,
    "qwen2/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11": 161,
    "qwen2/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/tied=true": 131,
    "qwen3/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11": 158,
    "qwen3/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11/tied=true": 128,
    "mixtral/d=4/heads=2/kv=1/eps=1e-5/experts=3/eff=2/vocab=11": 194,
    "minimax/d=4/layers=2/heads=2/kv=1/eps=1e-5/experts=3/eff=2/vocab=11/"
    "attn=lightning,softmax": 366,
    "qwen3-moe/d=4/heads=2/kv=1/eps=1e-5/experts=3/active=2/eff=2/vocab=11": 199,
    "gemma/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 133,
    "gemma/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11": 123,
    "smollm3/d=4/layers=2/heads=2/kv=1/ff=3/eps=1e-5/base=10000,0/vocab=11": 196,
    "gemma3-text/d=4/layers=2/heads=2/kv=1/ff=3/eps=1e-5/base=10000,100/window=2/vocab=11": 224,
    "gemma3-text/d=4/layers=2/heads=2/kv=1/ff=3/eps=1e-5/base=10000,100/window=2/vocab=11/"
    "labels=2": 224,
    "granite/d=4/heads=2/kv=1/ff=3/eps=1e-5/scale=1/vocab=11/tied=true": 123,
    "phi3/d=4/heads=2/ff=3/eps=1e-5/window=2/vocab=11": 163,
    "phi3/d=4/heads=2/ff=3/eps=1e-5/window=2/rescale=longrope:32:4096:short=1.5:long=2/"
    "vocab=11": 163,
    "olmo2/d=4/heads=2/ff=3/eps=1e-5/vocab=11": 187,
    "olmo2/d=4/heads=2/ff=3/eps=1e-5/vocab=11/labels=2": 151,
    "gemma2/d=4/heads=2/kv=1/ff=3/eps=1e-5/vocab=11": 131,
    "gemma2/d=4/heads=2/kv=1/ff=3/eps=1e-5/window=2/vocab=11": 131,
    "deepseek-v3/d=5/layers=2/heads=2/head=2/dv=2/ff=3/eps=1e-5/qrank=3/kvrank=3/rotary=2/"
    "rescale=yarn:4:4096/experts=4/active=2/groups=2/within=1/shared=2/eff=2/dense=1/vocab=11": 465,
}
