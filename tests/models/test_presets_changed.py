"""A preset with some keys changed, such as llama-3-8b/kv=32."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from segre.errors import SpecError
from segre.models import FAMILIES, PRESETS, architecture
from segre.transformer.spec import Transformer

NAMES = [name for name in PRESETS if name not in FAMILIES]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_named_keys_change(name: str) -> None:
    """Sizes that nothing else depends on, one at a time, in any case and by their long names."""
    preset = architecture(name)
    assert isinstance(preset, Transformer)
    eps = Fraction(1, random.Random(name).randint(2, 99))
    assert architecture(f"{name}/eps={eps}") == replace(preset, eps=eps)
    assert architecture(f"{name.upper()}/d_ff={preset.ff + 8}") == replace(preset, ff=preset.ff + 8)


def test_what_follows_from_a_key_follows_the_new_value() -> None:
    preset, fewer = architecture("llama-3-8b"), architecture("llama-3-8b/heads=16")
    assert isinstance(preset, Transformer)
    assert isinstance(fewer, Transformer)
    assert (preset.head, fewer.head, fewer.kv) == (128, 256, preset.kv)


def test_a_family_with_keys_stays_a_family() -> None:
    assert "gpt2" in FAMILIES
    assert "gpt2" in PRESETS
    assert architecture("gpt2/d=8/heads=2/ff=16/t=3").parameters < 10_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("llama-3-8b/kv=5", "5 does not divide heads=32"),
        ("llama-3-8b/kv=", "is not key=value"),
        ("llama-3-8b/kv=8/kv=4", "kv is given twice"),
        ("llama-3-8b/d=8/d_model=8", "are the same key"),
        ("llama-3-8b/colour=red", "unknown key 'colour'"),
        ("llama-3-8c/kv=8", "closest names: llama-3-8b"),
    ],
)
def test_what_is_refused_names_what_was_given(given: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        architecture(given)
    assert str(refused.value).count(f"spec {given!r}") == 1
