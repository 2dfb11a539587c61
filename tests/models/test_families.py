"""Architectures by name, with the transformers library as the independent count of weights."""

import copy
import json
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import transformers

from segre.errors import SpecError
from segre.models import KINDS, POLYNOMIALS, PRESETS, STACKS, architecture, from_config
from segre.models.registry import MODEL_TYPES
from segre.spec import Network
from segre.transformer.spec import Transformer
from segre.values import LONGEST_FILE
from support.random_models import HEADS, WORDS

TOTALS = {  # known from elsewhere; of deepseek-v3 without its module for the second next token
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base-uncased": 109_514_298,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "smollm2-135m": 134_515_008,
    "minilm-l6-v2": 22_713_216,
    "mistral-7b-v0.1": 7_241_732_096,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "mistral-7b-v0.3": 7_248_023_552,
    "qwen2-0.5b": 494_032_768,
    "qwen2-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "gpt-neox-20b": 20_554_567_680,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-3-270m": 268_098_176,
    "gemma-3-1b": 999_885_952,
    "smollm3-3b": 3_075_098_624,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "deepseek-v3": 671_026_404_352,
}


def library_count(config: dict[str, Any]) -> int:
    """Parameters of the library's model, tied ones once, without allocating any."""
    given = copy.deepcopy(config)
    model_type = given.pop("model_type")
    name = (given.get("architectures") or HEADS[model_type])[0]
    settings = transformers.AutoConfig.for_model(model_type, **given)
    with torch.device("meta"):
        model = getattr(transformers, name)(settings)
    total = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())
    if "b_U" in MODEL_TYPES[model_type].copies.values() and name in WORDS[model_type]:
        # Untied, the library keeps a second bias of the vocabulary that nothing reads.
        total -= 0 if settings.tie_word_embeddings else settings.vocab_size
    return int(total)


def refusal(source: Any) -> str:
    """The one line with which a source is refused."""
    with pytest.raises(SpecError) as caught:
        architecture(source)
    line = str(caught.value)
    assert line
    assert len(line.splitlines()) == 1
    return line


# --- counts, against the library ----------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_as_many_weights_as_the_library_says(name: str) -> None:
    net = architecture(name)
    assert net.parameters == library_count(PRESETS[name])
    assert net.parameters == TOTALS.get(name, net.parameters)


@pytest.mark.parametrize("model_type", HEADS)
def test_missing_keys_are_as_in_the_library(model_type: str) -> None:
    for head in (None, *HEADS[model_type]):
        config = {"model_type": model_type} | ({"architectures": [head]} if head else {})
        net = from_config(config, "config")
        assert net.parameters == library_count(config)
        classes = MODEL_TYPES[model_type].label_classes
        single = any(found.name == head and found.count for found in classes)
        wanted = "logits" if single else "softmax"
        assert net.output == ("hidden" if head == HEADS[model_type][1] else wanted)
        known = transformers.AutoConfig.for_model(model_type)
        assert known.max_position_embeddings in (net.positions, net.t)
        keys = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
        eps = [getattr(known, key) for key in keys if hasattr(known, key)]
        assert eps in ([], [float(net.eps)])  # or a number in the library's code


def random_config(model_type: str, rng: Random) -> dict[str, Any]:
    """A small config, with some keys left out."""
    heads, head = rng.choice([1, 2, 3, 4, 6]), rng.choice([2, 4, 6])
    kv = rng.choice([k for k in range(1, heads + 1) if heads % k == 0])
    sizes = {
        "hidden_size": heads * head,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.randint(1, 5),
        "vocab_size": rng.randint(1, 50),
        "max_position_embeddings": rng.randint(1, 20),
        "intermediate_size": rng.randint(1, 30),
        "tie_word_embeddings": rng.random() < 0.5,
    }
    for key in ("vocab_size", "max_position_embeddings", "intermediate_size"):
        if rng.random() < 0.15:
            del sizes[key]
    if rng.random() < 0.3:
        del sizes["tie_word_embeddings"]
    extra: dict[str, Any] = {}
    if MODEL_TYPES[model_type].rotary:
        sizes["pad_token_id"] = None  # that of some default configs is beyond a small vocabulary
    if model_type == "gpt2":
        sizes.pop("intermediate_size", None)
        extra["n_inner"] = rng.choice([None, 5, 16])
        if rng.random() < 0.5:
            sizes["n_embd"] = sizes.pop("hidden_size")
            sizes["n_head"] = sizes.pop("num_attention_heads")
    if model_type == "opt":
        extra["ffn_dim"] = sizes.pop("intermediate_size", 5)
        extra["do_layer_norm_before"] = rng.random() < 0.5
    if model_type == "distilbert" and "intermediate_size" in sizes:
        extra["hidden_dim"] = sizes.pop("intermediate_size")
    if model_type in ("roberta", "xlm-roberta"):
        sizes |= {"vocab_size": rng.randint(2, 50), "max_position_embeddings": rng.randint(3, 20)}
        extra["type_vocab_size"] = rng.randint(1, 4)
    if model_type in ("bert", "albert"):
        extra["type_vocab_size"] = rng.randint(1, 4)
        extra["hidden_act"] = rng.choice(["gelu", "relu", "gelu_new", "silu"])
    if model_type in ("albert", "electra"):
        extra["embedding_size"] = rng.choice([1, 3, heads * head, 20])
    family = MODEL_TYPES[model_type]
    if model_type == "gpt_neox":
        extra["rotary_pct"] = rng.choice([1.0, 2 / head])
        extra["use_parallel_residual"] = rng.random() < 0.5
    elif model_type == "modernbert":
        extra |= {"decoder_bias": rng.random() < 0.5, "global_attn_every_n_layers": kv}
    elif family.rotary and model_type != "deepseek_v3":
        extra["num_key_value_heads"] = kv
        extra["head_dim"] = rng.choice([2, 4, 8])
        if model_type != "gemma3_text":
            extra["rope_parameters"] = {"rope_theta": 10000.0, "rope_type": "default"}
        if family.defaults["head_dim"] is None and rng.random() < 0.5:
            del extra["head_dim"]
        for key in ("attention_bias", "mlp_bias"):
            if key in family.defaults:
                extra[key] = rng.random() < 0.5
    if model_type == "deepseek_v3":
        experts = rng.randint(1, 6)
        extra = {
            "num_key_value_heads": heads,
            "q_lora_rank": rng.choice([None, 1, 5]),
            "kv_lora_rank": rng.randint(1, 6),
            "qk_nope_head_dim": rng.randint(1, 5),
            "qk_rope_head_dim": rng.choice([2, 4]),
            "v_head_dim": rng.randint(1, 5),
            "first_k_dense_replace": rng.randint(0, 6),
            "n_routed_experts": experts,
            "num_experts_per_tok": rng.randint(1, experts),
            "n_shared_experts": rng.randint(1, 2),
            "moe_intermediate_size": rng.randint(1, 9),
            "rope_interleave": rng.random() < 0.5,
            "n_group": 1,
            "topk_group": 1,
        }
    if model_type == "gpt_oss":
        experts = rng.randint(1, 6)
        extra["num_local_experts"], extra["num_experts_per_tok"] = experts, rng.randint(1, experts)
        extra["attention_bias"] = rng.random() < 0.5
    if model_type == "minimax":
        kinds = ["full_attention", "linear_attention"]
        every = [rng.choice(kinds) for _ in range(sizes["num_hidden_layers"])]
        extra["layer_types"] = rng.choice([None, every])
        sizes["max_position_embeddings"] = rng.randint(2, 20)
        extra["hidden_act"] = "silu"
    if model_type in ("mixtral", "minimax", "qwen3_moe"):
        experts = rng.randint(1, 6)
        extra |= {"num_experts_per_tok": rng.randint(1, experts)}
        extra[rng.choice(["num_local_experts", "num_experts"])] = experts
    if model_type == "qwen3_moe":
        first = rng.randint(0, sizes["num_hidden_layers"])
        extra |= {
            "num_experts": rng.choice([0, *[extra.pop("num_local_experts", experts)] * 3]),
            "moe_intermediate_size": rng.randint(1, 9),
            "mlp_only_layers": list(range(first)),
            "decoder_sparse_step": rng.choice([1, 1, 6]),
        }
    if "vocab_size" in sizes:
        sizes["vocab_size"] = max(2, sizes["vocab_size"])
    return {
        "model_type": model_type,
        "architectures": [rng.choice(HEADS[model_type])],
        **sizes,
        **extra,
        **rng.choice([{}, {"num_labels": 2}, {"id2label": {"0": "no", "1": "yes"}}]),
    }


@pytest.mark.parametrize("model_type", HEADS)
def test_random_configs_have_as_many_weights_as_the_library_says(model_type: str) -> None:
    rng = Random(model_type)
    for _ in range(40):
        config = random_config(model_type, rng)
        net = architecture(config, defaults=True)
        assert net.parameters == library_count(config), config
        assert architecture(str(net)) == net


# --- what configs say ---------------------------------------------------------------------


def test_a_preset_says_what_its_config_says() -> None:
    net = architecture("llama-3.2-1b")
    assert isinstance(net, Transformer)
    assert (net.d, net.layers, net.heads, net.kv, net.head, net.ff) == (2048, 16, 32, 8, 64, 8192)
    assert (net.base, net.rotary, net.t, net.tied, net.final) == (500000, 64, 131072, True, True)
    assert (net.eps, net.causal, net.output) == (Fraction(1, 10**5), True, "softmax")


def test_bert_has_a_pooler_or_a_transform() -> None:
    bare = from_config({"model_type": "bert", "architectures": ["BertModel"]}, "x")
    words = from_config({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "x")
    assert (bare.pooler, bare.transform, bare.outbias, bare.tied) == (True, False, False, False)
    assert (words.pooler, words.transform, words.outbias, words.tied) == (False, True, True, True)
    assert not bare.causal
    assert bare.place == "post"


def test_the_scales_and_caps_of_gemma() -> None:
    net = from_config({"model_type": "gemma2", "attn_logit_softcapping": None}, "x")
    assert (net.cap, net.logitcap, net.embscale, net.mlp) == (
        Fraction(0),
        Fraction(30),
        True,
        "geglu-tanh",
    )
    bare = from_config({"model_type": "gemma2", "architectures": ["Gemma2Model"]}, "x")
    assert (bare.cap, bare.logitcap, bare.embscale, bare.final) == (
        Fraction(50),
        Fraction(0),
        True,
        True,
    )


def test_a_deepseek_without_experts_is_dense() -> None:
    config = {"model_type": "deepseek_v3", "num_hidden_layers": 3, "q_lora_rank": None}
    net = from_config(config, "x")
    assert (net.experts, net.dense, net.ff, net.qrank) == (0, 0, 18432, 0)
    assert from_config({**config, "first_k_dense_replace": 0}, "x").ff == 0


# --- names, files and directories ---------------------------------------------------------


def test_the_front_door_takes_every_kind() -> None:
    net = architecture("lightning/d=4,4,4/a=2/t=3")
    assert isinstance(net, Network)
    assert architecture(net) is net
    assert architecture(net.document()) == net
    small = architecture("transformer/d=4/heads=2/norm=rms/mlp=swiglu/ff=6/t=3")
    assert isinstance(small, Transformer)
    assert architecture(small) is small
    assert architecture(small.document()) == small
    assert architecture({"kind": "llama", "d": 8, "ff": 16}) == architecture("llama/d=8/ff=16")


@pytest.mark.parametrize("family", [MODEL_TYPES[name].name for name in HEADS])
def test_families_need_few_keys(family: str) -> None:
    for rest in ("", "/vocab=11", "/vocab=11/output=hidden", "/mlp=none/ff=0", "/eps=1e-5"):
        ff = "" if "ff=" in rest else "/ff=12"
        net = architecture(f"{family}/d=8/layers=2/heads=2/t=3{ff}{rest}")
        assert isinstance(net, Transformer)
        assert architecture(str(net)) == net
        assert net.eps == (Fraction(1, 10**5) if "eps" in rest else 0)
        assert net.output == ("softmax" if rest == "/vocab=11" else "hidden")


def test_a_family_is_its_keys() -> None:
    def same(short: str, long: str) -> None:
        assert architecture(short) == architecture(f"transformer/{long}")

    rotary = "norm=rms/mlp=swiglu/pos=rope/causal=true"
    same("llama/d=8/heads=4/kv=2/ff=16", f"d=8/heads=4/kv=2/ff=16/{rotary}")
    same("mistral/d=8/ff=16/vocab=9", f"d=8/ff=16/vocab=9/{rotary}")
    same("qwen2/d=8/ff=16", f"d=8/ff=16/bias=qkv/{rotary}")
    same("qwen3/d=8/ff=16", f"d=8/ff=16/qknorm=true/{rotary}")
    post = "norm=layer/place=post/bias=all/pos=learned"
    same("bert/d=8", f"d=8/ff=32/mlp=gelu/{post}")
    words = "types=2/embnorm=true/tied=true/transform=true/outbias=true"
    same("bert/d=8/vocab=9", f"d=8/ff=32/mlp=gelu/vocab=9/{post}/{words}")
    same(
        "albert/d=8/vocab=9/embed=4",
        f"d=8/ff=32/mlp=gelu-tanh/vocab=9/embed=4/share=true/{post}/{words}",
    )
    pre = "norm=layer/bias=all/pos=learned/mlp=gelu-tanh/causal=true"
    same("gpt2/d=8/vocab=9", f"d=8/ff=32/vocab=9/tied=true/{pre}")
    same(
        "gpt-neox/d=16/heads=2/vocab=9",
        "d=16/heads=2/ff=64/vocab=9/norm=layer/bias=all/pos=rope/rotary=2/mlp=gelu/causal=true/"
        "parallel=true",
    )
    same("gpt2/d=8/ff=5/vocab=9/tied=false", f"d=8/ff=5/vocab=9/{pre}")
    same(
        "gemma2/d=8/ff=16/vocab=9",
        "d=8/ff=16/vocab=9/norm=rms/mlp=geglu-tanh/pos=rope/causal=true/place=sandwich/cap=50"
        "/tied=true/embscale=true/logitcap=30",
    )
    same(
        "deepseek-v3/d=8/heads=2/ff=16",
        f"d=8/heads=2/ff=16/{rotary}/layout=interleaved/qrank=4/kvrank=2/rotary=2",
    )
    same("deepseek-v3/d=8/ff=16/kvrank=0", f"d=8/ff=16/{rotary}/layout=interleaved")
    same(
        "deepseek-v3/d=8/ff=16/pos=none",
        "d=8/ff=16/norm=rms/mlp=swiglu/causal=true/layout=interleaved/qrank=4/kvrank=2",
    )


def test_a_name_with_keys_is_a_family_and_without_a_preset() -> None:
    assert architecture("gpt2").parameters == 124_439_808
    assert architecture("gpt2/d=8").parameters < 2000
    assert architecture("deepseek-v3").parameters > 10**11


def test_files_and_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = PRESETS["qwen3-0.6b"]
    model = tmp_path / "gpt2"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(config))
    (tmp_path / "small.toml").write_text('kind = "qwen2"\nd = 8\nff = 16\n')
    (tmp_path / "stack.json").write_text('{"kind": "softmax", "d": [2, 2], "a": 1, "t": 2}')
    monkeypatch.chdir(tmp_path)
    wanted = architecture("qwen3-0.6b")
    for source in (model, str(model), "./gpt2", "gpt2/", model / "config.json"):
        assert architecture(source) == wanted
    assert architecture("gpt2") != wanted
    assert architecture("small.toml") == architecture("qwen2/d=8/ff=16")
    assert architecture(Path("stack.json")) == architecture("softmax/d=2,2/a=1/t=2")


def test_reading_a_preset_leaves_it_as_it_was() -> None:
    before = copy.deepcopy(PRESETS)
    for name in PRESETS:
        architecture(name)
    assert before == PRESETS


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("llama3-8b", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("bert-base", "bert-base-uncased"),
        ("lama/d=8/ff=16", "llama"),
        ("tranformer/d=8", "transformer"),
    ],
)
def test_mistyped_names_are_guessed(given: str, meant: str) -> None:
    line = refusal(given)
    assert repr(given) in line
    near = line.partition("closest names: ")[2].partition(")")[0].split(", ")
    assert meant in near
    assert len(near) == 3
    assert "segre model list" in line


def test_unknown_names_say_where_all_are_listed() -> None:
    assert "segre model list has all names" in refusal("zzz")


def test_names_ignore_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PRESETS:
        assert architecture(name.upper()) == architecture(name)
    for kind in KINDS:
        shape = "d=8" if kind == "transformer" else "d=8/ff=12"
        if kind in POLYNOMIALS:
            shape = "degree=2/" + ("k=2,2" if kind == "cnn" else "d=2,2")
        if kind in STACKS:
            shape = f"d=4,4/a=2{'/heads=softmax+double' * (kind == 'mix')}/t=3"
        assert architecture(f"{kind.title()}/{shape}") == architecture(f"{kind}/{shape}")
    assert architecture({"kind": "LLaMA", "d": 8, "ff": 16}) == architecture("llama/d=8/ff=16")
    model = tmp_path / "Llama-3-8B"  # what lies there goes before a name in another case
    model.mkdir()
    (model / "config.json").write_text(json.dumps(PRESETS["qwen3-0.6b"]))
    monkeypatch.chdir(tmp_path)
    assert architecture("Llama-3-8B") == architecture("qwen3-0.6b")
    assert architecture("llama-3-8b").d == 4096


# --- configs without sizes ----------------------------------------------------------------


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_config_without_its_sizes_is_refused_unless_asked(model_type: str) -> None:
    bare = {"model_type": model_type}
    line = refusal(bare)
    missing = line.partition(" lacks ")[2].partition(";")[0].split(", ")
    assert len(missing) >= 3
    assert set(missing) <= set(MODEL_TYPES[model_type].defaults)
    assert "--defaults" in line
    net = architecture(bare, defaults=True)
    assert net == from_config(bare, "x")
    every = {key: MODEL_TYPES[model_type].defaults[key] for key in missing}
    assert architecture({**bare, **every}) == net


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_configs_that_the_library_saves_have_their_sizes(model_type: str, tmp_path: Path) -> None:
    """Version 4 wrote what differs from its base class, version 5 all keys: both have the sizes."""
    known = transformers.AutoConfig.for_model(model_type)
    known.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    for config in (saved, known.to_diff_dict(), known.to_dict()):
        net = architecture({"model_type": model_type, **config})
        assert net == from_config({"model_type": model_type}, "x")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "/",
        "=",
        "\0.json",
        "a\nb",
        "\ud800.toml",
        "x" * 5000,
        "x" * 5000 + ".json",
        "nothing.json",
        "nothing/config.json",
        "model.safetensors",
        None,
        3,
        ["llama"],
        {},
        {"kind": []},
        {"kind": "lama", "d": 8},
        {"kind": None, "d": 8},
        {3: 4, "kind": "llama"},
        {"kind": "llama", "d": "8", "ff": 3},
        "llama",
        "llama/",
        "llama/d",
        "transformer",
        "lightning",
        "llama/d=8",
        "llama/d=8/ff=16/tied=true",
        "bert/d=8/pooler=true",
        "llama/d=8/ff=16/colour=red",
        "gpt2/d=big",
        "gpt2/d=0",
        "gpt2/d=8/d=9",
        "gpt2/d=1,2",
        "gpt2/d=8/vocab=-1",
        "gpt2/d=8/eps=-1",
    ],
)
def test_bad_sources_are_one_line(source: Any) -> None:
    refusal(source)


BAD_VALUES = [
    ("hidden_size", "big"),
    ("hidden_size", -3),
    ("hidden_size", 0),
    ("hidden_size", True),
    ("hidden_size", 8.5),
    ("hidden_size", float("nan")),
    ("hidden_size", float("inf")),
    ("hidden_size", None),
    ("hidden_size", [8]),
    ("hidden_size", 10**30),
    ("num_hidden_layers", 10**6),
    ("num_hidden_layers", 0),
    ("num_attention_heads", 3),
    ("num_key_value_heads", 3),
    ("num_key_value_heads", 0),
    ("head_dim", 3),
    ("head_dim", "4"),
    ("rms_norm_eps", "1e-5"),
    ("rms_norm_eps", -1e-5),
    ("rms_norm_eps", float("nan")),
    ("rms_norm_eps", True),
    ("rms_norm_eps", None),
    ("tie_word_embeddings", "yes"),
    ("tie_word_embeddings", None),
    ("hidden_act", "mish"),
    ("hidden_act", {"name": "silu"}),
    ("hidden_act", None),
    ("rope_theta", 1.5),
    ("rope_theta", 1e10),
    ("rope_theta", "10000"),
    ("rope_theta", float("inf")),
    ("rope_theta", 1),
    ("rope_theta", True),
    ("rope_parameters", [1]),
    ("rope_scaling", "yarn"),
    ("architectures", ["LlamaForMultipleChoice"]),
    ("architectures", ["BertModel"]),
    ("architectures", "LlamaModel,LlamaForCausalLM"),
    ("architectures", ["LlamaModel", "LlamaForCausalLM"]),
    ("architectures", [None]),
    ("attention_bias", "yes"),
    ("mlp_bias", 1),
    ("partial_rotary_factor", 0.5),
    ("is_causal", False),
    ("add_cross_attention", True),
    ("pruned_heads", {"0": [1]}),
    ("layer_types", ["linear_attention"]),
    ("layer_types", 3),
    ("vocab_size", 0),
    ("max_position_embeddings", 0),
]


@pytest.mark.parametrize(("key", "value"), BAD_VALUES)
def test_bad_values_name_the_file_and_the_key(key: str, value: Any, tmp_path: Path) -> None:
    good = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", **good, key: value}))
    line = refusal(path)
    assert str(path)[:100] in line
    assert key in line


def llama(**rest: Any) -> dict[str, Any]:
    return {"model_type": "llama", **rest}


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"model_type": "t5"}, "deepseek_v3"),
        ({"model_type": None}, "model_type"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "gpt2", "n_embd": 8, "hidden_size": 16}, "n_embd and hidden_size"),
        ({"model_type": "gpt2", "n_head": 5}, "n_head"),
        ({"model_type": "gpt2", "activation_function": "mish"}, "activation_function"),
        ({"model_type": "gpt2", "n_inner": "wide"}, "n_inner"),
        ({"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"]}, "GPT2LMHeadModel"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "position_embedding"),
        ({"model_type": "bert", "is_decoder": True}, "is_decoder"),
        (
            {"model_type": "bert", "architectures": ["BertForNextSentencePrediction"]},
            "BertForMaskedLM",
        ),
        ({"model_type": "bert", "type_vocab_size": 0}, "type_vocab_size"),
        ({"model_type": "albert", "num_hidden_groups": 2}, "num_hidden_groups"),
        ({"model_type": "albert", "inner_group_num": 2}, "inner_group_num"),
        ({"model_type": "qwen2", "num_attention_heads": 4}, "num_key_value_heads"),
        ({"model_type": "qwen3", "attention_bias": True}, "attention_bias"),
        ({"model_type": "qwen3", "head_dim": None}, "head_dim"),
        ({"model_type": "gemma2", "use_bidirectional_attention": True}, "bidirectional"),
        ({"model_type": "gemma2", "final_logit_softcapping": 0.0}, "final_logit_softcapping"),
        ({"model_type": "gemma2", "num_key_value_heads": None}, "num_key_value_heads"),
        ({"model_type": "gemma2", "hidden_activation": None}, "hidden_activation"),
        ({"model_type": "deepseek_v3", "attention_bias": True}, "attention_bias"),
        ({"model_type": "minimax", "mlp_alpha_factor": 2}, "differ; allowed: one number"),
        ({"model_type": "minimax", "linear_attn_beta_factor": 0}, "linear_attn_beta_factor: 0"),
        ({"model_type": "minimax", "layer_types": ["sliding_attention"] * 32}, "layer_types"),
        ({"model_type": "minimax", "hidden_act": "gelu"}, "hidden_act"),
        ({"model_type": "qwen3_next"}, "model_type"),
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, "text_config"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": "all"}, "mlp_only_layers"),
        ({"model_type": "qwen3_moe", "decoder_sparse_step": 0}, "decoder_sparse_step"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"model_type": "deepseek_v3", "scoring_func": "softmax"}, "scoring_func"),
        ({"model_type": "deepseek_v3", "rms_norm_eps": 1e-5}, "rms_norm_eps"),
        ({"model_type": "deepseek_v3", "moe_layer_freq": 2}, "moe_layer_freq"),
        ({"model_type": "deepseek_v3", "num_experts_per_tok": 300}, "num_experts_per_tok"),
        ({"model_type": "deepseek_v3", "num_key_value_heads": 8}, "num_key_value_heads"),
        ({"model_type": "deepseek_v3", "qk_rope_head_dim": 3}, "qk_rope_head_dim"),
        ({"model_type": "deepseek_v3", "head_dim": 3}, "head_dim"),
        ({"model_type": "deepseek_v3", "head_dim": None}, "head_dim"),
        ({"model_type": "deepseek_v3", "first_k_dense_replace": None}, "first_k_dense_replace"),
        (llama(rope_scaling={"rope_type": "longrope"}), "rope_type"),
        (llama(rope_scaling={"type": "linear"}), "factor"),
        (llama(rope_scaling={"type": "linear", "factor": "2"}), "factor"),
        (llama(rope_scaling={"type": "linear", "factor": float("nan")}), "factor"),
        (llama(rope_parameters={"full_attention": {"rope_theta": 1e4}}), "full_attention"),
        (llama(rope_parameters={"rope_theta": None}), "rope_theta"),
        (llama(rope_parameters={"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
    ],
)
def test_what_specs_do_not_say_is_refused_by_name(config: dict[str, Any], word: str) -> None:
    assert word in refusal(config)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '"llama"',
        "null",
        '{"model_type": "llama", "hidden_size": 40',
        '{"hidden_size": 4096}',
        '{"model_type": "llama", "hidden_size": 1e400}',
        '{"model_type": "llama", "hidden_size": ' + "9" * 5000 + "}",
        '{"kind": "llama"}',
        '{"kind": "transformer", "d": NaN}',
        "[" * 100_000,
        " " * (LONGEST_FILE + 1),
        "\xff",
    ],
)
def test_broken_files_are_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="latin-1")
    for source in (path, tmp_path):
        assert "config.json" in refusal(source)


def test_a_directory_without_a_config_is_refused(tmp_path: Path) -> None:
    assert "config.json" in refusal(tmp_path)
    (tmp_path / "config.json").mkdir()
    assert "config.json" in refusal(tmp_path)


@pytest.mark.parametrize("key", ["kind", "hidden_size", "rope_scaling", "architectures"])
def test_deep_nesting_is_one_line(key: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for depth in range(600, 1010):
        nested = "[" * depth + "]" * depth
        path.write_text(f'{{"model_type": "llama", "{key}": {nested}}}')
        refusal(path)
