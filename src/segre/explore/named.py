"""What is known of named designs at their own sizes, for the page without a server?"""

from __future__ import annotations

from typing import Any

from segre.explore.answers import costs, known, of_finding
from segre.explore.designs import design, presets
from segre.explore.stack_controls import NAMED_STACKS
from segre.geometry.at_any_size import at_any_size
from segre.transformer.spec import Transformer

STACKS = tuple(NAMED_STACKS)

# One or two of every family.
NAMED = (
    *("gpt2", "gpt2-xl", "pythia-1b", "opt-1.3b", "bert-base-uncased", "roberta-base"),
    *("llama-2-7b", "llama-3-8b", "llama-3-70b", "llama-3.2-1b", "smollm2-135m", "smollm3-3b"),
    *("mistral-7b-v0.1", "mixtral-8x7b", "qwen2-7b", "qwen3-8b", "qwen3-30b-a3b", "gemma-7b"),
    *("gemma-2-9b", "phi-4", "olmo-2-7b", "granite-3.0-8b", "gpt-oss-20b", "deepseek-v3"),
)


def named_designs() -> dict[str, Any]:
    """What is known of some presets, with their costs."""
    return {name: _known(text) for name, text in presets().items() if name in NAMED + STACKS}


def _known(text: str) -> dict[str, Any]:
    spec = design(text)
    if not isinstance(spec, Transformer):
        return {**known(text), "spec": text}
    found = of_finding(at_any_size(spec))
    return {**found, "spec": text, "cost": costs(spec), "choices": None, "discrete": []}
