"""Proved dimensions of transformers: predicted redundancy = parameters - exact rank."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segre import dimension
from segre.errors import SpecError, UnsupportedError
from segre.fields.draw import Stream
from segre.geometry.at_any_size import formulas
from segre.geometry.balls import ball_minor
from segre.geometry.dimension import prove
from segre.geometry.explain import explain
from segre.geometry.independence import only_in_balls, witness
from segre.geometry.point import Point, drawn_inputs
from segre.geometry.rank import symmetry_rank
from segre.geometry.salts import Roots, find_salts
from segre.models import PRESETS, architecture
from segre.models.instances import PROVED, small_instance
from segre.symmetry.all import pieces
from segre.symmetry.finite import discrete_symmetries
from segre.transformer.spec import Transformer
from support.architectures import (
    NOT_COUNTED,
    random_gates,
    random_projections,
    random_transformers,
)

ORACLE = Path(__file__).parents[1] / "oracle" / "dimensions.json"
VECTORS = json.loads(ORACLE.read_text())["transformers"]

# Every family and every design choice, at eps zero and positive, tied and not, both layouts.
CONFIGURATIONS = [
    "gpt2/d=4/heads=2/ff=5/t=3",
    "gpt2/d=4/layers=2/heads=2/ff=5/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/eps=1e-5/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/tied=false/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/tied=false/eps=1e-5/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/output=logits/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/output=hidden/t=3",
    "gpt-neox/d=4/layers=2/heads=2/ff=5/t=3",
    "gpt-neox/d=4/heads=2/head=4/rotary=2/ff=5/eps=1e-5/t=3",
    "gpt-neox/d=4/heads=2/ff=3/vocab=17/t=3",
    "gpt-neox/d=4/heads=2/ff=3/vocab=17/tied=true/t=3",
    "gpt-neox/d=4/heads=2/ff=3/vocab=17/output=hidden/t=3",
    "gpt-neox/d=4/heads=2/ff=3/vocab=11/parallel=false/t=3",
    "llama/d=4/layers=2/heads=2/kv=1/ff=5/parallel=true/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/parallel=true/t=3",
    "transformer/d=5/layers=2/heads=2/head=2/mlp=relu/ff=5/bias=all/parallel=true/t=3",
    "transformer/d=5/layers=2/heads=2/head=2/mlp=silu/ff=3/bias=all/parallel=true/vocab=17/"
    "outbias=true/t=3",
    "bert/d=4/heads=2/ff=5/t=3",
    "bert/d=4/heads=2/ff=5/vocab=11/t=3",
    "bert/d=4/heads=2/ff=5/vocab=11/eps=1e-12/t=3",
    "bert/d=4/heads=2/ff=5/vocab=11/tied=false/eps=1e-12/t=3",
    "bert/d=4/heads=2/ff=5/vocab=11/output=logits/t=3",
    "bert/d=4/heads=2/ff=5/vocab=11/output=hidden/pooler=true/t=3",
    "roberta/d=4/heads=2/ff=5/t=3",
    "roberta/d=4/heads=2/ff=5/vocab=11/eps=1e-5/t=3",
    "roberta/d=4/heads=2/ff=5/vocab=11/tied=false/positions=7/t=3",
    "roberta/d=4/heads=2/ff=5/vocab=11/output=hidden/pooler=true/t=3",
    "opt/d=4/heads=2/ff=5/vocab=11/eps=1e-5/t=3",
    "opt/d=4/heads=2/ff=5/vocab=11/eps=1e-5/place=post/t=3",
    "opt/d=5/layers=2/heads=2/head=2/ff=3/vocab=11/embed=4/project=true/place=post/t=3",
    "opt/d=5/heads=2/head=2/ff=3/vocab=11/embed=4/project=true/t=3",
    "opt/d=5/layers=2/heads=2/head=2/ff=3/vocab=11/embed=4/project=true/place=post/tied=false/"
    "eps=1e-5/output=logits/t=3",
    "opt/d=5/layers=2/heads=2/head=2/mlp=gelu/ff=3/vocab=11/embed=4/project=true/place=post/"
    "output=hidden/t=3",
    "electra/d=5/layers=2/heads=2/head=2/ff=4/embed=4/vocab=11/eps=1e-12/tied=false/t=3",
    "electra/d=4/layers=2/heads=2/head=2/ff=4/embed=5/vocab=11/eps=1e-12/t=3",
    "distilbert/d=4/heads=2/ff=5/vocab=11/eps=1e-12/t=3",
    "gpt2/d=4/heads=2/ff=5/vocab=11/tied=false/offset=2/eps=1e-5/t=3",
    "albert/d=5/layers=2/heads=2/head=2/ff=4/t=3",
    "albert/d=5/layers=2/heads=2/head=2/ff=4/embed=4/vocab=11/t=3",
    "albert/d=5/layers=2/heads=2/head=2/ff=4/embed=4/vocab=11/eps=1e-12/t=3",
    "llama/d=4/heads=2/ff=5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/t=3",
    "llama/d=4/layers=2/heads=2/kv=1/ff=5/t=3",
    "llama/d=4/layers=2/heads=2/kv=1/ff=5/eps=1e-5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/layout=interleaved/t=3",
    "llama/d=4/heads=2/kv=1/head=4/ff=5/t=3",
    "llama/d=4/heads=2/kv=1/head=4/rotary=2/ff=5/t=3",
    "llama/d=4/heads=2/kv=1/head=4/rotary=2/layout=interleaved/ff=5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-5/layout=interleaved/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/tied=true/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/tied=true/eps=1e-5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/output=logits/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/vocab=11/output=hidden/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/gain=false/t=3",
    "mistral/d=4/heads=4/kv=2/head=2/ff=3/t=3",
    "mistral/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-5/t=3",
    "qwen2/d=4/heads=2/kv=1/ff=5/t=3",
    "qwen2/d=4/heads=2/kv=1/ff=5/eps=1e-6/t=3",
    "qwen2/d=4/heads=2/kv=1/ff=5/vocab=11/t=3",
    "qwen2/d=4/heads=2/kv=1/ff=5/vocab=11/tied=true/eps=1e-6/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/eps=1e-6/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/gain=false/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-6/t=3",
    "qwen3/d=4/heads=2/kv=1/ff=5/vocab=11/tied=true/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/bias=attn/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/bias=mlp/eps=1e-5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/bias=attn/vocab=11/eps=1e-5/t=3",
    "llama/d=4/heads=2/kv=1/ff=5/bias=mlp/vocab=11/eps=1e-5/t=3",
    "transformer/d=4/heads=2/mlp=gelu/ff=3/bias=attn/vocab=11/t=3",
    "transformer/d=4/heads=2/mlp=gelu/ff=3/bias=mlp/vocab=11/outbias=true/t=3",
    "transformer/d=4/heads=2/mlp=gelu/ff=3/bias=mlp/norm=rms/final=false/vocab=11/outbias=true/t=3",
    "gemma/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-6/t=3",
    "smollm3/d=4/layers=2/heads=2/kv=1/ff=5/base=10000,0/t=3",
    "smollm3/d=4/layers=2/heads=2/kv=1/head=4/ff=5/base=0,10000/bias=attn/eps=1e-5/t=3",
    "gemma3-text/d=4/layers=2/heads=2/kv=1/ff=5/base=10000,100/t=3",
    "transformer/d=4/layers=2/heads=2/pos=rope/base=100,0/qknorm=true/gain=false/eps=1e-5/t=3",
    "olmo2/d=4/heads=2/kv=1/ff=5/t=3",
    "olmo2/d=4/heads=2/ff=5/eps=1e-5/t=3",
    "olmo2/d=4/heads=4/kv=2/head=2/ff=5/bias=attn/eps=1e-5/vocab=11/t=3",
    "olmo2/d=4/heads=2/kv=1/ff=5/vocab=11/t=3",
    "olmo2/d=4/heads=2/ff=5/vocab=11/tied=true/eps=1e-5/t=3",
    "olmo2/d=4/heads=2/ff=5/gain=false/t=3",
    "olmo2/d=4/heads=2/ff=5/gain=false/vocab=11/eps=1e-5/t=3",
    "transformer/d=4/layers=2/heads=2/norm=rms/place=after/mlp=gelu/ff=3/bias=all/vocab=11/t=3",
    "transformer/d=4/heads=2/norm=rms/place=after/mlp=gelu/ff=3/gain=false/vocab=11/tied=true/t=3",
    "transformer/d=4/heads=2/qknorm=all/mlp=gelu/ff=3/bias=all/t=3",
    "gemma2/d=4/heads=2/kv=1/ff=5/t=3",
    "gemma2/d=4/heads=2/kv=1/ff=5/eps=1e-6/t=3",
    "gemma2/d=4/heads=2/kv=1/ff=5/vocab=11/t=3",
    "gemma2/d=4/heads=2/kv=1/ff=5/vocab=11/eps=1e-6/t=3",
    "deepseek-v3/d=5/heads=2/head=2/dv=2/qrank=3/kvrank=3/ff=4/t=3",
    "deepseek-v3/d=5/heads=2/head=2/dv=2/qrank=0/kvrank=3/ff=4/t=3",
    "deepseek-v3/d=5/heads=2/head=2/dv=2/qrank=3/kvrank=3/ff=4/eps=1e-6/t=3",
    "deepseek-v3/d=5/heads=2/head=2/dv=2/qrank=3/kvrank=3/ff=4/vocab=13/eps=1e-6/t=3",
    "deepseek-v3/d=4/heads=2/head=2/dv=2/qrank=3/kvrank=3/ff=4/experts=3/active=2/eff=2/t=3",
    "transformer/d=4/heads=2/mlp=swiglu/experts=3/active=2/eff=2/router=softmax/norm=rms/t=3",
    "transformer/d=4/heads=2/mlp=swiglu/experts=3/active=2/eff=2/router=softmax-raw/norm=layer/t=3",
    "transformer/d=4/heads=2/mlp=swiglu/experts=3/active=2/eff=2/router=sigmoid-raw/norm=rms/t=3",
    "transformer/d=5/heads=2/head=2/mlp=relu/ff=3/t=3",
    "transformer/d=5/heads=2/head=2/mlp=relu2/ff=3/bias=all/t=3",
    "transformer/d=5/heads=2/head=2/mlp=reglu/ff=3/norm=rms/t=3",
    "transformer/d=5/heads=2/head=2/mlp=geglu/ff=3/norm=rms/causal=true/t=3",
    "transformer/d=5/heads=2/head=2/mlp=bilinear/ff=3/t=3",
    "transformer/d=5/heads=2/head=2/mlp=silu/ff=3/bias=all/t=3",
    "transformer/d=4/heads=2/layers=2/residual=false/norm=rms/t=3",
    "transformer/d=4/heads=2/layers=2/residual=false/norm=rms/eps=1e-5/t=3",
    "transformer/d=4/heads=2/layers=2/residual=false/norm=rms/pos=learned/vocab=11/t=3",
    "transformer/d=4/heads=2/layers=2/norm=rms/place=sandwich/t=3",
    "transformer/d=5/heads=2/head=2/norm=layer/place=sandwich/bias=all/mlp=gelu/ff=6/t=3",
    "transformer/d=4/heads=2/norm=rms/place=post/layers=2/mlp=gelu/ff=3/t=3",
    "transformer/d=4/heads=2/layers=2/share=true/norm=rms/mlp=swiglu/ff=3/t=3",
    "transformer/d=4/heads=2/vocab=11/t=3",
    "transformer/d=4/heads=2/vocab=11/tied=true/t=3",
    "transformer/d=4/heads=2/pos=learned/vocab=11/bias=all/t=3",
    "transformer/d=4/heads=2/layers=2/share=true/bias=all/vocab=11/outbias=true/t=3",
    "transformer/d=4/heads=2/sinks=true/t=3",
    "transformer/d=4/layers=2/heads=2/kv=1/pos=rope/norm=rms/bias=attn/sinks=true/causal=true/t=3",
    "transformer/d=4/heads=2/bias=qkv/sinks=true/norm=layer/mlp=gelu/ff=3/eps=1e-5/t=3",
    "transformer/d=4/heads=2/bias=all/sinks=true/mlp=gelu/ff=3/vocab=11/t=3",
    "transformer/d=4/heads=2/attn=lightning/mlp=gelu/ff=3/t=3",
    "transformer/d=4/heads=2/gate=element/t=3",
    "transformer/d=4/heads=2/gate=element/mixnorm=true/attn=lightning/feature=silu/norm=rms/t=3",
    "transformer/d=4/heads=2/kv=1/attn=lightning/feature=silu/mlp=swiglu/ff=3/bias=all/t=3",
    "transformer/d=4/heads=2/attn=lightning/gate=element/decay=slopes/causal=true/norm=rms/t=3",
    "minimax/d=4/layers=2/heads=2/kv=1/mlp=none/eps=1e-5/vocab=11/t=3",
    "minimax/d=4/layers=2/heads=2/kv=1/mlp=none/mixeps=0/vocab=11/skip=1.5/t=3",
    "minimax/d=4/layers=3/heads=2/attn=lightning,lightning,softmax/mlp=none/eps=1e-5/t=3",
    "transformer/d=4/heads=2/mlp=swiglu/experts=3/active=2/eff=2/shared=2/sharedgate=true/norm=rms/t=3",
    "transformer/d=4/heads=2/mlp=swiglu/experts=3/active=2/eff=2/shared=2/sharedgate=true/norm=layer/t=3",
    "qwen3/d=4/heads=2/kv=1/head=4/dv=2/rotary=2/ff=3/eps=1e-5/gate=element/t=3",
    "qwen3-moe/d=4/heads=2/kv=1/head=4/dv=2/rotary=2/eps=1e-5/experts=3/active=2/eff=2/vocab=11/t=3"
    "/gate=element/shared=2/sharedgate=true",
    "opt/d=4/heads=2/layers=2/ff=3/mlp=gelu/eps=0.1/bias=norm/vocab=9/tied=true/t=3",
    "gpt-neox/d=8/heads=2/ff=3/eps=0.1/bias=mlp-norm/rotary=2/t=3",
    "gpt-neox/d=4/heads=2/ff=3/eps=0.1/bias=mlp-norm/parallel=false/final=true/t=3",
    "transformer/d=4/heads=2/kv=1/norm=layer/bias=mlp-norm/eps=0.1/mlp=gelu/ff=3/t=3",
    "qwen3-moe/d=4/layers=3/heads=2/eps=0.1/experts=3/active=2/eff=2/ff=2/dense=0,1,0/t=3",
    "llama/d=4/heads=1/ff=3/eps=0.1/base=9/4/t=3",
    "transformer/d=4/heads=2/kv=1/gate=head/bias=all/mlp=gelu/ff=3/t=3",
    "transformer/d=4/layers=2/heads=2/kv=1/pos=rope/norm=rms/bias=attn/gate=element/causal=true/t=3",
    "transformer/d=4/heads=2/bias=all/gate=element/norm=layer/mlp=gelu/ff=3/eps=1e-5/t=3",
    "transformer/d=4/heads=2/bias=qkv/gate=head/mlp=swiglu/ff=3/vocab=11/tied=true/t=3",
    "transformer/d=4/heads=2/kv=1/attn=lightning/gate=element/mlp=gelu/ff=3/t=3",
    "transformer/d=4/heads=2/norm=layer/mlp=gelu/ff=5/bias=all/final=true/t=3",
    "bert/d=4/heads=2/ff=3/vocab=11/labels=3/t=3",
    "bert/d=4/heads=2/ff=3/vocab=11/labels=3/output=logits/eps=1e-5/t=3",
    "bert/d=4/heads=2/ff=3/vocab=11/labels=2/pooler=false/read=all/t=3",
    "bert/d=4/heads=2/ff=3/vocab=11/relation=3/t=3",
    "electra/d=4/heads=2/ff=3/vocab=11/labels=1/output=logits/read=all/transform=true/"
    "headnorm=false/t=3",
    "electra/d=4/heads=2/ff=3/vocab=11/labels=2/read=first/transform=true/headnorm=false/"
    "eps=1e-5/t=3",
    "bert/d=4/heads=2/ff=3/vocab=11/labels=2/pooler=false/transform=true/t=3",
    "modernbert/d=4/layers=2/heads=2/ff=3/eps=1e-5/vocab=11/output=hidden/t=3",
    "modernbert/d=4/layers=2/heads=2/ff=3/eps=1e-5/vocab=11/tied=false/t=3",
    "modernbert/d=4/layers=2/heads=2/ff=3/eps=1e-5/vocab=11/labels=3/read=all/output=logits/t=3",
    "modernbert/d=4/layers=2/heads=2/ff=3/norm=rms/eps=1e-5/vocab=11/tied=false/t=3",
    "gpt2/d=4/heads=2/ff=3/vocab=11/labels=3/t=3",
    "vit/d=4/heads=2/ff=3/eps=1e-5/patch=5/output=hidden/pooler=true/t=3",
    "vit/d=4/layers=2/heads=2/ff=3/patch=3/labels=3/output=logits/t=4",
    "dinov2/d=4/heads=2/ff=3/patch=5/t=3",
    "vit/d=6/layers=2/heads=2/head=2/ff=3/eps=1e-5/patch=1/labels=2/t=3",
    "vit/d=7/heads=2/head=2/ff=3/patch=2/output=hidden/t=3",
    "vit/d=5/heads=2/head=2/ff=3/patch=1/output=hidden/t=3",
    "vit/d=7/heads=2/head=2/ff=3/patch=2/labels=3/cls=false/read=all/output=logits/t=3",
    "vit/d=8/heads=2/head=2/ff=3/patch=2/cls=false/norm=rms/output=hidden/t=3",
    "dinov2/d=6/heads=2/head=2/ff=3/patch=1/t=3",
    "gpt2/d=4/heads=2/ff=3/vocab=11/labels=3/read=all/outbias=true/output=logits/t=3",
    "llama/d=4/layers=2/heads=2/kv=1/ff=3/vocab=11/labels=2/t=3",
    "llama/d=4/heads=2/kv=1/ff=3/vocab=11/labels=1/output=logits/window=2/t=3",
    "gemma2/d=4/heads=2/kv=1/ff=5/vocab=11/labels=2/read=all/outbias=true/t=3",
    "albert/d=5/layers=2/heads=2/head=2/ff=3/embed=4/vocab=11/labels=2/eps=1e-5/t=3",
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['attn']}-{v['parameters']}")
def test_the_oracle_agrees(vector: dict) -> None:
    known = ("parameters", "dimension")
    given = {k: v for k, v in vector.items() if k not in known and v is not None}
    found = dimension(Transformer.from_mapping(given))
    assert (found.parameters, found.value) == (vector["parameters"], vector["dimension"])
    assert found.status == "proved"


def test_there_are_enough_configurations() -> None:
    assert len(set(map(architecture, CONFIGURATIONS))) >= 60


@pytest.mark.few(24)
@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_predicted_redundancy_is_parameters_minus_exact_rank(text: str) -> None:
    spec = architecture(text)
    assert isinstance(spec, Transformer)
    found = dimension(spec)
    assert found.status == "proved", found.notes
    predicted = formulas(spec).redundancy
    assert predicted is not None
    assert predicted["total"] == found.parameters - found.value
    assert predicted["pieces"] == found.redundancy["pieces"]
    assert predicted["holds"] == found.redundancy["holds"]


@pytest.mark.few(16)
@pytest.mark.parametrize("text", list(PROVED))
def test_small_instances_of_the_presets_are_proved(text: str) -> None:
    found = dimension(text)
    assert (found.value, found.status) == (PROVED[text], "proved")


def test_every_preset_has_a_proved_small_instance() -> None:
    known = {architecture(text) for text in PROVED}
    for name in PRESETS:
        assert small_instance(architecture(name)) in known, name
        if name not in NOT_COUNTED:
            assert "no symmetry is missing" in formulas(architecture(name)).notes[0]


@pytest.mark.parametrize(
    "spec",
    [*random_transformers(5, 60), *random_projections(1, 25), *random_gates(1, 60)],
    ids=str,
)
def test_formulas_count_the_generators(spec: Transformer) -> None:
    """And every generator is in the kernel of the Jacobian: symmetry_rank checks it."""
    point = Point.draw(spec, 11)
    assert symmetry_rank(point).rank == sum(piece.count for piece in pieces(spec))


@pytest.mark.parametrize(
    "text",
    [
        "llama/d=4/heads=2/kv=1/ff=3/t=3",
        "gpt2/d=4/heads=2/ff=3/t=3",
        "qwen3/d=4/heads=2/kv=1/ff=3/t=3",
        "transformer/d=4/heads=2/mlp=gelu/ff=3/norm=layer/bias=all/t=3",
    ],
)
def test_both_fields_prove_the_same(text: str) -> None:
    residues, balls = dimension(text), dimension(text, method="balls")
    assert residues.lower_evidence.kind == "minor-mod-p"
    assert balls.lower_evidence.kind == "ball-minor"
    assert residues.value == balls.value
    assert dimension(text, method="estimate").estimate == residues.value


def test_a_llama_block_with_everything_is_proved() -> None:
    found = dimension("llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3")
    assert (found.parameters, found.value, found.status) == (1184, 1096, "proved")


def test_which_field_is_said() -> None:
    assert only_in_balls(architecture("llama/d=4/heads=2/ff=3/vocab=5/t=3")) is not None
    assert only_in_balls(architecture("transformer/d=4/mlp=relu/ff=3/t=3")) is not None
    assert only_in_balls(architecture("llama/d=4/heads=2/ff=3/t=3")) is None
    assert only_in_balls(architecture("gemma2/d=4/heads=2/ff=3/t=3")) is not None


def test_roots_that_are_no_roots_are_not_certified_mod_p() -> None:
    """A LayerNorm of two numbers divides by |a - b|: its radicand is a square."""
    spec = architecture("transformer/d=2/heads=1/norm=layer/t=3")
    assert not witness(spec, Point.draw(spec, 0).field).established
    assert prove(spec).lower.evidence.kind in ("ball-minor", "trivial")


def test_salts_do_not_depend_on_the_company() -> None:
    point = Point.draw(architecture("qwen3/d=4/heads=2/kv=1/ff=3/t=3"), 2)
    spec = point.spec
    assert isinstance(spec, Transformer)

    def draw(numbers: np.ndarray, salts: np.ndarray) -> np.ndarray:
        return drawn_inputs(point.field, spec, numbers, salts, Stream.INPUTS)

    many = find_salts(point.field, spec, point.weights, np.arange(12), draw, Roots())
    for n in (0, 5, 11):
        alone = find_salts(point.field, spec, point.weights, np.array([n]), draw, Roots())
        assert np.array_equal(alone.salts[:, 0], many.salts[:, n])


def test_a_minor_in_balls_is_no_larger_than_the_rank() -> None:
    spec = architecture("llama/d=4/heads=2/kv=1/ff=3/vocab=7/t=3")
    found = dimension(spec)
    more = ball_minor(spec, found.value + 1)
    assert more is None or len(more.columns) == found.value


def test_finite_vocabularies_hide_part_of_a_latent() -> None:
    """symmetry.md's trap: rho (rho + 1) / 2 > V leaves more freedom than the group has."""
    text = "deepseek-v3/d=5/heads=2/head=2/dv=2/qrank=4/kvrank=3/ff=3/eps=1e-6/t=3/vocab={}"
    few, enough = dimension(text.format(5)), dimension(text.format(14))
    assert few.status in ("certain", "likely")
    assert few.lower < few.upper
    assert enough.status == "proved"


def test_rotary_layouts_count_the_same() -> None:
    for name in ("llama-3-8b", "qwen3-8b"):
        spec = architecture(name)
        assert formulas(spec).symmetries == formulas(replace(spec, layout="interleaved")).symmetries


def test_what_is_asked_changes_what_is_redundant() -> None:
    whole, logits = dimension("llama-3-8b"), dimension("llama-3-8b", output="logits")
    assert whole.redundancy["total"] - logits.redundancy["total"] == 4096
    assert whole.redundancy["holds"]["softmax"] == 4096
    with pytest.raises(SpecError, match="head"):
        dimension("llama/d=4/heads=2/ff=3/t=3", output="logits")


def test_sizes_that_the_formulas_do_not_cover_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="wider"):
        dimension("transformer/d=40/head=60/t=3", method="count")
    with pytest.raises(UnsupportedError, match="closed form"):
        dimension("transformer/d=4/t=3", method="closed-form")


def test_design_choices_are_explained() -> None:
    found = explain(architecture("llama-3-8b"))
    changes = {choice.name: choice.change for choice in found.choices}
    assert changes["rotary positions"]["QK"] == 32 * 8 * (128 * 128 - 128)
    assert changes["untied embeddings"]["residual"] == -4096 * 4095 // 2
    assert {d.group for d in discrete_symmetries(architecture("gpt2"))} == {
        "S_12",
        "S_3072",
        "2 . S_768",
    }


@pytest.mark.parametrize(
    "text",
    [
        "transformer/d=3/norm=layer/bias=all/vocab=4/tied=true/final=false/output=logits/t=2",
        "transformer/d=3/mlp=swiglu/bias=all/experts=2/active=1/eff=2/vocab=4/t=2",
        "transformer/d=3/norm=layer/mlp=relu/ff=2/place=sandwich/t=2",
        "transformer/d=4/heads=4/head=1/qknorm=true/t=2",
        "transformer/d=2/norm=layer/t=2",
        "transformer/d=4/heads=2/vocab=7/embscale=true/bias=all/t=2",
        "transformer/d=4/heads=2/norm=rms/place=post/attn=lightning/mlp=silu/ff=2/t=2",
        "transformer/d=3/head=5/heads=2/kv=1/t=2",
        "transformer/d=3/t=1",
        "transformer/d=1/norm=rms/mlp=silu/ff=1/t=2",
    ],
)
def test_odd_sizes_and_combinations_get_an_answer(text: str) -> None:
    """Bounds may stay apart; nothing crashes, and no generator changes the function."""
    found = dimension(text)
    assert found.upper is not None
    assert (found.lower or 0) <= found.upper <= found.parameters
