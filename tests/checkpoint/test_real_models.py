"""Two real checkpoints: a BERT as it was published, a Llama that was a GGUF file.

Of what does not depend on the size their first layers and words are asked; docs/checkpoints.md has
all of the BERT, through the commands.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import segre
from segre.checkpoint.commands import align, canonical, expand, move, same, shrink
from segre.checkpoint.model import Model
from segre.checkpoint.outputs import random_tokens
from segre.fields import Real
from segre.transformer.forward import outputs
from support.checkpoints import (
    apart,
    furthest,
    library_outputs,
    minilm,
    rewritten,
    run,
    shortened,
    smollm2,
    stored,
)


@pytest.mark.slow
def test_a_real_bert(tmp_path: Path) -> None:
    model = shortened(minilm(), tmp_path / "model", 3)
    before = {path.name: path.stat().st_mtime_ns for path in model.iterdir()}
    canonical(model, tmp_path / "canonical", report=False)
    move(model, tmp_path / "moved", seed=1, report=False)
    written = align(model, tmp_path / "moved", tmp_path / "aligned", report=False)
    assert written.blocks[-1].distances()[1] < 1e-6
    for name in ("canonical", "moved", "aligned"):
        assert apart(model, tmp_path / name) < 1e-4
        assert same(model, tmp_path / name).verdict == "same function"
    done = shrink(model, tmp_path / "small")
    assert done.dropped == done.redundant == segre.dimension(model, "count").redundancy["total"]
    assert done.bytes_after < done.bytes_before
    expand(tmp_path / "small", tmp_path / "again")
    assert same(tmp_path / "canonical", tmp_path / "again").verdict == "same function"
    assert apart(model, tmp_path / "again") < 1e-4

    def change(part: str, w: dict) -> None:  # type: ignore[type-arg]
        if part == "2":
            w["W_V"][7] *= 1.001
            w["b_V"][7] *= 1.001

    found = same(model, rewritten(tmp_path / "moved", tmp_path / "changed", change))
    assert found.verdict == "different"
    assert found.first is not None
    assert found.first.title.startswith("layer 2, head")
    assert {path.name: path.stat().st_mtime_ns for path in model.iterdir()} == before


def stored_as(model: Path, target: Path, dtype: str, change: Any = None) -> Path:
    """A real checkpoint in another type, with a change of its tensors."""
    shutil.copytree(model, target)
    tensors = load_file(model / "model.safetensors")
    if change is not None:
        change(tensors)
    floats = {n: x for n, x in tensors.items() if x.is_floating_point()}
    tensors |= {n: x.to(getattr(torch, dtype)) for n, x in floats.items()}
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


@pytest.mark.slow
def test_a_real_bert_in_half_precision(tmp_path: Path) -> None:
    model = shortened(minilm(), tmp_path / "model", 3)
    words = "embeddings.word_embeddings.weight"

    def rows(tensors: dict[str, torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(0)
        tensors[words][100:110] = torch.randn(10, 384, generator=generator) * tensors[words].std()

    def entry(tensors: dict[str, torch.Tensor]) -> None:
        tensors["encoder.layer.2.intermediate.dense.weight"][3, 5] *= 1.001

    found = same(model, stored_as(model, tmp_path / "fp16", "float16"))
    assert found.verdict == "same up to fp16 rounding"
    half, moved = stored_as(model, tmp_path / "half", "bfloat16"), tmp_path / "moved"
    move(half, moved, seed=1, report=False)
    assert same(half, moved).verdict == "same up to bf16 rounding"
    assert same(model, moved).verdict == "same up to bf16 rounding"
    other = stored_as(model, tmp_path / "rows", "bfloat16", rows)
    for one in (model, half, moved):
        assert same(one, other).verdict == "different"
    found = same(model, stored_as(model, tmp_path / "entry", "float32", entry))
    assert found.verdict == "different"
    assert found.worst is not None
    assert found.worst.title.startswith("layer 3, MLP unit 4")


LIBRARIES = 1 << 27  # bytes that Python and its libraries take before anything is read
MEASURED = """
import re, sys
import segre
from segre.checkpoint.commands import {command}
found = {command}(*sys.argv[1:]{more})
print(getattr(found, "verdict", "written"))
print(re.search("VmHWM: *([0-9]+)", open("/proc/self/status").read().replace(chr(9), " "))[1])
"""


def peak(command: str, *arguments: Path, more: str = "") -> tuple[str, int]:
    """The verdict of a call, and its peak memory in a process of its own."""
    code = MEASURED.format(command=command, more=more)
    out = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=True,
        capture_output=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    verdict, size = out.stdout.decode().splitlines()
    return verdict, 1024 * int(size)


@pytest.mark.slow
def test_a_real_llama(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    """Ten layers within a limit of memory; its first ones in half precision, and changed."""
    request.addfinalizer(lambda: shutil.rmtree(tmp_path, ignore_errors=True))  # gigabytes
    model = shortened(smollm2(tmp_path_factory)[0], tmp_path / "model", 10, 20_000)
    limit = 2 * (model / "model.safetensors").stat().st_size + LIBRARIES
    for command, names in (
        ("canonical", ("model", "canonical")),
        ("move", ("model", "moved")),
        ("align", ("model", "moved", "aligned")),
        ("same", ("canonical", "moved")),
    ):
        more = ", seed=1" if command == "move" else ""
        verdict, size = peak(command, *(tmp_path / name for name in names), more=more)
        assert verdict.startswith("same" if command == "same" else "written")
        assert size < limit, command
    with Model.open(model) as opened:
        tokens = random_tokens(opened.spec, 0, 2, 10)
        double = outputs(opened, tokens, Real())
        single = outputs(opened, tokens, Real(np.float32))
    exact = library_outputs(model, tokens)
    assert furthest(exact, double) < 1e-10
    # the library's own pass in float32 is up to 2e-5 from its pass in float64
    assert furthest(exact, single) < 1e-5
    right = run(model)
    for name in ("canonical", "moved", "aligned"):
        assert furthest(right, run(tmp_path / name)) < 1e-4
    few = shortened(model, tmp_path / "few", 5)
    half = stored_as(few, tmp_path / "half", "bfloat16")
    move(half, tmp_path / "half-moved", seed=2, report=False)
    assert same(half, tmp_path / "half-moved").verdict == "same up to bf16 rounding"

    def change(part: str, w: dict) -> None:  # type: ignore[type-arg]
        if part == "4":
            w["W_down"][:, 700] *= 1.001

    move(few, tmp_path / "few-moved", seed=1, report=False)
    found = same(few, rewritten(tmp_path / "few-moved", tmp_path / "changed", change))
    assert found.verdict == "different"
    assert found.first is not None
    assert found.first.title.startswith("layer 4, MLP unit")


# Ends itself, as `kill -9` does, at the given step of what it does to files; 0 counts the steps.
KILLED = """
import os, pathlib, shutil, signal, sys
from segre.checkpoint.saving import TensorWriter
from segre.cli import main

step, last = 0, int(sys.argv.pop(1))

def counted(owner, name):
    whole = getattr(owner, name)
    def call(*args, **options):
        global step
        step += 1
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*args, **options)
    setattr(owner, name, call)

counted(shutil, "copyfile")
counted(TensorWriter, "_start")
counted(TensorWriter, "_put")
counted(os, "fsync")
counted(pathlib.Path, "mkdir")
counted(pathlib.Path, "rename")
try:
    main()
finally:
    print(step)
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_nothing_or_everything(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A real process on real weights, killed before its first, its last, and other steps."""
    model = shortened(minilm(), tmp_path_factory.mktemp("few") / "model", 3)
    target = tmp_path / "out"

    def command(step: int) -> subprocess.CompletedProcess[str]:
        line = ["model", "canonical", model, "-o", target, "--quiet"]
        code = [sys.executable, "-c", KILLED, str(step)]
        return subprocess.run([*code, *line], capture_output=True, text=True, check=False)

    done = command(0)
    assert done.returncode == 0, done.stderr
    steps, complete = int(done.stdout.split()[-1]), stored(target)
    assert steps > len(complete)
    there = 0
    for step in sorted({1, 2, *np.linspace(3, steps, 4, dtype=int).tolist()}):
        shutil.rmtree(target, ignore_errors=True)
        assert command(step).returncode == -signal.SIGKILL
        if target.exists():  # then it is all there
            there += 1
            found = stored(target)
            assert all((found[name] == complete[name]).all() for name in complete)
        for path in tmp_path.rglob("*.safetensors"):  # no other file has the name of a whole one
            assert (
                path.parent == target
                or path.stat().st_size == (model / "model.safetensors").stat().st_size
            )
    assert there == 1  # the last step comes after renaming
    shutil.rmtree(target)
    assert command(0).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
