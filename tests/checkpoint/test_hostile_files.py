"""Files that are damaged, or made to do harm, are refused in one line: quickly, without memory."""

import json
import os
import random
import re
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from segre.checkpoint import reading
from segre.checkpoint.store import Store
from segre.errors import CheckpointError, SegreError

TYPES = ["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "U8", "BOOL"]
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def tensor(shape: Any, start: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def file_of(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, and any length claimed for it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def model(path: Path, content: bytes | None = None, config: str = "{}") -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(config)
    if content is not None:
        put(path / SINGLE, content)
    return path


def put(path: Path, content: bytes) -> None:
    """Write a new file, not into one that may still be mapped."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def use(path: Path) -> bool:
    """Open a model and read all of it; whether that worked. It may only fail as it should."""
    problem = None
    try:
        with Store.open(path) as store:
            for name, entry in store.entries.items():
                raw = store.raw(name)
                assert (raw.shape, raw.dtype, raw.nbytes) == (
                    *(entry.shape, entry.dtype, entry.nbytes),
                )
                raw.tobytes()
                with suppress(SegreError):
                    store.read(name)
    except SegreError as error:
        problem = str(error)
    if problem is not None:
        assert problem.isprintable(), "not one line"
        assert problem.startswith(f"checkpoint '{path}")
        assert len(problem) < 600
    return problem is None


def refused(path: str | Path) -> str:
    with pytest.raises(CheckpointError) as refusal:
        Store.open(path)
    assert str(refusal.value).isprintable()
    return str(refusal.value)


# --- files by the thousand --------------------------------------------------------------------

HEADER = {
    "__metadata__": {"format": "pt", "note": "ü"},
    "a.weight": tensor([2, 3], 0, 24),
    "b.weight": tensor([2, 2], 24, 32, "BF16"),
    "c": tensor([], 32, 40, "I64"),
    "none": tensor([0, 7], 40, 40),
    "d": tensor([5], 40, 45, "F8_E4M3"),
}
DATA = bytes(range(45))
GOOD = file_of(HEADER, DATA)
EMPTY = b'"%s":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
HEADER_END = len(GOOD) - len(DATA)
ODD = [0, 1, -1, 2, 3, 7, 24, 2**31, 2**32, 2**62, 2**63, 2**64, -(2**63), 10**30, 1e3, 0.5, "8"]
ODD += [None, True, [], {}, [1], "F32", "\ud800", "\n", ""]  # type: ignore[list-item]


def flip_bits(chance: random.Random) -> bytes:
    content = bytearray(GOOD)
    for _ in range(chance.choice([1, 1, 2, 8])):
        content[chance.randrange(HEADER_END)] ^= 1 << chance.randrange(8)
    return bytes(content)


def set_bytes(chance: random.Random) -> bytes:
    content = bytearray(GOOD)
    for _ in range(chance.randint(1, 3)):
        content[chance.randrange(HEADER_END)] = chance.choice(b'\x00\xff"{}[],:-0919eE \\\n')
    return bytes(content)


def cut(chance: random.Random) -> bytes:
    return GOOD[: chance.randrange(len(GOOD))] + chance.choice([b"", b"", bytes(8)])


def claim_length(chance: random.Random) -> bytes:
    length = chance.choice([0, 1, 2**20, 10**8, 10**8 + 1, 2**40, 2**63, 2**64 - 1, len(GOOD)])
    return file_of(GOOD[8:], b"", max(0, min(length + chance.randint(-9, 9), 2**64 - 1)))


def change_value(chance: random.Random) -> bytes:
    header = json.loads(json.dumps(HEADER))
    name = chance.choice(list(header))
    part = header[name]
    key = chance.choice([*part, "extra"])
    if isinstance(part.get(key), list) and part[key] and chance.random() < 0.8:
        part[key][chance.randrange(len(part[key]))] = chance.choice(ODD)
    else:
        part[key] = chance.choice([*ODD, *TYPES, "F4", "F6_E2M3", "F8_E8M0", "f32"])
    if chance.random() < 0.2:
        header[chance.choice([*header, "a\x1b\n"])] = chance.choice(ODD)
    return file_of(header, DATA)


def new_tensors(chance: random.Random) -> bytes:
    """Headers that make sense in all but a detail: overlaps, gaps, wrong ends, vast shapes."""
    header: dict[str, Any] = {}
    end = 0
    for number in range(chance.randint(0, 5)):
        shape = [chance.choice([0, 1, 2, 3]) for _ in range(chance.choice([0, 1, 2, 3, 70]))]
        shape = shape if len(shape) < 9 else [1] * len(shape)
        dtype = chance.choice(TYPES)
        size = int(np.prod(shape)) * {"F64": 8, "I64": 8, "F32": 4, "F16": 2, "BF16": 2}.get(
            dtype, 1
        )
        start = end + chance.choice([0] * 20 + [-1, 1, -4, 4])
        end = start + size + chance.choice([0] * 20 + [-1, 1])
        if chance.random() < 0.1:
            shape += [2**62, 2**62, 0][: chance.randint(1, 3)]
        header[f"t{number}"] = tensor(shape, start, end, dtype)
    return file_of(header, bytes(max(0, end + chance.choice([0] * 9 + [-1, 1]))))


def repeat_keys(chance: random.Random) -> bytes:
    key = chance.choice([b'"c":', b'"dtype":"I64",', b'"__metadata__":'])
    text = json.dumps(HEADER, separators=(",", ":")).encode()
    part = key + (b"" if key.endswith(b",") else b"{},")
    where = text.index(key)
    return file_of(text[:where] + part * chance.randint(1, 3) + text[where:], DATA)


def nest(chance: random.Random) -> bytes:
    depth = chance.choice([10, 126, 127, 128, 129, 2000, 100_000])
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    text = opening * depth + b"1" + closing * chance.choice([0, depth])
    return file_of(chance.choice([text, b'{"__metadata__":' + text + b"}", b'{"x":' + text + b"}"]))


def noise(chance: random.Random) -> bytes:
    return file_of(chance.randbytes(chance.randrange(200)), chance.randbytes(chance.randrange(50)))


KINDS = [
    flip_bits,
    set_bytes,
    cut,
    claim_length,
    change_value,
    new_tensors,
    repeat_keys,
    nest,
    noise,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, kind: Callable[[random.Random], bytes]
) -> None:
    chance = random.Random(kind.__name__)
    model(tmp_path, GOOD)
    assert use(tmp_path)
    tracemalloc.start()
    try:
        outcomes = []
        for _ in range(300):
            put(tmp_path / SINGLE, kind(chance))
            outcomes.append(use(tmp_path))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert not all(outcomes)
    if kind in (set_bytes, change_value, new_tensors):
        assert any(outcomes), "it never gets past the header"


@pytest.mark.parametrize("kind", [change_value, new_tensors, flip_bits])
def test_what_the_library_overlooks_is_still_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[random.Random], bytes]
) -> None:
    monkeypatch.setattr(reading, "safe_open", lambda *_: nullcontext())
    chance = random.Random(kind.__name__)
    model(tmp_path)
    for _ in range(300):
        put(tmp_path / SINGLE, kind(chance))
        use(tmp_path)
    for start, end in ((-8, -4), (-4, 0), (4, 8), (4, 0), (0, 8)):
        put(tmp_path / SINGLE, file_of({"w": tensor([1], start, end)}, bytes(4)))
        assert not use(tmp_path)
    put(tmp_path / SINGLE, file_of({"w": tensor([1], -8, -4)}, bytes(12)))
    assert not use(tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for size in range(len(GOOD)):
        model(tmp_path, GOOD[:size])
        assert not use(tmp_path), size


def damage_index(chance: random.Random, text: bytes) -> bytes:
    index = json.loads(text)
    how = chance.randrange(8)
    if how == 0:
        content = bytearray(text)
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        return bytes(content)
    if how == 1:
        return text[: chance.randrange(len(text))]
    if how == 2:
        index["weight_map"] = chance.choice(ODD)
    elif how == 3:
        index["weight_map"][chance.choice(["t0", "t1", "x\n"])] = chance.choice(ODD)
    elif how == 4:
        names = ["../a.safetensors", "/a.safetensors", "..", "", "a\0.safetensors", "config.json"]
        names += ["\udc80.safetensors", "sub/a.safetensors", "a.safetensors\n", "c.safetensors"]
        index["weight_map"]["t0"] = chance.choice(names)
    elif how == 5:
        del index["weight_map"][chance.choice(list(index["weight_map"]))]
    elif how == 6:
        index["metadata"] = chance.choice(ODD)
    else:
        return b'{"weight_map":' + b"[" * chance.choice([50, 150, 100_000])
    return json.dumps(index).encode()


def test_damaged_indexes_are_read_or_refused(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").mkdir()
    path = model(tmp_path / "model")
    weight_map = {}
    for file in ("a.safetensors", "b.safetensors"):
        part = {f"t{i}": np.ones(2) for i in (range(2) if file[0] == "a" else range(2, 4))}
        safetensors.numpy.save_file(part, path / file)
        weight_map |= dict.fromkeys(part, file)
    good = json.dumps({"metadata": {"total_size": 64}, "weight_map": weight_map}).encode()
    put(path / INDEX, good)
    assert use(path)
    chance = random.Random(0)
    outcomes = []
    for _ in range(500):
        put(path / INDEX, damage_index(chance, good))
        outcomes.append(use(path))
    assert set(outcomes) == {True, False}
    for _ in range(300):
        put(path / INDEX, good)
        content = bytearray(good)
        content[chance.randrange(len(good))] = chance.choice(b'"{}[],:.0/')
        put(path / "config.json", bytes(content))
        use(path)


# --- memory -----------------------------------------------------------------------------------

CLAIMS = """
import json, resource, struct, sys
from pathlib import Path
from segre.checkpoint import reading
from segre.checkpoint.store import Store
from segre.errors import CheckpointError, SegreError, TooLargeError
def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
def put(header, length=None, size=None):
    path.unlink(missing_ok=True)
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", length or len(text)) + text)
        if size:
            file.truncate(8 + len(text) + size)  # a file with a hole, which takes no space
def claim(count, end):
    return {"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, end]}}
folder = Path(sys.argv[1])
path = folder / "model.safetensors"
resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))
before = peak()
for header, length, size in (
    (claim(2**38, 2**40), None, None),
    (claim(2**38, 2**40), 2**40, None),
    (claim(2**38, 2**40), 2**40, 2**40),
    (claim(2**38, 2**40), 99_999_999, 1000),
    (claim(2**38, 8), None, 8),
    (claim(2**62, 2**64 - 1), None, 8),
):
    put(header, length, size)
    try:
        Store.open(folder)
    except CheckpointError:
        continue
    sys.exit(f"accepted: {header}, {length}, {size}")
put(claim(2**38, 2**40), None, 2**40)
with Store.open(folder) as store:  # it is what it says it is
    assert store.nbytes == 2**40
    assert store.raw("w")[-1] == 0
    try:
        store.read("w")
    except TooLargeError as error:
        assert "not enough memory for tensor 'w'" in str(error)
    else:
        sys.exit("read a terabyte")
path.unlink()
for name in ("config.json", "model.safetensors.index.json"):
    (folder / name).touch()
    with (folder / name).open("r+b") as file:
        file.truncate(2**40)
    try:
        Store.open(folder)
    except CheckpointError as error:
        assert "larger than" in str(error) or "no weights" in str(error)
for name in ("config.json", "model.safetensors.index.json"):
    (folder / name).unlink()
print(peak() - before)
"""


def test_terabytes_that_are_only_claimed_are_not_allocated(tmp_path: Path) -> None:
    model(tmp_path)
    command = [sys.executable, "-c", CLAIMS, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert int(run.stdout) < 50_000_000


# --- what is not a model ----------------------------------------------------------------------


def test_directories_that_are_none(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refused(missing) == (
        f"checkpoint '{missing}': No such file or directory; give a model directory"
    )
    assert "not the name of a directory" in refused("a\0b")
    assert "File name too long" in refused("a" * 5000)
    (tmp_path / SINGLE).write_bytes(GOOD)
    assert "config.json is missing" in refused(tmp_path / SINGLE)
    (tmp_path / "notes.txt").write_text("nothing")
    assert "this is a file; give a model directory" in refused(tmp_path / "notes.txt")
    assert "it has no config.json" in refused(tmp_path)
    (tmp_path / SINGLE).unlink()
    assert "it has no config.json" in refused(tmp_path)


def test_names_are_given_as_the_user_gave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(tmp_path / "model", b"")
    monkeypatch.chdir(tmp_path)
    assert refused("model").startswith("checkpoint 'model/model.safetensors': not a safetensors")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "it has no weights; allowed: model.safetensors, or model.safetensors.index"),
        (["pytorch_model.bin"], "a pickle ('pytorch_model.bin'), which can run code and is never"),
        (["a.pt"], "save the model as safetensors"),
        (["a.pth"], "pickle"),
        (["a.ckpt"], "pickle"),
        (["a.gguf"], "a.gguf -o DIR"),
        (["a.gguf", "b.bin"], "GGUF files must be converted first: segre model convert "),
        (["a.safetensors", "b.safetensors"], "2 safetensors files but no model.safetensors.index"),
        (["._a.safetensors"], "it has no weights"),
    ],
)
def test_other_weights_are_never_read(tmp_path: Path, files: list[str], message: str) -> None:
    model(tmp_path)
    for name in files:
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    assert message in refused(tmp_path)
    if "a.gguf" in files:
        assert "segre model convert" in refused(tmp_path / "a.gguf")
        (tmp_path / "config.json").unlink()
        assert "segre model convert" in refused(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "not a JSON document"),
        ("{", "not a JSON document"),
        ("[1]", "not a table of keys and values"),
        ("nan", "not a JSON document"),
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", "nested too deeply"),
        ('{"a": ' * 200_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "not a JSON document"),
        (" " * 10_000_001, "larger than 10000000 bytes"),
    ],
)
def test_configs_that_are_none(tmp_path: Path, config: str, message: str) -> None:
    refusal = refused(model(tmp_path, GOOD, config))
    assert refusal.startswith(f"checkpoint '{tmp_path}/config.json': ")
    assert message in refusal


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated: the file has 0 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "run `git lfs pull`"),
        (GOOD[:-1], "file not fully covered); the file may be damaged: download it again"),
        (
            GOOD[:20],
            f"truncated: the file has 20 bytes, but its header would have {HEADER_END - 8}",
        ),
        (GOOD + b"\0", "file not fully covered"),
        (b"PK\x03\x04" + bytes(50), "not a safetensors file"),
        (file_of({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)), "invalid offset"),
        (file_of({"a": tensor([2], 0, 8, "F99")}, bytes(8)), "F99"),
        (file_of({"a": tensor([4], 0, 2, "F4")}, bytes(2)), "'a' has type 'F4'; allowed: F64, F32"),
        (file_of({"a": tensor([-1], 0, 4)}, bytes(4)), "-1"),
        (file_of({"a": tensor([2**32, 2**32], 0, 4)}, bytes(4)), "overflow"),
        (file_of(b'{"a":["F32",[1],[0,4]]}', bytes(4)), "not a safetensors file"),
        (file_of({"a": tensor([0] + [1] * 80, 0, 0)}), "not a safetensors file"),
        (file_of(b"{" + EMPTY % b"x" + b"," + EMPTY % b"x" + b"}"), "'x' occurs twice"),
    ],
)
def test_weights_that_are_none(tmp_path: Path, content: bytes, message: str) -> None:
    refusal = refused(model(tmp_path, content))
    assert refusal.startswith(f"checkpoint '{tmp_path}/model.safetensors': ")
    assert message in refusal


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({}, 'it has no "weight_map"'),
        ([], 'it has no "weight_map"'),
        ({"t0": 1}, "tensor 't0' in '1'; allowed: names of .safetensors files beside"),
        ({"t0": "../a.safetensors"}, "tensor 't0' in '../a.safetensors'; allowed"),
        ({"t0": "/etc/a.safetensors"}, "allowed: names of"),
        ({"t0": "..\\a.safetensors"}, "allowed: names of"),
        ({"t0": ".."}, "allowed: names of"),
        ({"t0": "a.bin"}, "allowed: names of"),
        (
            {"t0": "c.safetensors"},
            "'c.safetensors' is in the index, but the file is missing; download it",
        ),
        (
            {"t0": "a.safetensors"},
            "tensor 't1' is in 'a.safetensors', but the index names 'no file'",
        ),
        ({"t0": "a.safetensors", "t1": "b.safetensors"}, "'t1' is also in 'a.safetensors'"),
        (
            {"t0": "a.safetensors", "t1": "a.safetensors", "t2": "a.safetensors"},
            "'t2' is in 'no file', but the index names 'a.safetensors'; download the model again",
        ),
    ],
)
def test_indexes_that_are_wrong(tmp_path: Path, weight_map: Any, message: str) -> None:
    model(tmp_path)
    safetensors.numpy.save_file({"t0": np.ones(1), "t1": np.ones(1)}, tmp_path / "a.safetensors")
    safetensors.numpy.save_file({"t1": np.ones(1)}, tmp_path / "b.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    assert message in refused(tmp_path)


def test_an_index_with_a_tensor_twice(tmp_path: Path) -> None:
    (model(tmp_path) / INDEX).write_text('{"weight_map": {"t": "a", "t": "b"}}')
    assert "'t' occurs twice" in refused(tmp_path)


PLANTED: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "directory": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "dangling": lambda path: path.symlink_to("nothing"),
}


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("name", ["config.json", SINGLE, INDEX, "other.safetensors"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, name: str, plant: str) -> None:
    model(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if name == "config.json":
        (tmp_path / SINGLE).write_bytes(GOOD)
    PLANTED[plant](tmp_path / name)
    refusal = refused(tmp_path)
    assert refusal.startswith(f"checkpoint '{tmp_path}/{name}': ")
    expected = {"loop": "symbolic links", "dangling": "No such file"}.get(plant, "regular file")
    assert expected in refusal


@pytest.mark.parametrize("name", ["config.json", SINGLE, "."])
def test_what_may_not_be_read(own_directory: Path, name: str) -> None:
    model(own_directory, GOOD)
    assert use(own_directory)
    (own_directory / name).chmod(0)
    refusal = refused(own_directory)
    assert refusal.startswith(f"checkpoint '{own_directory / name}': Permission denied")


def test_names_in_files_cannot_break_the_line(tmp_path: Path) -> None:
    header = {"a\n\x1b[31m": tensor([1], 0, 4), "b": tensor([1], 0, 4)}
    assert re.search(r"^checkpoint '.*': not a saf", refused(model(tmp_path, file_of(header))))
    header = {"a\n\x1b[31m": tensor([1], 0, 8, "I64")}
    with (
        Store.open(model(tmp_path, file_of(header, bytes(8)))) as store,
        pytest.raises(CheckpointError, match=re.escape(r"tensor 'a\n\x1b[31m' has type I64")),
    ):
        store.read("a\n\x1b[31m")
