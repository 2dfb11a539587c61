"""Granite: a llama with constant factors of embeddings, sublayers, scores and logits.

Weights absorb these factors, except that of the scores, which is a key of specs: a tensor of the
spec is the stored tensor times its factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from segre.errors import SpecError
from segre.models import llama
from segre.models.config import Config
from segre.models.family import Family, Names, Values
from segre.models.windows import listed
from segre.transformer.spec import Transformer

FACTORS = ("embedding_multiplier", "residual_multiplier", "logits_scaling")


def _read(config: Config) -> Values:
    out = llama.decoder(config)
    listed(config, out["layers"])  # the library passes the list over
    _factors(config)
    return {**out, **llama.biases(config), "scale": _scale(config)}


def _scale(config: Config) -> Fraction:
    """The library multiplies scores by the factor; specs divide them by the root of this number."""
    factor = _positive(config, "attention_multiplier")
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
    return tuple(float(_positive(config, key)) for key in FACTORS)


def _positive(config: Config, key: str) -> Fraction:
    found = config.number(key)
    if not found:
        raise SpecError(f"{key}: 0 is not allowed; allowed: numbers above 0")
    return found


def _write(spec: Transformer) -> Values:
    scores = {"attention_multiplier": float(spec.scale or spec.standard) ** -0.5}
    return {**llama.write_decoder(spec), **llama.write_biases(spec), **scores}


def _tensors(spec: Transformer, part: str, config: Config) -> Names:
    embedding, residual, logits = _factors(config)
    written = dict.fromkeys(("W_O", "b_O", "W_down", "b_down"), residual)
    # a tied table is multiplied once: the norm before the logits makes up for it
    ends = {"norm.gain": 1 / (embedding * logits)} if spec.tied else {"W_U": 1 / logits}
    return _times(llama.tensors(spec, part, config), {**written, "tokens": embedding, **ends})


def _times(names: Names, factors: Mapping[str, float]) -> Names:
    return {file: replace(x, times=factors.get(x.names[0], 1.0)) for file, x in names.items()}


def _preset(*sizes: int, scores: float, logits: float) -> Values:
    rest: Values = {
        "attention_multiplier": scores,
        "embedding_multiplier": 12.0,
        "logits_scaling": logits,
        "residual_multiplier": 0.22,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    return llama.preset("granite", "GraniteForCausalLM", *sizes, **rest)


FAMILY = Family(
    model_type="granite",
    base_class="GraniteModel",
    head_classes=("GraniteForCausalLM",),
    defaults={
        **llama.FAMILY.defaults,
        "embedding_multiplier": 1.0,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "attention_multiplier": 1.0,
    },
    read=_read,
    write=_write,
    prefix="model.",
    tensors=_tensors,
    choices=llama.CHOICES,
    presets={
        "granite-3.0-2b": _preset(
            *(40, 2048, 8192, 32, 8, 49155, 4096), scores=0.015625, logits=8.0
        ),
        "granite-3.0-8b": _preset(
            *(40, 4096, 12800, 32, 8, 49155, 4096), scores=0.0078125, logits=16.0
        ),
    },
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
