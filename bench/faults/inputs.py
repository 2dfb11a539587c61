"""Files of models that are damaged, cut short, or changed while they are read.

Each command runs as a process of its own. It must answer as for the undisturbed files, or end with
exit code 2, one line, and nothing written. A signal, a traceback or another checkpoint is wrong.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from bench.faults.outputs import Tree, tree
from bench.faults.processes import Ended, Running
from bench.faults.tally import Tally
from bench.random_llama import TINY, written

# What reads which file; {out} is written.
COMMANDS = {
    "model.safetensors": (
        "model move model -o out -q",
        "model canonical model -o out --report -q",
        "model shrink model -o out -q",
        "model info model -q",
        "model hash model -q",
        "same model other -q",
        "model diagnose model --length 4 -q",
    ),
    "config.json": ("model info model -q", "dim model --method count -q"),
    "tokenizer.json": (
        "model diagnose model --text text.txt --length 4 -q",
        "model collapse model --text text.txt --inputs 1 --length 4 -q",
    ),
    "model.gguf": ("model convert model/model.gguf -o out -q",),
}
LARGER = {**TINY, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4}
LARGER |= {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 4000}


def prepare(folder: Path) -> None:
    """Small models with a tokenizer, another one, and a text."""
    from segre.checkpoint.demo import demo

    made = demo(folder / "demo").directory
    (made / "base").rename(folder / "model")
    (made / "moved").rename(folder / "other")
    (made / "dialect.txt").rename(folder / "text.txt")
    shutil.rmtree(made)
    (folder / "model" / "model.gguf").write_bytes(gguf())


@cache
def gguf() -> bytes:
    """A small Llama as a GGUF file."""
    import gguf as library

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.gguf")
        out = library.GGUFWriter(file, "llama")
        out.add_block_count(1)
        out.add_context_length(16)
        out.add_embedding_length(8)
        out.add_feed_forward_length(12)
        out.add_head_count(2)
        out.add_head_count_kv(2)
        out.add_layer_norm_rms_eps(1e-5)
        out.add_vocab_size(11)
        shapes = {"token_embd": (11, 8), "output_norm": (8,), "output": (11, 8)}
        shapes |= {f"blk.0.attn_{name}": (8, 8) for name in ("q", "k", "v", "output")}
        shapes |= {"blk.0.ffn_gate": (12, 8), "blk.0.ffn_up": (12, 8), "blk.0.ffn_down": (8, 12)}
        shapes |= {"blk.0.attn_norm": (8,), "blk.0.ffn_norm": (8,)}
        for name, shape in shapes.items():
            out.add_tensor(f"{name}.weight", rng.standard_normal(shape).astype(np.float32))
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()
        return file.read_bytes()


# --- damage -----------------------------------------------------------------------------------


def damaged(data: bytes, rng: Random) -> bytes:
    """A file with bits changed, a part lost, doubled or zeroed, or cut short."""
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    early = min(len(data) - 1, rng.choice((8, 64, 1024, len(data) - 1)))
    kind = rng.randrange(6)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:start] + bytes(end - start) + data[end:]
    if kind == 3:
        return data[:end] + data[start:]
    changed = bytearray(data)
    for _ in range(1 if kind == 4 else 8):
        changed[rng.randrange(early + 1)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def try_damaged(name: str, commands: tuple[str, ...], count: int) -> Tally:
    """Give damaged files of one name to the commands that read it."""
    rng, problems, codes = Random(name), [], {0: 0, 1: 0, 2: 0, 3: 0}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prepare(folder)
        whole = (folder / "model" / name).read_bytes()
        for number in range(count):
            command = commands[number % len(commands)]
            (folder / "model" / name).write_bytes(damaged(whole, rng))
            before = tree(folder)
            ended = Running(command.split(), folder).end()
            wrong = _problem(ended, before, folder)
            if wrong:
                problems.append(f"{command} ({number}): {wrong}")
            else:
                codes[ended.code or 0] += 1
            shutil.rmtree(folder / "out", ignore_errors=True)
    note = f"{codes[2]} refused in one line, exit code 2; the others answered"
    return Tally(f"damaged {name}", count, len(problems), problems[0] if problems else note)


def _problem(ended: Ended, before: Tree, folder: Path) -> str | None:
    if ended.problem is None and ended.code == 2 and tree(folder) != before:
        return f"refused, and this is left: {sorted({*tree(folder)} - {*before})}"
    return ended.problem


# --- changes during a run ---------------------------------------------------------------------


def cut(file: Path, _: Random) -> None:
    """Cut the file to its header: what was mapped is gone."""
    os.truncate(file, 5000)


def overwritten(file: Path, rng: Random) -> None:
    """Write other numbers in place."""
    with file.open("r+b") as data:
        data.seek(max(5000, rng.randrange(file.stat().st_size)))
        data.write(rng.randbytes(20000)[: file.stat().st_size - data.tell()])


def copied_over(file: Path, _: Random) -> None:
    """Write the whole file again, as a copy of another model over it would."""
    data = bytearray(file.read_bytes())
    data[-4000:] = bytes(4000)
    file.write_bytes(data)


def try_changed(
    change: Callable[[Path, Random], None], commands: tuple[str, ...], count: int
) -> Tally:
    """Change a file as soon as a process has mapped it, or a little later."""
    rng, problems, refused = Random(change.__name__), [], 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written(folder / "model", LARGER)
        shutil.copytree(folder / "model", folder / "other")
        file = folder / "model" / "model.safetensors"
        whole = file.read_bytes()
        undisturbed: dict[str, object] = {}
        for number in range(count):
            command = commands[number % len(commands)]
            if command not in undisturbed:
                Running(command.split(), folder).end()
                undisturbed[command] = tree(folder / "out")
                shutil.rmtree(folder / "out", ignore_errors=True)
            names = {*tree(folder)}
            running = Running(command.split(), folder)
            _wait_for_map(running, file)
            time.sleep(rng.choice((0, 0.01, 0.1, 0.5)))
            change(file, rng)
            ended = running.end()
            wrong = ended.problem
            if not wrong and ended.code == 2:
                refused += 1
                wrong = (
                    f"left: {sorted({*tree(folder)} - names)}" if {*tree(folder)} != names else None
                )
            elif not wrong and tree(folder / "out") != undisturbed[command]:
                wrong = "exit code 0, and another checkpoint"
            if wrong:
                problems.append(f"{command} ({number}): {wrong}")
            shutil.rmtree(folder / "out", ignore_errors=True)
            file.write_bytes(whole)
    note = f"{refused} refused in one line, exit code 2; the others had read it already"
    named = {
        "cut": "cut short",
        "overwritten": "overwritten in place",
        "copied_over": "copied over",
    }
    return Tally(
        f"safetensors {named[change.__name__]} while it is read",
        count,
        len(problems),
        problems[0] if problems else note,
    )


def _wait_for_map(running: Running, file: Path) -> None:
    """Until a process has mapped a file, or has ended."""
    maps = Path(f"/proc/{running.process.pid}/maps")
    while running.process.is_alive():
        try:
            if str(file) in maps.read_text():
                return
        except OSError:
            return
        time.sleep(0.001)


def tally(quick: bool) -> list[Tally]:
    """Damage files beforehand, and while they are read."""
    commands = COMMANDS["model.safetensors"]
    found = [
        try_changed(change, commands[:1] if quick else commands[:3], 1 if quick else 10)
        for change in (cut, overwritten, copied_over)
    ]
    for name, readers in COMMANDS.items():
        slow = name == "model.gguf"
        if not (quick and slow):
            count = 3 if quick else 10 if slow else 60
            found.append(try_damaged(name, readers, count))
    return found
