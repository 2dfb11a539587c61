"""The list of families, used by every command, and what the keys of their configs mean.

Keys that `config` reads become a spec, and specs are compared. Keys of the list below change no
output. All others are unknown: two configs that differ in one of them may or may not have the same
function.

>>> from_config({"model_type": "gpt2"}, "gpt2").parameters
124439808
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from segre.errors import SpecError
from segre.models.config import ONLY, Config
from segre.models.family import Family
from segre.models.modules import MODULES
from segre.models.rope import KEYS as ROPE_KEYS
from segre.transformer.spec import Transformer
from segre.values import choice, quote

# The modules of this room with families, in the order in which pages show them.
MODULE_NAMES = (
    *("gpt2", "gpt_neox", "gpt_oss", "opt", "bert", "roberta", "distilbert", "electra"),
    *("modernbert", "llama", "mistral", "minimax", "qwen", "gemma", "smollm3", "granite", "phi3"),
    *("olmo2", "deepseek_v3", "vit"),
)
_EVERY = [
    family
    for name in MODULE_NAMES
    for family in vars(import_module(f"segre.models.{name}")).values()
    if isinstance(family, Family)
]
FAMILIES = {family.name: family for family in _EVERY}
MODEL_TYPES = {family.model_type: family for family in _EVERY}
PRESETS = {name: config for family in _EVERY for name, config in family.presets.items()}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family of a config, or of a module of torch.nn."""
    given = config.get("model_type")
    if isinstance(given, str) and given in MODULES:
        return MODULES[given]
    if "model_type" not in config:
        raise SpecError(f"model_type is missing; allowed: {', '.join(MODEL_TYPES)}")
    if isinstance(config.get("text_config"), Mapping) and given not in MODEL_TYPES:
        raise SpecError(
            f"model_type: {quote(str(given))} has a language model inside, which is read if "
            "config.json is what is here in text_config"
        )
    return MODEL_TYPES[choice("model_type", config["model_type"], tuple(MODEL_TYPES))]


def from_config(config: Mapping[str, Any], quoted: str, *, defaults: bool = True) -> Transformer:
    """The architecture of a config; `quoted` is how errors name it.

    Missing sizes are taken from the library's config class or, with `defaults` = False, refused by
    name.
    """
    try:
        family = family_of(config)
        keys = Config(config, family)
        values = family.read(keys)
        if keys.missing and not defaults:
            raise SpecError(
                f"the config of {family.model_type} lacks {', '.join(keys.missing)}; add them, or "
                "use the defaults of the library's config class (--defaults; in Python "
                "architecture(config, defaults=True))"
            )
    except SpecError as error:
        raise SpecError(f"spec {quote(quoted)}: {error}") from None
    return Transformer.from_mapping(values, quoted, family.inline(values))


# --- keys that may change the function --------------------------------------------------------

_READ = ("model_type", "architectures")
_ROTARY = ("layer_types", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings")
_ROPE = ("rope_scaling", "rope_parameters")

# Keys that do not affect the outputs on given tokens.
IRRELEVANT = frozenset(
    (
        # training
        *("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop"),
        *("hidden_dropout_prob", "resid_pdrop", "classifier_dropout", "classifier_dropout_prob"),
        *("dropout", "hidden_dropout", "initializer_range", "initializer_factor"),
        *("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "layerdrop", "init_std"),
        *("summary_last_dropout",),
        *("gradient_checkpointing", "tf_legacy_loss", "loss_type", "router_aux_loss_coef"),
        *("router_jitter_noise", "embedding_dropout", "mlp_dropout", "initializer_cutoff_factor"),
        *("sparse_prediction", "sparse_pred_ignore_index"),
        # how it is stored and computed
        *("dtype", "torch_dtype", "use_bfloat16", "use_cache", "pretraining_tp", "torchscript"),
        *("chunk_size_feed_forward", "reorder_and_upcast_attn", "attn_implementation"),
        *("_attn_implementation", "_attn_implementation_internal", "_attn_implementation_autoset"),
        *("_flash_attn_2_enabled", "use_flash_attention_2", "experts_implementation"),
        *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        "_sliding_window_pattern",  # written by the library, which reads it without the underscore
        # tokens with a meaning for generation, not for the model
        *("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id"),
        *("mask_token_id", "unk_token_id", "decoder_start_token_id", "forced_bos_token_id"),
        *("forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids"),
        # generation
        *("do_sample", "temperature", "top_k", "top_p", "typical_p", "num_beams", "max_length"),
        *("min_length", "early_stopping", "length_penalty", "repetition_penalty"),
        *("num_beam_groups", "diversity_penalty", "no_repeat_ngram_size"),
        *(
            "encoder_no_repeat_ngram_size",
            "num_return_sequences",
            "exponential_decay_length_penalty",
        ),
        "remove_invalid_values",
        # names, versions, and heads that these classes do not have
        *("_name_or_path", "name_or_path", "transformers_version", "_commit_hash"),
        "tokenizer_class",
        *("prefix", "task_specific_params", "finetuning_task", "problem_type", "id2label"),
        *("label2id", "num_labels", "transformers.js_config", "summary_type", "summary_use_proj"),
        *("summary_activation", "summary_proj_to_labels", "summary_first_dropout", "n_ctx"),
        # what is returned besides
        *("output_attentions", "output_hidden_states", "output_scores", "return_dict"),
        *("output_router_logits", "num_nextn_predict_layers", "num_mtp_layers"),
        *("return_dict_in_generate", "use_return_dict", "keys_to_ignore_at_inference"),
    )
)


def unknown_differences(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """Keys in which two configs of one model type differ and that may change the function.

    null and an absent key are the same.

    >>> one = {"model_type": "llama", "use_cache": True, "residual_multiplier": 0.2}
    >>> unknown_differences(one, {"model_type": "llama", "residual_multiplier": None})
    ['residual_multiplier']
    """
    known = _known(str(one["model_type"])) | _known(str(two["model_type"])) | IRRELEVANT
    found = [key for key in _differing(one, two) if key not in known]
    return [name for key in found for name in _inside(one, two, key)]


def _known(kind: str) -> set[str]:
    """The keys of a model type that become part of a spec, or are refused."""
    family = family_of({"model_type": kind})
    read = {*_READ, *family.also, *family.defaults, *ONLY, *family.only}
    return read | ({*_ROTARY} if family.rotary else set())


def _inside(one: Mapping[str, Any], two: Mapping[str, Any], key: str) -> list[str]:
    """For rotary keys, the parts that the library does not know; otherwise the key itself."""
    a, b = (config.get(key) or {} for config in (one, two))
    if key not in _ROPE or not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return [key]
    return [f"{key}.{name}" for name in _differing(a, b) if name not in ROPE_KEYS]


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted({*one, *two}):
        if one.get(key) != two.get(key):
            yield key
