"""Which design does the page mean? Specs of its two families, presets, and what is shown first."""

from __future__ import annotations

from functools import cache
from typing import Any

from segre.errors import SegreError, UnsupportedError
from segre.explore import controls, stack_controls
from segre.explore.stack_controls import NAMED_STACKS
from segre.models import PRESETS, Source, architecture
from segre.spec import KINDS, Network
from segre.transformer.spec import Transformer
from segre.values import quote

Design = Transformer | Network
FIRST = "llama-3-8b"  # what the page shows when it is opened
BESIDE = "gpt2"
STACK = "stack"


@cache
def families() -> dict[str, Any]:
    """The controls of each family, and the values at which a key is left out of a spec."""
    usual = values_of(Transformer(d=1))
    return {
        "transformer": {
            "label": "Transformer",
            "controls": [control.document() for control in controls.CONTROLS],
            "usual": {**usual, "head": "", "kv": "", "output": ""},
            "follow": ["head", "kv", "output"],
        },
        STACK: {
            "label": "Stack of attention layers",
            "controls": [control.document() for control in stack_controls.CONTROLS],
            "usual": stack_controls.USUAL,
            "follow": [],
        },
    }


def family_of(text: str) -> str:
    """The family of an inline spec."""
    return "transformer" if text.startswith("transformer/") else STACK


def values_of(spec: Transformer) -> dict[str, str]:
    """The value of every control of a transformer, as specs write it.

    >>> found = values_of(Transformer.parse("transformer/d=8/heads=2/t=3"))
    >>> found["head"], found["kv"], found["causal"]
    ('4', '2', 'false')
    """
    return {one.key: _written(getattr(spec, one.key)) for one in controls.CONTROLS}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(_written, value)) or "0"
    if not isinstance(value, int | str):  # a fraction: as decimals
        return f"{float(value):g}" if value else "0"
    return str(value)


def design(text: str) -> Design:
    """The design of an inline spec; nothing else is read, least of all a file.

    >>> design("softmax/d=4/layers=2/a=2/gate=head/t=3").parameters
    72
    """
    if text.startswith("transformer/"):
        return Transformer.parse(text)
    if text.partition("/")[0] in KINDS:
        return Network.from_inline(text)
    raise SegreError(
        f"spec {quote(text)}: the explorer takes transformers and stacks of attention layers; for "
        "example transformer/d=64/heads=4/t=16 or softmax/d=8/layers=2/a=4/t=16"
    )


def on_tokens(spec: Network, tokens: int) -> Network:
    """The same stack on inputs of another length."""
    return Network.from_mapping({**spec.document(), "t": tokens}, str(spec))


def shown_first(source: Source) -> str:
    """The inline spec of what a user names, to open the page with."""
    spec = architecture(source)
    if not isinstance(spec, Design):
        raise UnsupportedError(
            f"spec {quote(str(spec))}: the explorer shows networks with attention; for polynomial "
            "networks use segre dim and segre explain"
        )
    return str(spec)


def presets() -> dict[str, str]:
    """The inline spec of every preset, by name: models first, then stacks."""
    return {**{name: str(architecture(name)) for name in PRESETS}, **NAMED_STACKS}
