"""Architectures by name: inline specs, files, model directories and presets.

>>> from segre.models import architecture
>>> net = architecture("llama/d=8/layers=2/heads=4/kv=2/ff=16/t=3")
>>> net.norm, net.mlp, net.pos, net.parameters
('rms', 'swiglu', 'rope', 1184)
>>> f"{architecture('llama-3-8b').parameters:,}"
'8,030,261,248'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from segre.errors import SpecError, UnsupportedError
from segre.models.live import live
from segre.models.names import (
    CONFIG,
    KINDS,
    LIST,
    POLYNOMIALS,
    STACKS,
    meaning,
    nearest,
    unknown,
)
from segre.models.registry import FAMILIES, PRESETS, from_config
from segre.polynomial.spec import Polynomial
from segre.polynomial.spec import inline as read_polynomial
from segre.spec import KEYS as STACK_KEYS
from segre.spec import Network
from segre.transformer.choices import KEYS
from segre.transformer.spec import Transformer
from segre.values import quote, read_file, read_inline, short_names

__all__ = [
    "FAMILIES",
    "KINDS",
    "POLYNOMIALS",
    "PRESETS",
    "STACKS",
    "Source",
    "Spec",
    "architecture",
    "called",
    "from_config",
    "only",
    "with_attention",
]

Spec: TypeAlias = Network | Polynomial | Transformer
K = TypeVar("K", Network, Polynomial, Transformer)
Source: TypeAlias = Any  # what `architecture` takes: names, files, mappings, specs and live objects


def architecture(source: Source, *, defaults: bool = False) -> Spec:
    """The architecture that a name, file, mapping or object stands for.

    `source` is an inline spec (a kind or family, then key=value), the name of a preset, a preset
    with some keys changed (llama-3-8b/kv=32), a .toml or .json file (`-` is standard input), a
    directory with config.json, a .safetensors file beside one, the id of a model in the local cache
    of the Hugging Face hub, or a mapping. Files and mappings have the key `kind`, or are configs of
    the transformers library, with `model_type`. Objects may be a model or a config of that library,
    a pair of a state dict and a config, or a `torch.nn` module (docs/python-api.md). Preset names
    take precedence over directories: write ./gpt2 for a directory named gpt2.

    A config without its sizes is refused; `defaults` fills them in from the library's config class.

    >>> architecture("softmax/d=3,2/a=1/t=2").widths
    (3, 2)
    >>> architecture({"kind": "llama", "d": 8, "heads": 4, "kv": 2, "ff": 16}).norm
    'rms'
    >>> f"{architecture('llama-3-8b/kv=32').parameters:,}"
    '8,835,567,616'
    """
    source = getattr(source, "design", source)  # of an opened model
    if isinstance(source, Network | Polynomial | Transformer):
        return source
    held = live(source)
    if held is not None:
        return _read(held.config, held.name, defaults)
    if isinstance(source, Mapping):
        return _read(source, str(dict(source)), defaults)
    if isinstance(source, str) and not source.strip():
        raise SpecError(
            f"the spec is empty; {LIST}, and segre dim --help shows examples of inline specs"
        )
    found = meaning(source) if isinstance(source, str | Path) else None
    if found is None:
        raise SpecError(unknown(str(source)))
    if found.inline:
        return _inline(found.kind, found.inline)
    if found.preset:
        return from_config(PRESETS[found.preset], found.preset)
    assert found.file is not None
    return _read(read_file(found.file), str(found.file), defaults)


def only(kind: type[K], source: Source, why: str) -> K:
    """The architecture, which must be of a kind; others are refused, and `why` is the reason.

    >>> only(Polynomial, "poly/2-3-1/degree=2", "").depth
    2
    """
    spec = architecture(source)
    if not isinstance(spec, kind):
        raise UnsupportedError(f"spec {quote(called(source))}: {why}")
    return spec


def with_attention(source: Source, asks: str) -> Network | Transformer:
    """The architecture, which must be an attention network; `asks` is the command that needs it."""
    spec = architecture(source)
    if isinstance(spec, Polynomial):
        raise UnsupportedError(
            f"spec {quote(str(spec))}: {asks} does not support polynomial networks, which have no "
            "attention; supported: segre dim, explain and analyze"
        )
    return spec


def called(source: Source) -> str:
    """How errors and reports call the argument: a name as it was given, an object by its type."""
    if isinstance(source, str | Path):
        return str(source)
    if getattr(source, "design", None) is not None:  # an opened model
        return str(source.name)
    held = live(source)
    return str(architecture(source)) if held is None else held.name


def _inline(kind: str, text: str) -> Spec:
    if kind not in KINDS:
        return _changed(kind, text)
    if kind in POLYNOMIALS:
        return _read(read_polynomial(text), text)
    return _read(read_inline(text, STACK_KEYS if kind in STACKS else KEYS), text)


def _changed(preset: str, text: str) -> Transformer:
    """A preset with other values for some keys; values that depend on them are recomputed."""
    usual = read_inline(str(from_config(PRESETS[preset], preset)), KEYS)
    changes = read_inline(text, KEYS)
    try:
        changes = short_names(changes)
    except SpecError as error:
        raise SpecError(f"spec {quote(text)}: {error}") from None
    return Transformer.from_mapping({**usual, **changes, "kind": usual["kind"]}, text)


def _read(given: Mapping[str, Any], quoted: str, defaults: bool = False) -> Spec:
    """The architecture of keys and values; `quoted` is how errors name them."""
    try:
        return _meant(given, quoted, defaults)
    except RecursionError:
        raise SpecError(f"spec {quote(quoted)}: values are nested too deeply") from None


def _meant(given: Mapping[str, Any], quoted: str, defaults: bool) -> Spec:
    kind = given.get("kind")
    if kind is None and "model_type" in given:
        return from_config(given, quoted, defaults=defaults)
    if isinstance(kind, str) and kind.lower() in KINDS:
        kind = kind.lower()
        given = {**given, "kind": kind}
    else:
        problem = "kind is missing" if kind is None else f"kind {quote(str(kind))} is not known"
        if kind is None and {"claim", "checksum"} <= given.keys():
            raise SpecError(
                f"spec {quote(quoted)}: this is a certificate; check it with segre verify"
            )
        raise SpecError(
            f"spec {quote(quoted)}: {problem}{nearest(str(kind), KINDS) if kind else ''}; {LIST}; "
            f"allowed: a kind, or model_type, as in {CONFIG}"
        )
    if kind in STACKS:
        return Network.from_mapping(given, quoted)
    if kind in POLYNOMIALS:
        return Polynomial.from_mapping(given, quoted)
    try:
        given = short_names(given)
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    chosen = FAMILIES[kind].inline(given) if kind in FAMILIES else None
    return Transformer.from_mapping(given, quoted, chosen)
