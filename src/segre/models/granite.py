"""Granite: a llama with constant factors of embeddings, sublayers, scores and logits.

Weights absorb these factors, except that of the scores, which is a key of specs: a tensor of the
spec is the stored tensor times its factor.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Values
from segre.models.stored import Names
from segre.transformer.spec import Transformer

FACTORS = ("embedding_multiplier", "residual_multiplier", "logits_scaling")


def _read(config: Config) -> Values:
    out = llama.windowless(config)
    _factors(config)
    return {**out, "scale": _scale(config)}


def _scale(config: Config) -> Fraction:
    """The library multiplies scores by the factor; specs divide them by the root of this number."""
    factor = config.positive("attention_multiplier")
    near = round(1 / factor**2)
    if near and near**-0.5 == float(factor):  # the root, as far as a float can say it
        return Fraction(near)
    scale = 1 / factor**2
    if max(scale.numerator, scale.denominator) >= 10**30:
        raise SpecError(
            "attention_multiplier is not supported; allowed: the square root of 1/n, "
            "or a number with fewer digits"
        )
    return scale


def _factors(config: Config) -> tuple[float, ...]:
    return tuple(float(config.positive(key)) for key in FACTORS)


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    embedding, residual, logits = _factors(config)
    written = dict.fromkeys(("W_O", "b_O", "W_down", "b_down"), residual)
    # a tied table is multiplied once: the norm before the logits makes up for it
    ends = {"norm.gain": 1 / (embedding * logits)} if spec.tied else {"W_U": 1 / logits}
    factors = {**written, "tokens": embedding, **ends}
    return {
        file: replace(x, times=factors.get(x.names[0], 1.0))
        for file, x in llama.TENSORS(spec, part, config).items()
    }


_GRANITE_3: Values = {
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
FAMILY = llama.family(
    "granite",
    "Granite",
    labels=0,
    defaults={**llama.FAMILY.defaults, **dict.fromkeys((*FACTORS, "attention_multiplier"), 1.0)},
    read=_read,
    tensors=_tensors,
    models={
        "granite-3.0-2b": llama.sizes(
            *(40, 2048, 8192, 32, 8, 49155, 4096),
            **_GRANITE_3,
            attention_multiplier=0.015625,
            logits_scaling=8.0,
        ),
        "granite-3.0-8b": llama.sizes(
            *(40, 4096, 12800, 32, 8, 49155, 4096),
            **_GRANITE_3,
            attention_multiplier=0.0078125,
            logits_scaling=16.0,
        ),
    },
)
