"""Architectures by name: inline specs, files, model directories and the models people run.

>>> from segre.models import architecture
>>> net = architecture("llama/d=8/layers=2/heads=4/kv=2/ff=16/t=3")
>>> net.norm, net.mlp, net.pos, net.parameters
('rms', 'swiglu', 'rope', 1184)
>>> f"{architecture('llama-3-8b').parameters:,}"
'8,030,261,248'
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from segre.attention import NAMES
from segre.errors import SpecError
from segre.files import is_standard_input
from segre.models.registry import FAMILIES, PRESETS, from_config
from segre.spec import Network
from segre.transformer.choices import KEYS
from segre.transformer.spec import Transformer
from segre.values import quote, read_file, read_inline, short_names

__all__ = ["FAMILIES", "KINDS", "PRESETS", "architecture", "from_config"]

STACKS = NAMES
KINDS = (*STACKS, "transformer", *FAMILIES)
CONFIG = "config.json"


def architecture(
    source: str | Path | Mapping[str, Any] | Network | Transformer,
) -> Network | Transformer:
    """The architecture that is meant.

    An inline spec (a kind or family, then key=value), the name of a preset, a .toml or .json
    file (`-` is standard input), a directory with config.json, or a mapping. Files and mappings
    have `kind`, or are configs of the transformers library, with `model_type`. Names of presets
    go before those of directories: write ./gpt2 for a directory gpt2.

    >>> architecture("softmax/d=3,2/a=1/t=2").widths
    (3, 2)
    >>> architecture({"kind": "llama", "d": 8, "heads": 4, "kv": 2, "ff": 16}).norm
    'rms'
    """
    if isinstance(source, Network | Transformer):
        return source
    if isinstance(source, Mapping):
        return _read(source, str(dict(source)))
    if isinstance(source, str):
        kind, _, rest = source.partition("/")
        if kind in KINDS and "=" in rest:
            return _inline(kind, source)
        if source in PRESETS:
            return from_config(PRESETS[source], source)
    if isinstance(source, str | Path):
        path = _file(source)
        if path is not None:
            return _read(read_file(path), str(path))
    if isinstance(source, str) and kind in KINDS:
        return _inline(kind, source)
    raise SpecError(_unknown(str(source)))


def _inline(kind: str, text: str) -> Network | Transformer:
    if kind in STACKS:
        return Network.parse(text)
    return _read(read_inline(text, KEYS), text)


def _read(given: Mapping[str, Any], quoted: str) -> Network | Transformer:
    """What keys and values say; `quoted` is how errors name them."""
    try:
        return _meant(given, quoted)
    except RecursionError:
        raise SpecError(f"spec {quote(quoted)}: values are nested too deeply") from None


def _meant(given: Mapping[str, Any], quoted: str) -> Network | Transformer:
    kind = given.get("kind")
    if kind is None and "model_type" in given:
        return from_config(given, quoted)
    if kind not in KINDS:
        problem = "kind is missing" if kind is None else f"kind {quote(str(kind))} is not known"
        raise SpecError(
            f"spec {quote(quoted)}: {problem}{_guess(str(kind), KINDS)}; "
            f"allowed: {', '.join(KINDS)} (or model_type, as in {CONFIG})"
        )
    if kind in STACKS:
        return Network.from_mapping(given, quoted)
    try:
        given = short_names(given)
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    defaults = FAMILIES[kind].inline(given) if kind in FAMILIES else None
    return Transformer.from_mapping(given, quoted, defaults)


def _file(name: str | Path) -> Path | None:
    """The file to read, if this is the name of one or of a directory."""
    path = Path(name)
    if is_standard_input(path):
        return path
    if not str(path).isprintable():
        return None
    try:
        directory = path.is_dir()
    except OSError:  # a name too long, a directory closed to us
        directory = False
    if directory:
        path /= CONFIG
    return path if path.suffix in {".toml", ".json"} else None


def _unknown(text: str) -> str:
    """Why a name is refused, and what to write instead."""
    word = text.partition("/")[0] if "=" in text else text.rsplit("/", 1)[-1]
    guess = _guess(word.lower(), tuple(dict.fromkeys((*PRESETS, *KINDS))))
    presets = "presets" if guess else f"presets: {', '.join(PRESETS)}"
    return (
        f"spec {quote(text)}: not known{guess}; allowed: "
        f"inline specs (llama/d=8/heads=2/ff=16/t=3) of {', '.join(KINDS)}; "
        f".toml and .json files; directories with {CONFIG}; {presets}"
    )


def _guess(word: str, known: tuple[str, ...]) -> str:
    begin = [name for name in known if word and name.startswith(word)]
    near = list(dict.fromkeys((*begin, *get_close_matches(word, known))))[:3]
    return f" (did you mean {' or '.join(near)}?)" if near else ""
