"""Equal functions in different designs are never called different, and different ones never same.

bench/faults/equal_functions.py tries every kind on many families; here are a few of each, with
other seeds, and what is said of them.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench.faults.equal_functions import KINDS, Kind, config, copied_heads, deeper, fresh, padded
from bench.faults.equal_functions import verdicts as tried
from bench.faults.small_models import outputs_apart, save

from segre.checkpoint.commands import check, move, same
from segre.checkpoint.evidence import Block, Limits, agreed
from support.terminal import run

HALVES = "MLP units in two halves"  # is not decided yet


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_verdicts_follow_the_function(kind: Kind) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for dtype, up_to in (("float32", ""), ("bfloat16", "same up to bf16 rounding")):
        family, seed = rng.choice(kind.families), int(rng.integers(100, 1000))
        stored, moved = (verdict for verdict, _ in tried(kind, family, dtype, seed))
        if kind.name == HALVES:
            assert {stored, moved} <= {"undecided", "same function"}
        elif not kind.equal:
            assert stored == "different", (family, seed)
            assert moved == "different" or (moved == "undecided" and up_to), (family, seed)
        else:
            assert stored in ("identical", "same function", up_to), (family, seed)
            assert moved == (up_to or "same function"), (family, seed)


@pytest.mark.parametrize("pair", [copied_heads, deeper, padded])
def test_what_was_set_aside_is_said_and_the_witness_holds(pair: Any, tmp_path: Path) -> None:
    more = ("writes",) if pair is padded else ()
    one, two = (
        save(x, tmp_path / str(i), "float32") for i, x in enumerate(pair("llama", 4, *more))
    )
    said = {
        "copied_heads": "the first has 2 key-value heads, compared as 4 with copies",
        "deeper": "the second has 1 layer that writes nothing (2)",
        "padded": "the second has 12 dead MLP units in each of layers 1, 2",
    }[pair.__name__]
    move(two, tmp_path / "moved", seed=1, report=False)
    witness = tmp_path / "witness.safetensors"
    done = run("same", one, tmp_path / "moved", "--witness", witness)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "same function")
    assert f"{said}; apart from that, 19 blocks agree" in done.stdout.replace("\n", " ")
    assert check(one, tmp_path / "moved", witness).value
    assert not check(one, two, witness).value
    found = json.loads(run("same", two, one, "--json").stdout)
    assert (found["verdict"], found["same"], found["rounding"]) == ("same function", True, None)
    other = said.replace("first", "second") if "first" in said else said.replace("second", "first")
    assert found["reduced"] == [other]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_designs_are_different_only_if_outputs_are(family: str, tmp_path: Path) -> None:
    """Activations of MLPs that write nothing: another design that segre cannot bring to one."""
    model = fresh(config(family), 1)
    act = "activation_function" if family == "gpt2" else "hidden_act"
    one = save(model, tmp_path / "one", "float32")
    setattr(model.config, act, "gelu")
    two = save(model, tmp_path / "two", "float32")
    found = same(one, two)
    assert found.verdict == "different"
    assert found.outputs is not None
    assert found.outputs_tolerance is not None
    assert found.outputs > found.outputs_tolerance
    assert f"outputs on random tokens differ by {found.outputs:.2g}" in found.reason
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "mlp.down_proj" in name or "mlp.c_proj" in name:
                value.zero_()
    silent = save(model, tmp_path / "three", "float32")
    setattr(model.config, act, "silu")
    other = save(model, tmp_path / "four", "float32")
    assert outputs_apart(silent, other) == 0
    assert same(silent, other).verdict == "undecided"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("bfloat16", "bf16"), ("float16", "fp16"), ("float8_e4m3fn", "fp8")],
)
def test_the_headline_names_the_rounding(dtype: str, name: str, tmp_path: Path) -> None:
    model = fresh(config("llama"), 2)
    one = save(model, tmp_path / "one", "float32")
    model.to(getattr(torch, dtype)).save_pretrained(tmp_path / "two")
    done = run("same", one, tmp_path / "two")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"same up to {name} rounding")
    found = json.loads(run("same", one, tmp_path / "two", "--json").stdout)
    assert found["verdict"] == f"same up to {name} rounding"
    assert (found["same"], found["rounding"]) == (True, name)
    assert found["outputs"]["difference"] > 1e-4  # which is why it is not called the same function


def test_a_limit_is_printed_beside_every_ratio(tmp_path: Path) -> None:
    one = save(fresh(config("llama"), 3), tmp_path / "one", "float32")
    move(one, tmp_path / "two", seed=1, report=False)
    found = json.loads(run("same", one, tmp_path / "two", "--json").stdout)
    worst = found["worst"]
    assert worst["ratio"] <= worst["limit"]
    assert worst["worst"]["ratio"] <= worst["worst"]["limit"]
    said = run("same", one, tmp_path / "two").stdout
    heading = next(line for line in said.splitlines() if line.startswith("block "))
    assert heading.split()[:5] == ["block", "difference", "rounding", "ratio", "limit"]
    assert len(re.findall(r"\([\d.e+-]+ of [\d.e+-]+\)", said)) >= 1


def test_the_sentence_on_agreement_follows_from_the_blocks() -> None:
    """Random blocks that agree: its ratio is within its limit, and no other is nearer to one."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        blocks = []
        for number in range(rng.integers(1, 6)):
            size = int(rng.integers(1, 9))
            rounding = np.exp(rng.normal(size=size))
            limits = Limits.of(rng.choice([2.0**-8, 2.0**-24]))
            apart = rounding * rng.uniform(0, limits.together, size)
            numbers = (apart, np.ones(size), int(rng.integers(4, 99)))
            where = {"part": str(number), "rounding": rounding, "width": 32, "limits": limits}
            blocks.append(Block("OV", "head {}, OV", *numbers, **where))
        assert all(block.agrees for block in blocks)
        said = agreed(blocks)
        assert said.startswith(f"all {len(blocks)} blocks agree")
        ratio, limit = map(float, re.findall(r"([\d.e+-]+) times .* where ([\d.e+-]+) is", said)[0])
        nearest = max(block.excess for block in blocks)
        assert ratio / limit == pytest.approx(nearest, rel=0.11)
        assert ratio <= limit
