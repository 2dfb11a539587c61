"""Every option of every family's config class: read as the library does, or refused by name?

For each family the library's own config class says which keys there are, and what types they have.
Each key of a tiny config is changed, one at a time: flags to the other value, names to every name
that the library knows, numbers to others. The library builds the model, with random weights, and
runs it in double precision. segre must compute the same outputs from its files, or refuse the
config in one line that names the key. Each class of the family is tried in the same way, and each
family's config with all of its defaults must be readable.
"""

from __future__ import annotations

import importlib
import inspect
import random
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from bench.faults.tally import Tally
from segre.checkpoint.gguf import quiet
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import furthest, outputs
from segre.errors import SegreError
from segre.models.registry import MODEL_TYPES, from_config
from segre.models.rope import KEYS
from segre.transformer.forward import Tokens

CLOSE = 1e-10
LENGTH, BATCH = 7, 3
QUICK = 45  # options tried by the tests

# Sizes under all names that config classes have for them: small, and different from each other.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "n_embd", "dim"), 16),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 3),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads"), 4),
    **dict.fromkeys(("intermediate_size", "n_inner", "hidden_dim", "ffn_dim"), 10),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 12),
    **{"num_key_value_heads": 2, "head_dim": 4, "vocab_size": 11, "type_vocab_size": 2},
    **{"embedding_size": 6, "word_embed_proj_dim": 16, "local_attention": 5},
    **{"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 5, "shared_expert_intermediate_size": 3, "n_group": 1},
    **{"topk_group": 1, "kv_lora_rank": 6, "q_lora_rank": 8, "qk_nope_head_dim": 4},
    **{"qk_rope_head_dim": 4, "v_head_dim": 4, "first_k_dense_replace": 1, "n_shared_experts": 1},
    **{"image_size": 6, "patch_size": 2, "num_channels": 2, "mlp_ratio": 2},
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 1),
    "query_pre_attn_scalar": 5,
}
# Of which some classes need others than that.
OWN: dict[str, dict[str, Any]] = {
    "deepseek_v3": {"num_key_value_heads": 4},
    "gpt_neox": {"rotary_pct": 0.5},
    "phi3": {"original_max_position_embeddings": 12},
}
ROPES = (
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 3},
    {
        **{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 4},
        **{"low_freq_factor": 0.5, "high_freq_factor": 4.0},
    },
    {"rope_type": "proportional"},
    {"rope_type": "default", "rope_theta": 999.44203},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
)
KINDS = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
WORDS = ("absolute", "relative_key", "single_label_classification", "regression", "mean", "cls")
OUTPUTS = ("prediction_logits", "logits", "last_hidden_state")
PAIRS = ("seq_relationship_logits", "sop_logits")
ASIDE = ("transformers_version", "_name_or_path", "model_type", "architectures", "dtype")


@dataclass
class Counts:
    """What happened to the options of all families."""

    equal: int = 0
    changed: int = 0  # of these: the library's outputs are not those of the unchanged config
    refused: int = 0
    impossible: int = 0  # the library itself refuses, or cannot run
    wrong: list[str] = field(default_factory=list)


def tally(quick: bool) -> list[Tally]:
    """Try all options, or some that are drawn at random."""
    every = [(kind, change) for kind in MODEL_TYPES for change in options(kind)]
    classes = [(kind, {"architectures": [name]}) for kind in MODEL_TYPES for name in models(kind)]
    if quick:
        every = random.Random(0).sample(every, QUICK)
        classes = random.Random(1).sample(classes, QUICK // 3)
    unread = [kind for kind in MODEL_TYPES if said({"model_type": kind})]
    return [
        _counted("an option of a config class changed", every, quick),
        _counted("another class of the library", classes, quick),
        Tally(
            "config with all the defaults of the library",
            len(MODEL_TYPES),
            len(unread),
            "; ".join(unread) or "always read",
        ),
    ]


def _counted(name: str, every: list[tuple[str, dict[str, Any]]], quick: bool) -> Tally:
    counts = Counts()
    before: dict[str, np.ndarray | None] = dict.fromkeys(MODEL_TYPES) if quick else {}
    for kind, change in every:
        if kind not in before:
            before[kind] = run(kind, {}, [])
        attempt(kind, change, before[kind], counts)
    other = "" if quick else f" ({counts.changed:,} with other outputs)"
    note = (
        f"{counts.equal:,} as the library{other}, "
        f"{counts.refused:,} refused by name, {counts.impossible:,} the library refuses"
    )
    tried = counts.equal + counts.refused + len(counts.wrong)
    return Tally(name, tried, len(counts.wrong), "; ".join(counts.wrong[:5]) or note)


# --- options --------------------------------------------------------------------------------------


def defaults(kind: str) -> dict[str, Any]:
    """What the library's config class has where nothing is said, with all of its keys."""
    import transformers

    known: dict[str, Any] = transformers.AutoConfig.for_model(kind).to_dict()
    return {key: known.get(key) for key in {**_types(kind), **known} if key not in ASIDE}


def _types(kind: str) -> dict[str, Any]:
    """The types of the keys that the config class declares itself."""
    import transformers

    return dict(type(transformers.AutoConfig.for_model(kind)).__annotations__)


def small(kind: str) -> dict[str, Any]:
    """A tiny config, otherwise with the library's defaults."""
    known = defaults(kind)
    own = {key: value for key, value in SMALL.items() if key in known}
    if "pad_token_id" in own and kind not in ("roberta", "xlm-roberta"):
        own["pad_token_id"] = None
    return own | OWN.get(kind, {})


def options(kind: str) -> Iterator[dict[str, Any]]:
    """Changes of the tiny config, each of one key."""
    now, types = defaults(kind) | small(kind), _types(kind)
    for key, value in now.items():
        for other in _values(key, value, types.get(key)):
            yield {key: other}


def _values(key: str, now: Any, declared: Any) -> Iterator[Any]:
    """Other values of a key."""
    from transformers.activations import ACT2FN

    kinds = get_args(declared) or (declared,)
    if "rope" in key and (isinstance(now, dict) or dict in kinds):
        yield from ({"rope_theta": 10_000.0, **rope} for rope in ROPES)
    elif key == "layer_types" or key.endswith("_layer_types"):
        yield from ([one, other, one] for one in KINDS for other in KINDS)
    elif list in kinds or isinstance(now, list) or "list[" in str(declared):
        yield from ([], [0], [1], [2], [0, 1, 1], [1, 0, 1])
    elif isinstance(now, bool) or bool in kinds:
        yield from (other for other in (True, False) if other is not now)
    elif isinstance(now, str) or str in kinds:
        yield from (name for name in (ACT2FN if "act" in key else WORDS) if name != now)
    elif isinstance(now, float) or (float in kinds and int not in kinds):
        yield from (other for other in (0.0, 0.5, 1.0, 2.5) if other != now)
    elif isinstance(now, int) or int in kinds:
        near = (now - 1, now + 1, 2 * now) if isinstance(now, int) and now else (1, 2, 4)
        yield from (None, 0, *near)
    elif now is None:
        yield from (True, 2, 0.5)


def models(kind: str) -> list[str]:
    """The classes of the library that take a config of this kind and call themselves models."""
    import transformers

    settings = transformers.AutoConfig.for_model(kind)
    home = type(settings).__module__.replace("configuration_", "modeling_")
    every = vars(importlib.import_module(home)).items()
    return sorted(
        name
        for name, found in every
        if inspect.isclass(found)
        and issubclass(found, transformers.PreTrainedModel)
        and found.__module__ == home
        and not name.endswith("PreTrainedModel")
    )


# --- one option -----------------------------------------------------------------------------------


def attempt(kind: str, change: dict[str, Any], before: Any, counts: Counts) -> None:
    """Try one, and count what happened."""
    what = f"{kind} {change}"
    config = small(kind) | change
    refused = said({"model_type": kind, **config})
    if refused:
        inside = [own for value in change.values() if isinstance(value, dict) for own in value]
        keys = {*defaults(kind), *small(kind), *inside, *KEYS, "architectures"}
        if len(refused.splitlines()) == 1 and any(key in refused for key in keys):
            counts.refused += 1
        elif run(kind, change, []) is None:
            counts.impossible += 1
        else:
            counts.wrong.append(f"{what}: {refused}")
        return
    ours: list[Any] = []
    theirs = run(kind, change, ours)
    if theirs is None:
        counts.impossible += 1
        return
    (mine,) = ours
    if isinstance(mine, str):  # what only files tell
        if len(mine.splitlines()) == 1 and next(iter(change)) in mine:
            counts.refused += 1
        else:
            counts.wrong.append(f"{what}: {mine}")
    elif mine.shape != theirs.shape or not furthest(theirs, mine) < CLOSE:
        apart = furthest(theirs, mine) if mine.shape == theirs.shape else (mine.shape, theirs.shape)
        counts.wrong.append(f"{what}: outputs differ by {apart}")
    else:
        counts.equal += 1
        same = before is not None and before.shape == theirs.shape
        counts.changed += not (same and furthest(before, theirs) < CLOSE)


def said(config: dict[str, Any]) -> str:
    """With which words a config is refused; empty if it is read."""
    try:
        from_config(config, "config")
    except SegreError as error:
        return str(error)
    return ""


def run(kind: str, change: dict[str, Any], ours: list[Any]) -> np.ndarray | None:
    """The library's outputs, or None if it has none; segre's outputs, or its words, go to `ours`.

    The list is empty before; what segre says is added to it.
    """
    import torch
    import transformers

    from bench.double import Double

    given = small(kind) | change
    family = MODEL_TYPES[kind]
    name = given.pop("architectures", [(*family.head_classes, family.base_class)[0]])[0]
    slow = {"attn_implementation": "eager", "experts_implementation": "eager"}
    with quiet(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            settings = transformers.AutoConfig.for_model(kind, **given, **slow)
            with Double():
                model = getattr(transformers, name)(settings).double().eval()
            generator = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for weight in model.parameters():
                    drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                    weight.copy_(0.8 * drawn)
            inputs, tokens = _inputs(settings)
            with torch.no_grad(), Double():
                theirs = _arranged(model, inputs)
            model.save_pretrained(folder)
        except Exception:  # whatever the library raises where it cannot run
            return None
        if theirs is None or not np.isfinite(theirs).all():
            return None
        try:
            with Model.open(folder) as found:
                if tokens.types is not None and not found.spec.types:
                    tokens = Tokens(tokens.words)
                ours.append(outputs(found, tokens))
        except SegreError as error:
            ours.append(str(error))
    return theirs


def _inputs(settings: Any) -> tuple[dict[str, Any], Tokens]:
    """Random inputs as the library takes them, and as segre does."""
    import torch

    rng = np.random.default_rng(0)
    if hasattr(settings, "patch_size"):
        size, patch = (
            tuple(x) if isinstance(x, list | tuple) else (x, x)
            for x in (settings.image_size, settings.patch_size)
        )
        pixels = torch.tensor(rng.standard_normal((BATCH, settings.num_channels, *size)))
        columns = torch.nn.functional.unfold(pixels, patch, stride=patch).numpy()
        first = np.zeros((*columns.shape[:2], 1))
        return {"pixel_values": pixels}, Tokens(np.concatenate([first, columns], axis=2))
    words = rng.integers(3, settings.vocab_size, size=(BATCH, LENGTH))  # no token for padding
    inputs = {"input_ids": torch.tensor(words)}
    count = getattr(settings, "type_vocab_size", 0)
    if not count:
        return inputs, Tokens(words)
    types = rng.integers(count, size=words.shape)
    return {**inputs, "token_type_ids": torch.tensor(types)}, Tokens(words, types)


def _arranged(model: Any, inputs: dict[str, Any]) -> np.ndarray | None:
    """The library's outputs as segre arranges them: (batch, rows, tokens)."""
    import torch

    alone = [{key: x[i : i + 1] for key, x in inputs.items()} for i in range(BATCH)]
    every = [model(**one) for one in alone]  # without padding, some classes take one at a time

    def joined(key: str) -> Any:
        return torch.cat([one[key] for one in every]) if key in every[0] else None

    if "start_logits" in every[0]:
        return np.asarray(torch.stack([joined("start_logits"), joined("end_logits")], dim=1))
    found = next((x for key in OUTPUTS if (x := joined(key)) is not None), None)
    if found is None:
        return None
    if found.ndim == 2:  # one label for every token, or labels of one token
        per_token = "input_ids" in inputs and found.shape[1] == LENGTH
        return np.asarray(found[:, None] if per_token else found[..., None])
    columns = found.transpose(1, 2)
    pooled = joined("pooler_output")
    if pooled is not None and not torch.equal(pooled, columns[..., 0]):  # weights of its own
        columns = torch.cat([columns, pooled[..., None]], dim=2)
    if (labels := next((x for key in PAIRS if (x := joined(key)) is not None), None)) is not None:
        room = torch.zeros(len(columns), columns.shape[1], 1, dtype=columns.dtype)
        room[:, : labels.shape[1], 0] = labels
        columns = torch.cat([columns, room], dim=2)
    return np.asarray(columns)
