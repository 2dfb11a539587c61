"""A transformer as data: every design choice that changes its function, and nothing else.

>>> net = Transformer.parse("transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/t=3")
>>> net.parameters, net.head, net.output
(144, 2, 'hidden')
>>> str(net)
'transformer/d=4/heads=2/ff=6/mlp=swiglu/norm=rms/t=3'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from segre.errors import SpecError
from segre.transformer.choices import DEFAULTS, KEYS, Output
from segre.transformer.reading import FILLED, VERSION, completed, read
from segre.transformer.traits import Traits
from segre.values import quote, read_inline, short_names, show

_NO_LABELS: dict[str, Any] = {"labels": 0, "read": "all", "relation": 0}


@dataclass(frozen=True)
class Transformer(Traits):
    """A transformer on t tokens.

    With `vocab` = 0, inputs are arbitrary d x t matrices and the outputs are the last hidden
    states. Otherwise inputs are token sequences, and `output` selects the output: the distribution
    over the vocabulary (softmax), the logits, or the hidden states. With `labels`, the output is
    over labels instead of the vocabulary.

    >>> spec = Transformer.parse("transformer/d=8/heads=4/kv=2/norm=rms/pos=rope/t=3")
    >>> spec.group, spec.parameters
    (2, 200)
    """

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Of all keys; specs are looked up so often that it is computed once."""
        return hash(tuple(getattr(self, key) for key in KEYS))

    def __getstate__(self) -> dict[str, Any]:
        """The keys alone: a hash is another one in another process."""
        return {key: getattr(self, key) for key in KEYS}

    @cached_property
    def parameters(self) -> int:
        """Number of weights."""
        from segre.transformer.tensors import count

        return count(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON document, in hexadecimal."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """The canonical mapping, without defaults. The inverse of `from_mapping`."""
        return {"version": VERSION, "kind": "transformer", **self._given()}

    def __str__(self) -> str:
        """The shortest inline string that reads back as this architecture."""
        parts = [f"{key}={_shown(value)}" for key, value in self._given().items()]
        return "/".join(["transformer", *parts])

    def _given(self) -> dict[str, Any]:
        """Keys whose values `completed` would not fill in."""
        values = {key: getattr(self, key) for key in KEYS}
        out: dict[str, Any] = {}
        for key, value in values.items():
            usual = DEFAULTS[key]
            if key in FILLED:
                rest = {other: known for other, known in values.items() if other != key}
                usual = completed(rest)[key]
            if key in ("d", "t") or value != usual:
                out[key] = _plain(value)
        return out

    def with_output(self, output: Output) -> Transformer:
        """The same network with another output."""
        return replace(self, output=output)

    def trunk(self) -> Transformer:
        """The same network up to its last hidden states, without a head."""
        bare = replace(self, output="hidden", tied=False, logitcap=Fraction(0))
        return replace(bare, transform=False, outbias=False, pooler=False, **_NO_LABELS)

    @classmethod
    def parse(cls, text: str, defaults: Mapping[str, Any] | None = None) -> Transformer:
        """Read an inline spec; `defaults` are those of a family."""
        return cls.from_mapping(read_inline(text, KEYS), quoted=text, defaults=defaults)

    @classmethod
    def from_mapping(
        cls,
        given: Mapping[str, Any],
        quoted: str | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> Transformer:
        """Read keys and values; `quoted` is how errors name them."""
        try:
            return cls._built(read({**(defaults or {}), **short_names(given)}))
        except SpecError as error:
            name = quoted if quoted is not None else json.dumps(dict(given), default=str)
            raise SpecError(f"spec {quote(name)}: {error}") from None

    @classmethod
    def _built(cls, values: dict[str, Any]) -> Transformer:
        spec = cls(**completed(values))
        for key in ("window", "base", "rescale", "attn", "dense"):
            given = values.get(key, ())
            if isinstance(given, tuple) and len(given) > spec.layers:
                raise SpecError(
                    f"{key}: more values than layers={spec.layers}; allowed: at most "
                    "one for each layer"
                )
        spec.require()
        return spec


def _shown(value: Any) -> str:
    return ",".join(map(show, value)) if isinstance(value, list) else show(value)


def _plain(value: Any) -> Any:
    """A value for JSON: fractions as decimals where possible, a list of one as its item."""
    if isinstance(value, tuple):
        return _plain(value[0]) if len(value) == 1 else [_plain(item) for item in value]
    if not isinstance(value, Fraction):
        return value
    if value.denominator == 1:
        return value.numerator
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else str(value)
