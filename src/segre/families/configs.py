"""From a config.json of the transformers library to the architecture that it describes.

A key that is missing has the value that the library's config class gives it. What would change
the function in a way that specs do not say is refused by name. Left aside are dropout, data
types, and groups of experts (which say what a token may use, not what there is); `relevance` has
the list.

>>> from_config({"model_type": "gpt2"}, "gpt2").parameters
124439808
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from segre.errors import SpecError
from segre.families.defaults import family_defaults
from segre.families.library import CLASSES, DEFAULTS, GATES, HIDDEN, ONLY, UNITS
from segre.families.rope import rope_base, rope_rescale
from segre.spec import DEEPEST
from segre.transformer.reading import fraction
from segre.transformer.spec import Transformer
from segre.values import LARGEST, choice, flag, quote, show, whole

Values = dict[str, Any]
CHOSEN = ("qwen2", "qwen3", "gemma2")  # families that have sliding windows in chosen layers
SLIDING = ("mistral", *CHOSEN)


def from_config(config: Mapping[str, Any], quoted: str) -> Transformer:
    """The architecture of a config; `quoted` is how errors name it."""
    try:
        values = _values(_Config(config))
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    return Transformer.from_mapping(values, quoted, family_defaults(values["kind"], values))


class _Config:
    """The keys of a config, with what the library has where they are missing."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if "model_type" not in given:
            raise SpecError(f"model_type is missing; allowed: {', '.join(DEFAULTS)}")
        self.model_type: str = choice("model_type", given["model_type"], tuple(DEFAULTS))
        self.given = given
        for key, allowed in {**ONLY["all"], **ONLY.get(self.model_type, {})}.items():
            if given.get(key) not in (None, *allowed):
                raise SpecError(
                    f"{key}: {quote(str(given[key]))} cannot be said in a spec of "
                    f"{self.model_type}; allowed: {', '.join(map(show, allowed))}"
                )

    def get(self, *names: str) -> tuple[str, Any]:
        """A key, under the first of its names that is given, and its value."""
        found = [name for name in names if name in self.given] or [names[0]]
        if any(self.given[name] != self.given[found[0]] for name in found[1:]):
            raise SpecError(f"{' and '.join(found)} differ; allowed: one of them")
        return found[0], self.given.get(found[0], DEFAULTS[self.model_type].get(names[0]))

    def count(self, *names: str, largest: int = LARGEST, smallest: int = 1) -> int:
        """A whole number."""
        return whole(*self.get(*names), largest, smallest)

    def number(self, key: str) -> Fraction:
        """A number that is not negative, exactly."""
        _, value = self.get(key)
        if isinstance(value, str):
            raise SpecError(f"{key}: {quote(value)} is a string; allowed: numbers from 0")
        return fraction(key, value)

    def flag(self, key: str) -> bool:
        """true or false."""
        return flag(*self.get(key))


def _values(config: _Config) -> Values:
    """The keys of a spec and their values, as far as the family's defaults do not give them."""
    match config.model_type:
        case "gpt2":
            return _gpt2(config)
        case "bert" | "albert":
            return _bert(config)
        case "deepseek_v3":
            return _deepseek(config)
    return _decoder(config)


def _gpt2(config: _Config) -> Values:
    d = config.count("n_embd", "hidden_size")
    inner = config.get("n_inner")[1]
    length = config.count("n_positions", "max_position_embeddings")
    return {
        **_common(config, d, ("n_layer", "num_hidden_layers"), ("n_head", "num_attention_heads")),
        "head": _width(config, "n_head", "num_attention_heads", of=d),
        "ff": 4 * d if inner is None else config.count("n_inner"),
        "mlp": UNITS[choice(*config.get("activation_function"), tuple(UNITS))],
        "eps": config.number("layer_norm_epsilon"),
        "positions": length,
        "t": length,
        "scale": 0 if config.flag("scale_attn_weights") else 1,
        "bylayer": config.flag("scale_attn_by_inverse_layer_idx"),
    }


def _bert(config: _Config) -> Values:
    d = config.count("hidden_size")
    length = config.count("max_position_embeddings")
    out = {
        **_common(config, d),
        "head": _width(config, "num_attention_heads", of=d),
        "ff": config.count("intermediate_size"),
        "mlp": UNITS[choice(*config.get("hidden_act"), tuple(UNITS))],
        "eps": config.number("layer_norm_eps"),
        "types": config.count("type_vocab_size"),
        "positions": length,
        "t": length,
    }
    if config.model_type == "albert":
        out["embed"] = config.count("embedding_size")
    if out["output"] == "hidden":
        out["pooler"] = True
    return out


def _decoder(config: _Config) -> Values:
    """llama, mistral, qwen2, qwen3 and gemma2."""
    d, gemma = config.count("hidden_size"), config.model_type == "gemma2"
    act = "hidden_activation" if gemma else "hidden_act"
    out = {
        **_common(config, d),
        **_rotary(config),
        "head": _head_dim(config, d),
        "ff": config.count("intermediate_size"),
        "mlp": GATES[choice(*config.get(act), tuple(GATES))],
        "eps": config.number("rms_norm_eps"),
        "t": config.count("max_position_embeddings"),
    }
    out["window"] = _windows(config, out["layers"])
    out["kv"] = _key_value_heads(config, out["heads"])
    if config.model_type == "llama":
        out["bias"] = _bias(config)
    if gemma:
        out["scale"] = config.number("query_pre_attn_scalar")
        if not out["scale"]:
            raise SpecError("query_pre_attn_scalar: 0 is not allowed; allowed: numbers above 0")
        out["cap"] = _cap(config, "attn_logit_softcapping")
        if out["output"] != "hidden":
            out["logitcap"] = _cap(config, "final_logit_softcapping")
    return out


def _deepseek(config: _Config) -> Values:
    d, q = config.count("hidden_size"), config.get("q_lora_rank")[1]
    out = {
        **_common(config, d),
        **_rotary(config),
        "head": config.count("qk_nope_head_dim"),
        "dv": config.count("v_head_dim"),
        "rotary": _even("qk_rope_head_dim", config.count("qk_rope_head_dim")),
        "layout": "interleaved" if config.flag("rope_interleave") else "half",
        "qrank": 0 if q is None else config.count("q_lora_rank"),
        "kvrank": config.count("kv_lora_rank"),
        "mlp": GATES[choice(*config.get("hidden_act"), tuple(GATES))],
        "eps": config.number("rms_norm_eps"),
        "t": config.count("max_position_embeddings"),
    }
    if _key_value_heads(config, out["heads"]) != out["heads"]:
        raise SpecError(f"num_key_value_heads: allowed: num_attention_heads={out['heads']}")
    dense = config.count("first_k_dense_replace", smallest=0)
    if dense > 0:
        out["ff"] = config.count("intermediate_size")
    if dense < out["layers"]:
        experts = config.count("n_routed_experts", "num_local_experts")
        width = config.count("moe_intermediate_size")
        out |= {
            "experts": experts,
            "active": config.count("num_experts_per_tok", largest=experts),
            "eff": width,
            "shared": width * config.count("n_shared_experts", smallest=0),
            "dense": dense,
        }
    return out


def _common(
    config: _Config,
    d: int,
    layers: tuple[str, ...] = ("num_hidden_layers",),
    heads: tuple[str, ...] = ("num_attention_heads",),
) -> Values:
    """What all families have."""
    tied, words = config.flag("tie_word_embeddings"), _words(config)
    return {
        "kind": config.model_type.replace("_", "-"),
        "d": d,
        "layers": config.count(*layers, largest=DEEPEST),
        "heads": config.count(*heads),
        "vocab": config.count("vocab_size"),
        "output": "softmax" if words else "hidden",
        "tied": words and tied,
    }


def _words(config: _Config) -> bool:
    """Whether the model ends with a distribution over the vocabulary."""
    key, value = config.get("architectures")
    if value is None or value == []:
        return True
    hidden, allowed = HIDDEN[config.model_type], CLASSES[config.model_type]
    name = value[0] if isinstance(value, list) and len(value) == 1 else value
    return bool(choice(key, name, (hidden, *allowed)) != hidden)


def _width(config: _Config, *heads: str, of: int) -> int:
    """Dimensions of a head, where heads divide the width."""
    key, count = config.get(*heads)
    if of % config.count(*heads):
        raise SpecError(f"{key}: {count} does not divide the width {of}; allowed: a divisor")
    return of // config.count(*heads)


def _head_dim(config: _Config, d: int) -> int:
    key, value = config.get("head_dim")
    if value is None and DEFAULTS[config.model_type]["head_dim"] is None:
        return _even(key, _width(config, "num_attention_heads", of=d))
    return _even(key, config.count(key))


def _even(key: str, value: int) -> int:
    if value % 2:
        raise SpecError(f"{key}: {value} is odd; allowed: even numbers, for rotary positions")
    return value


def _key_value_heads(config: _Config, heads: int) -> int:
    key, value = config.get("num_key_value_heads")
    kv = heads if value is None and config.model_type != "gemma2" else config.count(key)
    if heads % kv:
        raise SpecError(f"{key}: {kv} does not divide num_attention_heads={heads}")
    return kv


def _bias(config: _Config) -> str:
    attention, mlp = config.flag("attention_bias"), config.flag("mlp_bias")
    if attention != mlp:
        raise SpecError(
            f"attention_bias={show(attention)} with mlp_bias={show(mlp)} cannot be said in a spec; "
            "allowed: both true or both false"
        )
    return "all" if attention else "none"


def _rotary(config: _Config) -> Values:
    """The base of the rotary frequencies, and how they are rescaled."""
    length = config.count("max_position_embeddings")
    rescale = rope_rescale(config.given, length, latent=config.model_type == "deepseek_v3")
    return {"base": rope_base(config.given), "rescale": rescale}


def _windows(config: _Config, layers: int) -> list[int]:
    """The sliding window of every layer, 0 where it has none, as the library chooses them."""
    if config.model_type not in SLIDING:
        _layer_types(config, layers, 0)
        return [0]
    window = config.get("sliding_window")[1]
    if config.model_type in ("qwen2", "qwen3") and not config.flag("use_sliding_window"):
        window = None
    size = 0 if window is None else config.count("sliding_window", smallest=2)
    kinds = _layer_types(config, layers, size)
    if kinds is None:
        return [size]
    if not size and any(kinds):
        raise SpecError("layer_types: sliding_attention needs sliding_window, a whole number")
    return [size if slides else 0 for slides in kinds]


def _layer_types(config: _Config, layers: int, size: int) -> list[bool] | None:
    """Which layers slide; None is all of them."""
    key, value = config.get("layer_types")
    if value is not None:
        if not isinstance(value, list) or len(value) != layers:
            raise SpecError(f"{key}: {quote(str(value))}; allowed: a list, one for each layer")
        allowed = ("full_attention", "sliding_attention")
        slides = [choice(key, kind, allowed) == "sliding_attention" for kind in value]
    if config.model_type not in CHOSEN:  # the library passes the list over
        return None
    if value is not None:
        return slides
    if config.model_type == "gemma2":
        return [i % 2 == 0 for i in range(layers)]
    first = config.count("max_window_layers", smallest=0)
    return [size > 0 and i >= first for i in range(layers)]


def _cap(config: _Config, key: str) -> Fraction:
    if config.get(key)[1] is None:
        return Fraction(0)
    cap = config.number(key)
    if not cap:
        raise SpecError(f"{key}: 0 is not allowed; allowed: null, or numbers above 0")
    return cap
