"""Models of the transformers library, run in double precision, and their weights as segre's vector.

Independent of segre's forward map: only `segre.transformer.tensors` is used, for the order of the
tensors. Constant factors that specs leave out are folded into the weights: the standard scale of
the scores into the queries (or the gain of their norm), the scale of routed experts into their last
map.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

Found = dict[tuple[str, str], Tensor]


class Double(TorchFunctionMode):
    """Inside, what asks for float32 gets float64.

    The library computes norms, rotations, patterns and affinities in float32, whatever the type of
    the weights; that would hide all errors below 1e-7.
    """

    def __enter__(self) -> "Double":
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self._before)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.float:
            func = Tensor.double
        named = {key: _wide(value) for key, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def weights_of(model: nn.Module, spec: Transformer) -> np.ndarray:
    """The vector of weights with which `spec` is the function of a model of the library."""
    return weight_vector(model, spec).detach().numpy()


def weight_vector(model: nn.Module, spec: Transformer) -> Tensor:
    """The same vector, so that torch can differentiate it by the model's parameters.

    Fails unless the spec's tensors are those of the model, no more and no fewer.
    """
    found = _Reader(model, spec).read()
    slots = tensors(spec)
    assert set(found) == set(slots), set(found) ^ set(slots)
    for key, slot in slots.items():
        assert tuple(found[key].shape) == slot.shape, (key, found[key].shape, slot.shape)
    return torch.cat([found[key].flatten() for key in slots])


class _Reader:
    """Collects the tensors of a spec from the state of a model, family by family."""

    def __init__(self, model: nn.Module, spec: Transformer) -> None:
        prefix = f"{model.base_model_prefix}."
        state = model.state_dict(keep_vars=True)
        self.state = {name.removeprefix(prefix): value.double() for name, value in state.items()}
        self.spec, self.config = spec, model.config
        self.found: Found = {}

    def read(self) -> Found:
        match self.config.model_type:
            case "gpt2":
                self.gpt2()
            case "bert":
                self.bert()
            case "albert":
                self.albert()
            case "deepseek_v3":
                self.deepseek()
            case _:
                self.decoder()
        return self.found

    # --- pieces ---------------------------------------------------------------------------

    def put(self, part: str, name: str, value: Tensor) -> None:
        assert (part, name) not in self.found
        self.found[part, name] = value

    def linear(self, part: str, name: str, source: str, kind: str = "W") -> None:
        """A linear map and, if the model has one, its bias."""
        self.put(part, f"{kind}_{name}", self.state[f"{source}.weight"])
        if f"{source}.bias" in self.state:
            self.put(part, f"b_{name}", self.state[f"{source}.bias"][:, None])

    def norm(self, part: str, name: str, source: str, scale: float = 1.0) -> None:
        """A norm's gain and, if the model has one, its bias. Gemma's gains are 1 + weight."""
        gain = self.state[f"{source}.weight"][:, None]
        if self.config.model_type == "gemma2":
            gain = 1 + gain
        self.put(part, f"{name}.gain", scale * gain)
        if f"{source}.bias" in self.state:
            self.put(part, f"{name}.bias", scale * self.state[f"{source}.bias"][:, None])

    def tables(self, **sources: str) -> None:
        for name, source in sources.items():
            self.put("embed", name, self.state[f"{source}.weight"].T)

    def heads(self, part: str, query: str, key: str, value: str, out: str, *, scale: float) -> None:
        """Plain attention; `scale` multiplies the queries."""
        kv, group, k, v = self.spec.kv, self.spec.group, self.spec.head, self.spec.dv
        shapes = {"Q": (kv, group, k), "K": (kv, 1, k), "V": (kv, 1, v)}
        for (name, shape), source in zip(shapes.items(), (query, key, value), strict=True):
            factor = scale if name == "Q" else 1.0
            for letter, ending in (("W", "weight"), ("b", "bias")):
                if f"{source}.{ending}" in self.state:
                    tensor = factor * self.state[f"{source}.{ending}"]
                    self.put(part, f"{letter}_{name}", tensor.reshape(*shape, -1))
        self.output(part, out)

    def output(self, part: str, source: str) -> None:
        """The map from the heads to the stream: columns are heads, then dimensions."""
        self.linear(part, "O", source)
        kv, group, d, v = self.spec.kv, self.spec.group, self.spec.d, self.spec.dv
        joined = self.found[part, "W_O"].reshape(d, kv, group, v)
        self.found[part, "W_O"] = joined.permute(1, 2, 0, 3)

    def gated(self, part: str, source: str, kind: str = "W") -> None:
        for name in ("gate", "up", "down"):
            self.linear(part, name, f"{source}.{name}_proj", kind)

    def unembedding(self, source: str) -> None:
        if self.spec.output != "hidden" and not self.spec.tied:
            self.put("head", "W_U", self.state[f"{source}.weight"])

    def layers(self) -> list[tuple[str, int]]:
        return [(str(i + 1), i) for i in range(self.config.num_hidden_layers)]

    # --- families -------------------------------------------------------------------------

    def gpt2(self) -> None:
        for name, value in list(self.state.items()):
            module, _, ending = name.rpartition(".")
            if ".c_" in name and ending == "weight":  # Conv1D: inputs are rows
                self.state[name] = value.T
            if module.endswith("c_attn"):
                for letter, third in zip("qkv", self.state[name].chunk(3), strict=True):
                    self.state[f"{module}.{letter}.{ending}"] = third
        scale = self.spec.head**-0.5
        self.tables(tokens="wte", positions="wpe")
        for part, i in self.layers():
            at = f"h.{i}"
            joint = f"{at}.attn.c_attn"
            self.norm(part, "norm1", f"{at}.ln_1")
            out = f"{at}.attn.c_proj"
            self.heads(part, f"{joint}.q", f"{joint}.k", f"{joint}.v", out, scale=scale)
            self.norm(part, "norm2", f"{at}.ln_2")
            self.linear(part, "up", f"{at}.mlp.c_fc")
            self.linear(part, "down", f"{at}.mlp.c_proj")
        self.norm("head", "norm", "ln_f")
        self.unembedding("lm_head")

    def embeddings(self) -> None:
        self.tables(
            tokens="embeddings.word_embeddings",
            positions="embeddings.position_embeddings",
            types="embeddings.token_type_embeddings",
        )
        self.norm("embed", "norm", "embeddings.LayerNorm")

    def words(self, transform: str, norm: str, decoder: str) -> None:
        self.linear("head", "T", transform)
        self.norm("head", "normT", norm)
        self.unembedding(decoder)
        self.put("head", "b_U", self.state[f"{decoder}.bias"][:, None])

    def bert(self) -> None:
        self.embeddings()
        for part, i in self.layers():
            at = f"encoder.layer.{i}"
            own = f"{at}.attention.self"
            out = f"{at}.attention.output.dense"
            scale = self.spec.head**-0.5
            self.heads(part, f"{own}.query", f"{own}.key", f"{own}.value", out, scale=scale)
            self.norm(part, "post1", f"{at}.attention.output.LayerNorm")
            self.linear(part, "up", f"{at}.intermediate.dense")
            self.linear(part, "down", f"{at}.output.dense")
            self.norm(part, "post2", f"{at}.output.LayerNorm")
        if self.spec.output == "hidden":
            self.linear("head", "pool", "pooler.dense")
        else:
            at = "cls.predictions"
            self.words(f"{at}.transform.dense", f"{at}.transform.LayerNorm", f"{at}.decoder")

    def albert(self) -> None:
        self.embeddings()
        self.linear("embed", "E", "encoder.embedding_hidden_mapping_in")
        at = "encoder.albert_layer_groups.0.albert_layers.0"
        own = f"{at}.attention"
        scale = self.spec.head**-0.5
        self.heads("1", *(f"{own}.{x}" for x in ("query", "key", "value", "dense")), scale=scale)
        self.norm("1", "post1", f"{own}.LayerNorm")
        self.linear("1", "up", f"{at}.ffn")
        self.linear("1", "down", f"{at}.ffn_output")
        self.norm("1", "post2", f"{at}.full_layer_layer_norm")
        if self.spec.output == "hidden":
            self.linear("head", "pool", "pooler")
        else:
            self.words("predictions.dense", "predictions.LayerNorm", "predictions.decoder")

    def decoder(self) -> None:
        """llama, mistral, qwen2, qwen3 and gemma2."""
        gemma, qknorm = self.config.model_type == "gemma2", self.config.model_type == "qwen3"
        scale = self.spec.head**-0.5
        self.tables(tokens="embed_tokens")
        for part, i in self.layers():
            at = f"layers.{i}"
            own = f"{at}.self_attn"
            self.norm(part, "norm1", f"{at}.input_layernorm")
            names = (f"{own}.{x}_proj" for x in "qkvo")
            self.heads(part, *names, scale=1.0 if qknorm else scale)
            if qknorm:
                self.norm(part, "normq", f"{own}.q_norm", scale)
                self.norm(part, "normk", f"{own}.k_norm")
            if gemma:
                self.norm(part, "post1", f"{at}.post_attention_layernorm")
                self.norm(part, "norm2", f"{at}.pre_feedforward_layernorm")
                self.norm(part, "post2", f"{at}.post_feedforward_layernorm")
            else:
                self.norm(part, "norm2", f"{at}.post_attention_layernorm")
            self.gated(part, f"{at}.mlp")
        self.norm("head", "norm", "norm")
        self.unembedding("lm_head")

    def deepseek(self) -> None:
        self.tables(tokens="embed_tokens")
        for part, i in self.layers():
            at = f"layers.{i}"
            self.norm(part, "norm1", f"{at}.input_layernorm")
            self.latent(part, f"{at}.self_attn")
            self.norm(part, "norm2", f"{at}.post_attention_layernorm")
            if f"{at}.mlp.gate.weight" in self.state:
                self.experts(part, f"{at}.mlp")
            else:
                self.gated(part, f"{at}.mlp")
        self.norm("head", "norm", "norm")
        self.unembedding("lm_head")

    def latent(self, part: str, own: str) -> None:
        config, heads = self.config, self.spec.heads
        still, turned, v = config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim
        query = self.state[
            f"{own}.q_proj.weight" if config.q_lora_rank is None else f"{own}.q_b_proj.weight"
        ]
        query = query.reshape(heads, 1, still + turned, -1) * (still + turned) ** -0.5
        if config.q_lora_rank is not None:
            self.put(part, "A_Q", self.state[f"{own}.q_a_proj.weight"])
            self.norm(part, "normq", f"{own}.q_a_layernorm")
        self.put(part, "W_Q", query[:, :, :still])
        self.put(part, "R_Q", query[:, :, still:])
        joint = self.state[f"{own}.kv_a_proj_with_mqa.weight"]
        self.put(part, "A_K", joint[: config.kv_lora_rank])
        self.put(part, "R_K", joint[config.kv_lora_rank :])
        self.norm(part, "normk", f"{own}.kv_a_layernorm")
        joint = self.state[f"{own}.kv_b_proj.weight"].reshape(heads, 1, still + v, -1)
        self.put(part, "W_K", joint[:, :, :still])
        self.put(part, "W_V", joint[:, :, still:])
        self.output(part, f"{own}.o_proj")

    def experts(self, part: str, at: str) -> None:
        assert not self.state[f"{at}.gate.e_score_correction_bias"].any()
        self.put(part, "W_R", self.state[f"{at}.gate.weight"][:, None])
        gate, up = self.state[f"{at}.experts.gate_up_proj"].chunk(2, dim=1)
        self.put(part, "W_gate", gate)
        self.put(part, "W_up", up)
        scale = self.config.routed_scaling_factor
        self.put(part, "W_down", scale * self.state[f"{at}.experts.down_proj"])
        if self.spec.shared:
            self.gated(part, f"{at}.shared_experts", "S")
