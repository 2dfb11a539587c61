"""Small models of every family, in the transformers library and in segre; gains and biases too."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers
from bench.double import Double

from segre.checkpoint.model import Model
from segre.checkpoint.store import Store
from segre.models import from_config
from segre.transformer.forward import Hook, Place, query_factors
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors
from support.hugging_face import weights_of

_SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "vocab_size": 61,
    "max_position_embeddings": 32,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
_TWO: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2, "head_dim": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {"model_type": "bert", **_SIZES},
    "albert": {"model_type": "albert", **_SIZES, "embedding_size": 10},
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 24,
        "n_layer": 3,
        "n_head": 4,
        "n_positions": 32,
        "vocab_size": 61,
    },
    "gpt_neox": {"model_type": "gpt_neox", **_SIZES, "rotary_pct": 0.34},
    "llama": {"model_type": "llama", **_TWO, "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", **_TWO, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **_SIZES, "num_key_value_heads": 2},
    "qwen3": {"model_type": "qwen3", **_TWO},
    "gemma": {"model_type": "gemma", **_TWO, "attention_bias": True},
    "olmo2": {"model_type": "olmo2", **_TWO},
    "phi3": {"model_type": "phi3", **_TWO, "partial_rotary_factor": 0.5, "sliding_window": 5},
    "granite": {
        "model_type": "granite",
        **_SIZES,
        "num_key_value_heads": 2,
        "residual_multiplier": 2.0,
        "attention_multiplier": 0.5,
    },
    "smollm3": {"model_type": "smollm3", **_TWO, "no_rope_layer_interval": 2},
    "gemma3_text": {
        "model_type": "gemma3_text",
        **_TWO,
        "query_pre_attn_scalar": 5,
        "sliding_window": 5,
        "sliding_window_pattern": 2,
    },
    "gemma2": {
        "model_type": "gemma2",
        **_TWO,
        "query_pre_attn_scalar": 5,
        "attn_logit_softcapping": 2.0,
        "sliding_window": 5,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        **_TWO,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "swiglu_limit": 0.5,
        "sliding_window": 5,
    },
    "mixtral": {"model_type": "mixtral", **_TWO, "num_local_experts": 4},
    "qwen3_moe": {
        "model_type": "qwen3_moe",
        **_TWO,
        "attention_bias": True,
        "moe_intermediate_size": 8,
        "mlp_only_layers": [0],
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        **_SIZES,
        "num_key_value_heads": 4,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "v_head_dim": 5,
        "q_lora_rank": 7,
        "kv_lora_rank": 9,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 8,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
    },
}
CONFIGS["roberta"] = {  # the tests' tokens are not padding
    **CONFIGS["bert"],
    **{"model_type": "roberta", "vocab_size": 62, "pad_token_id": 61},
    "max_position_embeddings": 94,
}
CONFIGS["distilbert"] = {
    **{"model_type": "distilbert", "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40},
    **{"vocab_size": 61, "max_position_embeddings": 32},
}
CONFIGS["opt"] = {"model_type": "opt", **_SIZES, "ffn_dim": 40}
CONFIGS["minimax"] = {
    "model_type": "minimax",
    **_TWO,
    "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
FAMILIES = tuple(CONFIGS)
RECORDED = tuple(family for family in FAMILIES if family != "minimax")  # heads without gates
WHOLE = tuple(  # patterns sum to one
    family for family in FAMILIES if family not in ("gpt_oss", "minimax")
)
POST = ("bert", "albert", "roberta", "distilbert")
CAUSAL = tuple(family for family in FAMILIES if family not in POST)
PLAIN = ("bert", "albert", "gpt2", "llama", "mistral", "qwen2", "qwen3")  # in `by_hand`


@dataclass(frozen=True)
class Read:
    """The weights of a model of the library, for segre's forward map; `changes` are factors."""

    spec: Transformer
    vector: np.ndarray
    changes: tuple[tuple[str, float], ...] = ()

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: Any = np.float64
    ) -> dict[str, np.ndarray]:
        out = {}
        for (where, name), slot in tensors(self.spec).items():
            if where != part or (names is not None and name not in set(names)):
                continue
            value = self.vector[slot.range].reshape(slot.shape)
            if name in query_factors(self.spec.at(part)):  # the vector has the scale of scores
                value = value * self.spec.standard**0.5
            for changed, factor in self.changes:
                value = value * factor if name == changed else value
            out[name] = value.astype(dtype)
        return out

    def columns(self, name: str, which: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return self.part("embed", [name], dtype)[name][:, which]


@cache
def library(family: str) -> Any:
    """The model of the transformers library, in double precision; the weights are float32."""
    config = transformers.AutoConfig.for_model(**CONFIGS[family])
    config._attn_implementation = config._experts_implementation = "eager"
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(FAMILIES.index(family))
        with Double():  # rotary angles too
            model = transformers.AutoModel.from_config(config).double().eval()
        for name, weight in model.named_parameters():
            noise = torch.randn_like(weight)
            weight += (0.3 if weight.ndim == 1 or "bias" in name else 0.1) * noise
            weight.copy_(weight.float())
    return model


@cache
def small(family: str, scaled: tuple[tuple[str, float], ...] = ()) -> Model:
    """The same model in segre; tensors that are named in `scaled` are multiplied."""
    model = library(family)
    spec = from_config({**CONFIGS[family], "architectures": [type(model).__name__]}, family)
    weights = Read(replace(spec, t=32), weights_of(model, spec), scaled)
    trunk = Read(weights.spec.trunk(), weights.vector, scaled)
    assert list(tensors(trunk.spec)) == list(tensors(spec))[: len(tensors(trunk.spec))]
    store = Store(None, {}, None, family)
    return Model(store, family, trunk.spec, {}, tensors=trunk)


def states(family: str, ids: np.ndarray) -> list[np.ndarray]:
    """The library's hidden states in double precision; the last after the final norm."""
    with torch.inference_mode(), Double():
        out = library(family)(input_ids=torch.tensor(ids), output_hidden_states=True)
    return [X.numpy() for X in out.hidden_states]


def modules(family: str) -> list[Any]:
    """The layers of the library's model, in the order in which they are run."""
    model = library(family)
    match family:
        case "bert" | "roberta":
            return list(model.encoder.layer)
        case "opt":
            return list(model.decoder.layers)
        case "distilbert":
            return list(model.transformer.layer)
        case "albert":
            return [model.encoder.albert_layer_groups[0].albert_layers[0]] * 3
        case "gpt2":
            return list(model.h)
    return list(model.layers)


def at_depths(see: Callable[[int, Place, np.ndarray], None]) -> Hook:
    """A hook that shows the streams before the layers and after each, by depth."""

    def hook(place: Place, name: str, x: Any) -> Any:
        depth = place.depth(name)
        if depth is not None:
            see(depth, place, x)
        return x

    return hook


def tokens(count: int = 3, length: int = 9, seed: int = 0) -> np.ndarray:
    """Sequences of random tokens."""
    return np.random.default_rng(seed).integers(61, size=(count, length))
