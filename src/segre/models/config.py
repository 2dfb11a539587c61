"""A config.json of the transformers library, key by key.

A missing key has the default value of the library's config class. Missing sizes, which every saved
config has, are listed in `missing`. A key that would change the function in a way that specs cannot
express is refused by name. Dropout and data types are ignored; `relevance` has the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from segre.errors import SpecError
from segre.models.family import Family, Values
from segre.spec import DEEPEST
from segre.values import LARGEST, choice, flag, fraction, quote, show, whole

# The only values of keys that specs can say, whatever the family (besides null).
ONLY: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "is_causal": (True,),
    "is_encoder_decoder": (False,),
    "pruned_heads": ({},),
    "token_classification_bias": (True,),
}

# Sizes, under the names that the families have for them. Configs that the library saved have them.
SIZES = frozenset(
    (
        *("hidden_size", "n_embd", "d_model", "dim"),
        *("num_hidden_layers", "n_layer", "n_layers"),
        *("num_attention_heads", "n_head", "n_heads", "num_key_value_heads"),
        *("intermediate_size", "ffn_dim", "hidden_dim", "vocab_size", "embedding_size"),
        *("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size"),
        *("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
        *("image_size", "patch_size"),
    )
)


# Names of activations, and of MLPs in specs; gelu_fast has the root of 2/pi to ten digits.
_TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "gelu_fast")
UNITS = {
    **{"gelu": "gelu", "gelu_python": "gelu", **dict.fromkeys(_TANH, "gelu-tanh")},
    **{"quick_gelu": "gelu-quick", "silu": "silu", "swish": "silu"},
    **{"relu": "relu", "relu2": "relu2"},
}
# The same, for MLPs with a gate.
GATES = {
    **{"silu": "swiglu", "swish": "swiglu", "gelu": "geglu", "gelu_python": "geglu"},
    **dict.fromkeys(_TANH, "geglu-tanh"),
    **{"quick_gelu": "geglu-quick", "relu": "reglu", "linear": "bilinear"},
}


class Config:
    """The keys of a config, with the library's defaults for missing ones."""

    def __init__(self, given: Mapping[str, Any], family: Family) -> None:
        self.given, self.family = given, family
        self.missing: list[str] = []  # sizes that were asked for and are not given
        for key, allowed in {**ONLY, **family.only}.items():
            if given.get(key) not in (None, *allowed):
                raise SpecError(
                    f"{key}: {quote(str(given[key]))} cannot be expressed in a spec of "
                    f"{family.model_type}; allowed: {', '.join(map(show, allowed))}"
                )

    def get(self, key: str) -> tuple[str, Any]:
        """A key under its name in the config, and its value."""
        own = self.family.own.get(key, key)
        names = (own, key) if own != key and key in self.family.also else (own,)
        found = [name for name in names if name in self.given]
        if not found:
            usual = self.family.defaults.get(own)
            if usual is not None and SIZES.intersection(names) and own not in self.missing:
                self.missing.append(own)
            return own, usual
        if any(self.given[name] != self.given[found[0]] for name in found[1:]):
            raise SpecError(f"{' and '.join(found)} differ; give only one of them")
        return found[0], self.given[found[0]]

    def count(self, key: str, *, largest: int = LARGEST, smallest: int = 1) -> int:
        """A whole number."""
        return whole(*self.get(key), largest, smallest)

    def number(self, key: str) -> Fraction:
        """A nonnegative number, exactly."""
        key, value = self.get(key)
        if isinstance(value, str):
            raise SpecError(f"{key}: {quote(value)} is a string; allowed: numbers from 0")
        return fraction(key, value)

    def positive(self, key: str) -> Fraction:
        """A number above 0, exactly."""
        found = self.number(key)
        if not found:
            raise SpecError(f"{key}: 0 is not allowed; allowed: numbers above 0")
        return found

    def cap(self, key: str) -> Fraction:
        """A soft cap; 0 in a spec and null in a config mean none."""
        if self.get(key)[1] is None:
            return Fraction(0)
        cap = self.number(key)
        if not cap:
            raise SpecError(f"{key}: 0 is not allowed; allowed: null, or numbers above 0")
        return cap

    def flag(self, key: str) -> bool:
        """true or false."""
        return flag(*self.get(key))

    def named(self, key: str, names: Mapping[str, str]) -> str:
        """A name of the library, translated to the name in specs."""
        return names[choice(*self.get(key), tuple(names))]

    def even(self, key: str, value: int | None = None) -> int:
        """A width with rotary positions, which must be even."""
        value = self.count(key) if value is None else value
        if value % 2:
            raise SpecError(f"{key}: {value} is odd; allowed: even numbers, for rotary positions")
        return value

    def width(self, of: int) -> int:
        """Dimensions of a head, if the heads divide the width."""
        key, count = self.get("num_attention_heads")
        if of % self.count(key):
            raise SpecError(f"{key}: {count} does not divide the width {of}; allowed: a divisor")
        return of // self.count(key)

    def key_value_heads(self, heads: int) -> int:
        """Number of key-value heads; null means as many as query heads."""
        key, value = self.get("num_key_value_heads")
        kv = heads if value is None else self.count(key)
        if heads % kv:
            raise SpecError(
                f"{key}: {kv} does not divide num_attention_heads={heads}; allowed: a divisor"
            )
        return kv

    def common(self) -> Values:
        """The choices that all families have."""
        words = "vocab_size" in self.family.defaults
        return {
            "kind": self.family.name,
            "d": self.count("hidden_size"),
            "layers": self.count("num_hidden_layers", largest=DEEPEST),
            "heads": self.count("num_attention_heads"),
            **({"vocab": self.count("vocab_size")} if words else {}),
            **self.ending(),
        }

    def blocks(self, eps: Fraction | None = None) -> Values:
        """The same, for layers without rotations and gates; `eps` is the constant of all norms."""
        out = self.common()
        return {
            **out,
            "head": self.width(out["d"]),
            "mlp": self.named("hidden_act", UNITS),
            "eps": self.number("layer_norm_eps") if eps is None else eps,
        }

    def learned(self) -> Values:
        """Learned positions, as many as the model has."""
        length = self.count("max_position_embeddings")
        return {"positions": length, "t": length}

    def ending(self) -> Values:
        """The keys of a spec for the output of the config's class."""
        family, name = self.family, self.class_name()
        tied = self.flag("tie_word_embeddings") if "vocab_size" in family.defaults else False
        for found in family.label_classes:
            if name == found.name:
                if found.count:
                    own: Values = {"labels": found.count, "output": "logits"}
                else:
                    own = {"labels": self.labels(), **self._judged()}
                return {"tied": False, **found.keys, **own}
        if name == family.base_class:
            return {
                "output": "hidden",
                "tied": False,
                **({"pooler": True} if family.pooler else {}),
            }
        if name == family.related_class:
            labels = family.related or self.labels()
            return {"output": "softmax", "tied": tied, "pooler": True, "relation": labels}
        return {"output": "softmax", "tied": tied}

    def labels(self) -> int:
        """Number of labels; by default 2."""
        if self.given.get("num_labels") is not None:
            return self.count("num_labels")
        names = self.given.get("id2label")
        if names is None:
            return 2
        if not isinstance(names, Mapping | list) or not names:
            raise SpecError("id2label: not a table of labels; allowed: a name for every label")
        return len(names)

    def _judged(self) -> Values:
        """Mutually exclusive labels have a distribution; one label, or several at once, do not."""
        single = self.given.get("problem_type") in (None, "single_label_classification")
        return {"output": "softmax" if single and self.labels() > 1 else "logits"}

    def class_name(self) -> str:
        """The class that the config names; by default the first with a head."""
        family = self.family
        key, value = self.get("architectures")
        if value is None or value == []:
            return family.usual_class
        name = value[0] if isinstance(value, list) and len(value) == 1 else value
        return str(choice(key, name, family.classes))
