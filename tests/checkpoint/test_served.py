"""Design choices without a normal form are refused by name, by every command that needs it."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from segre.checkpoint.commands import align, canonical, info, same, shrink
from segre.checkpoint.layout import Tensors
from segre.checkpoint.served import require_normal_form
from segre.errors import CheckpointError, UnsupportedError
from segre.models import FAMILIES, architecture
from support.checkpoints import rewritten
from support.random_models import library_model, random_config

MISSING = {
    "electra": "embed: the normal form is not implemented for embeddings wider than the stream, or "
    "no wider than a head",
}

LATENTS = "/qrank=4/kvrank=4"  # as wide as the heads that read them


def commands(one: Path, two: Path, out: Path) -> dict[str, Callable[[], Any]]:
    return {
        "info": lambda: info(one),
        "canonical": lambda: canonical(one, out),
        "same": lambda: same(one, two),
        "align": lambda: align(one, two, out),
        "shrink": lambda: shrink(one, out),
    }


@pytest.mark.parametrize("model_type", MISSING)
def test_every_command_names_the_choice(model_type: str, tmp_path: Path) -> None:
    config = random_config(model_type, Random(1)) | {"embedding_size": 99}
    library_model(config, 1).save_pretrained(one := tmp_path / "one")

    def disturb(_part: str, w: Tensors) -> None:
        for name in w:
            w[name] = 1.01 * w[name]

    two = rewritten(one, tmp_path / "two", disturb)
    assert same(one, one).verdict == "identical"
    for name, command in commands(one, two, tmp_path / "out").items():
        with pytest.raises(UnsupportedError) as caught:
            command()
        assert str(caught.value) == MISSING[model_type], name
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("spec", "choice"),
    [
        ("deepseek-v3/d=8/heads=2/ff=4/kvrank=4/vocab=11", "kvrank"),
        ("opt/d=8/heads=2/ff=4/vocab=11/embed=4/project=true/place=post", "project"),
        ("opt/d=8/heads=2/bias=norm/vocab=11", "bias"),
        ("deepseek-v3/d=8/heads=2/ff=4/kvrank=9/eps=1e-6/vocab=11", "kvrank"),
        ("qwen3/d=8/heads=2/rotary=2/ff=4/vocab=11", "qknorm"),
        ("llama/d=8/heads=2/ff=4/gain=false/vocab=11", "norm"),
        ("llama/d=8/heads=2/ff=4/residual=false/vocab=11", "norm"),
        ("bert/d=8/heads=2/embed=4/vocab=11", "embed"),
        ("bert/d=8/heads=2/embed=9/vocab=11", "embed"),
        ("llama/d=8/heads=2/ff=4/embed=6/vocab=11", "embed"),
        ("bert/d=8/heads=2/share=true/vocab=11", "share"),
        ("opt/d=8/heads=2/place=post/tied=false/vocab=11", "place"),
        ("gemma2/d=8/heads=2/ff=4/vocab=11", "place"),
        ("opt/d=8/heads=2/final=false/vocab=11", "final"),
        ("mixtral/d=8/heads=2/eff=4/active=1/vocab=11", "active"),
        ("mixtral/d=8/heads=2/eff=4/norm=layer/vocab=11", "experts"),
        ("transformer/d=8/heads=2/mlp=gelu/ff=4/vocab=11", "norm"),
        ("qwen3/d=8/heads=2/ff=4/gate=element/vocab=11", "gate"),
        ("minimax/d=8/layers=2/heads=2/eff=4/vocab=11", "experts"),
        ("minimax/d=8/layers=2/heads=2/mlp=none/vocab=11", "feature"),
        ("minimax/d=8/layers=1/heads=2/mlp=none/skip=1.5/vocab=11", "skip"),
        ("qwen3-moe/d=8/heads=2/experts=4/eff=4/shared=4/sharedgate=true/vocab=11", "sharedgate"),
    ],
)
def test_choices_that_are_missing(spec: str, choice: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^{choice}: the normal form is not implemented"):
        require_normal_form(architecture(spec))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "minimax"])
def test_families_that_are_served(family: str) -> None:
    rest = LATENTS if family == "deepseek-v3" else ""
    rest = "/embed=6" if family in ("albert", "electra") else rest
    inputs = "patch=12" if family in ("vit", "dinov2") else "vocab=11"
    require_normal_form(architecture(f"{family}/d=8/heads=2/ff=4/eps=1e-6/{inputs}{rest}"))


def test_heads_wider_than_what_they_read_are_refused() -> None:
    for spec in ("llama/d=8/head=10/ff=4/vocab=11", "deepseek-v3/d=8/ff=4/eps=1e-6/vocab=11"):
        with pytest.raises(CheckpointError, match="are wider than the"):
            require_normal_form(architecture(spec))
