"""`segre same` on designs that differ and functions that do not, and the reverse.

Random models of many families are given parts without effect (MLP units, layers, biases, copies of
key-value heads, a second table), or another family's way to store them. The transformers library
confirms in double precision that outputs stay, or that they do not where a part has an effect.
Every pair is tried as stored and after `move`, in float32 and bfloat16. A pair of equal functions
that is called different is wrong, and so is a pair of different ones that is called the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

from bench.faults.small_models import VOCABULARY, outputs_apart, save, seeded
from bench.faults.tally import Tally
from segre.checkpoint.commands import move, same

EQUAL = 1e-6  # outputs of the library this near are equal: some of its norms are in float32
SEEDS = 1
Weights = dict[str, torch.Tensor]
Values = dict[str, Any]

WRITES = (
    "o_proj",
    "down_proj",
    "c_proj",
    "fc2",
    "out_proj",
    "dense_4h_to_h",
    "output.dense",
    "attention.dense",
)
LLAMAS = ("llama", "mistral", "qwen2", "qwen3", "granite", "olmo2", "smollm3")
TIES = ("llama", "mistral", "qwen2", "qwen3", "granite", "gpt2", "gemma2", "gpt_neox", "bert")
UNITS = (*LLAMAS, "gpt2", "gpt_neox", "bert", "opt", "gemma2")
LAYERS = ("llama", "mistral", "qwen2", "qwen3", "granite", "olmo2", "gpt2", "gpt_neox", "opt")
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
CLASSES = {"gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM"}


def config(family: str, **more: Any) -> Any:
    """A small config of a family."""
    given: Values = {
        **{"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "intermediate_size": 52, "max_position_embeddings": 32},
        **{"num_key_value_heads": 2, "tie_word_embeddings": False, "pad_token_id": None},
        **{"bos_token_id": 0, "eos_token_id": 0, "ffn_dim": 52, "word_embed_proj_dim": 32},
        **{"head_dim": 8, "attention_dropout": 0.0, "n_inner": 52, "layer_norm_eps": 1e-5},
        "rms_norm_eps": 1e-6,
    }
    own: dict[str, Values] = {
        "mistral": {"sliding_window": None},
        "granite": {"attention_multiplier": 0.25, "logits_scaling": 2.0},
        "smollm3": {"no_rope_layers": [1, 1], "rope_parameters": _ROPE},
        "phi3": {"sliding_window": None},
        "gemma2": {"sliding_window": 16, "query_pre_attn_scalar": 8},
        "opt": {"tie_word_embeddings": True},
    }
    usual = transformers.AutoConfig.for_model(family)
    known = {*usual.to_dict(), *usual.attribute_map}
    given = {key: value for key, value in given.items() if key in known}
    return transformers.AutoConfig.for_model(family, **given | own.get(family, {}) | more)


def fresh(said: Any, seed: int) -> Any:
    """A model of a config, with random gains and biases."""
    family = said.model_type
    name = CLASSES.get(family) or type(said).__name__.replace("Config", "ForCausalLM")
    with seeded(seed), torch.no_grad():
        model = getattr(transformers, name)(said).eval()
        for weight in model.parameters():
            if weight.ndim > 1:
                weight *= 5
            else:
                weight += 0.3 * torch.randn_like(weight)
    return model


def rebuilt(said: Any, weights: Mapping[str, torch.Tensor]) -> Any:
    """A model with given weights."""
    model = fresh(said, 0)
    own = {key: value for key, value in weights.items() if key in model.state_dict()}
    model.load_state_dict(own)
    return model.eval()


def _of(said: Any, **more: Any) -> Any:
    """A config with other values."""
    given = said.to_dict() | more
    given.pop("layer_types", None)
    return transformers.AutoConfig.for_model(given.pop("model_type"), **given)


def _filled(small: Any, said: Any, seed: int) -> tuple[Weights, Weights]:
    """Random weights of a larger config, and those of a model."""
    return dict(fresh(said, seed).state_dict()), dict(small.state_dict())


# --- equal functions ------------------------------------------------------------------------------


def padded(family: str, seed: int, way: str, draw: int = 1) -> tuple[Any, Any]:
    """MLPs of 52 units, and of 64 in another order: the others write nothing, or read nothing.

    Or 12 of them are two halves each.
    """
    small = fresh(config(family), seed)
    width = {"gpt2": "n_inner", "opt": "ffn_dim"}.get(family, "intermediate_size")
    said = _of(small.config, **{width: 64})
    large, own = _filled(small, said, seed + draw)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(seed + draw))
    for key, value in large.items():
        if value.shape != own[key].shape:
            axis = next(i for i, n in enumerate(value.shape) if n != own[key].shape[i])
            writes = any(name in key for name in WRITES)
            if way != "halves" and writes == (way == "writes"):
                value.zero_()
            value.narrow(axis, 0, 52).copy_(own[key])
            if way == "halves":
                value.narrow(axis, 52, 12).copy_(own[key].narrow(axis, 0, 12))
                for start in (0, 52) if writes else ():
                    value.narrow(axis, start, 12).mul_(0.5)
            large[key] = value.index_select(axis, order)
        else:
            large[key] = own[key]
    return small, rebuilt(said, large)


def padded_twice(family: str, seed: int) -> tuple[Any, Any]:
    """Both with 12 dead units among 64, in different places and dead in different ways."""
    return padded(family, seed, "writes", 1)[1], padded(family, seed, "reads", 2)[1]


def copied_heads(family: str, seed: int) -> tuple[Any, Any]:
    """Two key-value heads, and four that are copies of them."""
    small = fresh(config(family), seed)
    said = _of(small.config, num_key_value_heads=4)
    large, own = _filled(small, said, seed)
    for key, value in large.items():
        if value.shape != own[key].shape:
            heads = own[key].reshape(2, 8, *own[key].shape[1:])
            own[key] = heads.repeat_interleave(2, dim=0).reshape(value.shape)
    return small, rebuilt(said, own)


def deeper(family: str, seed: int) -> tuple[Any, Any]:
    """One more layer, somewhere, that writes nothing."""
    small = fresh(config(family), seed)
    said = _of(small.config, num_hidden_layers=3)
    large, own = _filled(small, said, seed + 1)
    at = seed % 3
    out: Weights = {}
    for key, value in large.items():
        number = next((int(x) for x in key.split(".") if x.isdigit()), None)
        if number == at:
            if any(name in key for name in WRITES):
                value.zero_()
            out[key] = value
        elif number is None:
            out[key] = own[key]
        else:
            out[key] = own[key.replace(f".{number}.", f".{number - (number > at)}.")]
    return small, rebuilt(said, out)


def biased(pair: str, seed: int) -> tuple[Any, Any]:
    """No biases, and biases that are zero; of another family too."""
    first, _, second = pair.partition(" ")
    small = fresh(config(first), seed)
    keys = {"mlp": {"mlp_bias": True}, "all": {"attention_bias": True, "mlp_bias": True}}
    if second in keys or not second:
        said = _of(small.config, **keys.get(second, {"attention_bias": True}))
    else:
        said = config(second)
    large, own = _filled(small, said, seed)
    own = {key: own.get(key, torch.zeros_like(x)) for key, x in large.items()}
    return small, rebuilt(said, own)


def fused(family: str, seed: int) -> tuple[Any, Any]:
    """A family that stores queries, keys and values by themselves, and Phi-3, which joins them."""
    plain = {"attention_multiplier": 8**-0.5, "logits_scaling": 1.0}
    small = fresh(config(family, **plain if family == "granite" else {}), seed)
    own = dict(small.state_dict())
    for key, value in own.items():
        if key.endswith("_proj.bias"):
            value.zero_()
    out = {}
    for key in dict(fresh(config("phi3"), 0).state_dict()):
        if key.endswith("qkv_proj.weight"):
            parts = [own[key.replace("qkv_proj", f"{x}_proj")] for x in "qkv"]
            out[key] = torch.cat(parts)
        elif key.endswith("gate_up_proj.weight"):
            out[key] = torch.cat([own[key.replace("gate_up", x)] for x in ("gate", "up")])
        else:
            out[key] = own[key]
    return small, rebuilt(config("phi3"), out)


def _head(model: Any) -> torch.Tensor:
    return model.get_output_embeddings().weight  # type: ignore[no-any-return]


def untied(family: str, seed: int) -> tuple[Any, Any]:
    """One table that is read twice, and two equal tables."""
    small = fresh(config(family, tie_word_embeddings=True), seed)
    return small, rebuilt(_of(small.config, tie_word_embeddings=False), small.state_dict())


# --- different functions --------------------------------------------------------------------------


def other_table(family: str, seed: int, size: float) -> tuple[Any, Any]:
    """One table that is read twice, and two tables that differ."""
    small, large = untied(family, seed)
    with torch.no_grad():
        table = _head(large)
        with seeded(seed):
            table += size * table.std() * torch.randn_like(table)
    return small, large


def changed(pair: Callable[[str, int], tuple[Any, Any]]) -> Callable[[str, int], tuple[Any, Any]]:
    """A pair of equal functions, and then one value matrix of the second by 5 %."""

    def made(family: str, seed: int) -> tuple[Any, Any]:
        small, large = pair(family, seed)
        names = ("v_proj.weight", "c_attn.weight", "query_key_value.weight", "value.weight")
        with torch.no_grad():
            every = [x for key, x in large.named_parameters() if key.endswith(names)]
            rows = every[0 if seed % 3 else -1]  # not those of a layer that writes nothing
            if large.config.model_type == "gpt2":  # which stores the transposed matrix
                rows = rows.T
            rows[-8:] *= 1.05  # values are last where they are stored with queries and keys
        return small, large

    return made


@dataclass(frozen=True)
class Kind:
    """One way to make a pair."""

    name: str
    families: tuple[str, ...]
    pair: Callable[[str, int], tuple[Any, Any]]
    equal: bool = True


_DEAD = "dead MLP units"
_BIASED = (
    *("llama", "llama mlp", "llama all", "llama qwen2", "mistral qwen2", "mistral llama"),
    *("olmo2", "granite", "granite mlp", "smollm3"),
)
KINDS = (
    Kind(f"{_DEAD} that write nothing", UNITS, lambda f, s: padded(f, s, "writes")),
    Kind(f"{_DEAD} that read nothing", UNITS, lambda f, s: padded(f, s, "reads")),
    Kind(f"{_DEAD} in both", UNITS, padded_twice),
    Kind("MLP units in two halves", UNITS, lambda f, s: padded(f, s, "halves")),
    Kind("copied key-value heads", (*LLAMAS, "gemma2"), copied_heads),
    Kind("a layer that writes nothing", LAYERS, deeper),
    Kind("biases of zero", _BIASED, biased),
    Kind("joined tensors (Phi-3)", ("llama", "mistral", "qwen2", "granite", "smollm3"), fused),
    Kind("tied and untied, equal tables", TIES, untied),
    Kind("tied and untied, other tables", TIES, lambda f, s: other_table(f, s, 1.0), False),
    Kind("tied and untied, tables 3 % apart", TIES, lambda f, s: other_table(f, s, 0.03), False),
    Kind(
        f"{_DEAD}, and a value matrix by 5 %",
        UNITS,
        changed(lambda f, s: padded(f, s, "writes")),
        False,
    ),
    Kind("copied heads, and a value matrix by 5 %", LLAMAS, changed(copied_heads), False),
    Kind("a silent layer, and a value matrix by 5 %", LAYERS, changed(deeper), False),
)


def verdicts(kind: Kind, family: str, dtype: str, seed: int) -> Iterator[tuple[str, str]]:
    """As stored and moved: the verdict, and its reason; the library is asked first."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        one, two = kind.pair(family, seed)
        first = save(one, folder / "one", dtype)
        second = save(two, folder / "two", dtype)
        apart = outputs_apart(first, second)
        if (apart < EQUAL) != kind.equal:
            raise AssertionError(f"{kind.name}, {family}: the library's outputs differ by {apart}")
        found = same(first, second)
        yield found.verdict, found.reason
        move(second, folder / "moved", seed=seed, report=False)
        found = same(first, folder / "moved")
        yield found.verdict, found.reason


def tally(quick: bool) -> list[Tally]:
    """All kinds and families, in both types."""
    torch.set_num_threads(1)
    rows = []
    for number, kind in enumerate(KINDS):
        families = kind.families[number % 3 :: 5][:1] if quick else kind.families
        for dtype in ("float32", "bfloat16"):
            if quick and (number % 2 == 0) != (dtype == "float32"):
                continue
            counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
            for family in families:
                for seed in range(1 if quick else SEEDS):
                    for count, (verdict, _) in zip(
                        counts, verdicts(kind, family, dtype, seed), strict=True
                    ):
                        count[verdict] += 1
            for way, count in zip(("as stored", "moved"), counts, strict=True):
                rows.append(_row(kind, dtype, way, count))
    return rows


def _row(kind: Kind, dtype: str, way: str, count: Counter[str]) -> Tally:
    tried, undecided = sum(count.values()), count["undecided"]
    wrong = count["different"] if kind.equal else tried - count["different"] - undecided
    note = ", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items()))
    word = "equal" if kind.equal else "different"
    return Tally(f"{word}: {kind.name}; {way}, {dtype}", tried, wrong, note)
