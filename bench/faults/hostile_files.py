"""Files made to break their readers: weights, points, samples, specs, sweeps and configs.

Every file is given to every command that reads such files. Allowed are an answer, or one line
and the code of bad input (2) or of an undecided question (3). Anything else is counted as wrong:
another exception, a warning, a message of several lines, an output file that is half written.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from bench.faults.tally import Tally
from segre.errors import SegreError
from segre.fields.interface import Array

SPEC = "lightning/d=3,2/a=2/t=2"
SHAPES = {"W_K": (1, 2, 3), "W_Q": (1, 2, 3), "W_V": (1, 2, 3)}
COMMANDS = {
    "weights": (
        "same {file} {file}",
        "model move {file} -o {out}.json",
    ),
    "point": ("variety point {file}", "variety slice discriminant --point {file} -o {out}.svg"),
    "samples": ("model recover {file} --spec lightning/d=3,2/a=3/t=2 --starts 1",),
    "spec": ("dim {file}", "explain {file}", "certify {file} -o {out}.json"),
    "config": ("dim {file} --method count", "explain {file}"),
    "sweep": ("sweep run {file} -o {out}.db --limit 0 --workers 1",),
}
HUGE = "9" * 5000
Hostile = tuple[str, str, bytes]  # what it is, how its name ends, its content


# --- .npz files -------------------------------------------------------------------------------


def npy(
    content: bytes = bytes(48), descr: str = "'<f8'", shape: str = "(1, 2, 3)", order: str = "False"
) -> bytes:
    """An .npy file with a header that may be anything."""
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    return raw_npy(header.encode("latin1", "replace"), content)


def raw_npy(header: bytes, content: bytes, version: bytes = b"\x01\x00") -> bytes:
    padded = header + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded + content


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as packed:
        warnings.simplefilter("ignore")
        for name, content in members.items():
            packed.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


def saved(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _arrays(kind: str, rng: Generator) -> dict[str, Array]:
    if kind == "weights":
        tensors = {f"layer1.{k}": rng.standard_normal(s) for k, s in SHAPES.items()}
        return {"spec": np.array(SPEC), **tensors}
    if kind == "point":
        return {
            "V": rng.standard_normal((2, 3)),
            "A": rng.standard_normal((3, 3)),
            "a": np.array(3),
        }
    return {"X": rng.standard_normal((9, 3, 2)), "Y": rng.standard_normal((9, 2, 2))}


def _strange_arrays() -> Iterator[tuple[str, bytes]]:
    """Members that are no arrays of finite numbers, each as an .npy file."""
    yield "shape of 10^12", npy(shape="(1000000000000,)")
    yield "shape of 10^40", npy(shape=f"({10**40},)")
    yield "shape that overflows", npy(b"", shape="(4294967296, 4294967296, 0)")
    yield "negative shape", npy(shape="(-1, -6)")
    yield "shape of fractions", npy(shape="(1.5, 4)")
    yield "shape of words", npy(shape="('a', 'b')")
    yield "shape that is a number", npy(shape="6")
    yield "shape of flags", npy(shape="(True, 6)")
    yield "shape of 5000 digits", npy(shape=f"({HUGE},)")
    yield "too many dimensions", npy(bytes(8), shape="(" + "1," * 200 + ")")
    yield "too few bytes", npy(bytes(17))
    yield "too many bytes", npy(bytes(4096))
    for descr in ("'|O'", "'<U4'", "'|S4'", "'|b1'", "'<c16'", "'<f16'", "'<M8[s]'", "'|V8'"):
        yield f"type {descr}", npy(bytes(6 * 16), descr)
    for descr in (
        "[('a', '<f8')]",
        "('<f8', (3,))",
        "'<U0'",
        "'nonsense'",
        "None",
        "12",
        "'<f9999'",
    ):
        yield f"type {descr}", npy(bytes(48), descr)
    yield "an endless row", npy(descr="'<U0'", shape="(1000000000000,)", content=b"")
    yield "letters that are none", npy(b"\xff" * 16, "'<U4'", "()")
    yield "order that is none", npy(order="'x'")
    yield "header that is no table", raw_npy(b"[1, 2]", bytes(48))
    yield "header with a call", raw_npy(b"__import__('os').abort()", bytes(48))
    yield "header nested too deeply", raw_npy(b"(" * 5000 + b")" * 5000, bytes(48))
    yield "header with an open bracket", raw_npy(b"{'descr': (", bytes(48))
    yield "header with a strange escape", raw_npy(b"{'descr': '\\d', 'shape': 1}", bytes(48))
    yield "header that is not text", raw_npy(bytes(range(256)), bytes(48))
    yield "header with zeros", raw_npy(b"\0" * 64, bytes(48))
    yield "header of nobody's version", raw_npy(b"{}", bytes(48), b"\x09\x09")
    yield "header cut short", npy()[:20]
    yield "a pickle", b"\x80\x04K\x01."
    yield "nothing", b""
    for value in (np.nan, np.inf, -np.inf):
        yield f"{value}", npy(np.full(6, value).tobytes())


def npz_files(kind: str, rng: Generator, damaged: int) -> Iterator[Hostile]:
    """Archives that are broken, and whole ones with strange members."""
    good = {}
    for name, array in _arrays(kind, rng).items():
        stream = io.BytesIO()
        np.save(stream, array)
        good[f"{name}.npy"] = stream.getvalue()
    first, last = next(iter(good)), list(good)[-1]
    for what, member in _strange_arrays():
        yield what, ".npz", archive({**good, last: member})
        yield f"{what}, in the first place", ".npz", archive({**good, first: member})
    yield "no members", ".npz", archive({})
    yield "a member that is no .npy", ".npz", archive({**good, "notes.txt": b"hello"})
    yield "only members that are no .npy", ".npz", archive({"a.txt": b"", "b/": b""})
    yield "a name that leaves the folder", ".npz", archive({**good, "../../x.npy": npy()})
    yield "an archive in the archive", ".npz", archive({**good, last: archive(good)})
    yield "packed by bzip2", ".npz", archive(good, zipfile.ZIP_BZIP2)
    yield "packed by lzma", ".npz", archive(good, zipfile.ZIP_LZMA)
    yield "unpacks to 257 MiB", ".npz", _bomb()
    packed = archive(good)
    entry, local = packed.rfind(b"PK\x01\x02"), packed.find(b"PK\x03\x04")
    for what, at, value in (
        ("encrypted", entry + 8, b"\x01\x00"),
        ("method 99", entry + 10, b"\x63\x00"),
        ("size of 4 GB", entry + 24, b"\xfe\xff\xff\xff"),
        ("size of 0", entry + 24, b"\x00\x00\x00\x00"),
        ("packed size of 4 GB", entry + 20, b"\xfe\xff\xff\xff"),
        ("wrong sum", entry + 16, b"\x00\x00\x00\x00"),
        ("start beyond the end", entry + 42, b"\xff\xff\xff\x7f"),
        ("name longer than the file", entry + 28, b"\xff\xff"),
        ("needs version 255", entry + 6, b"\xff\x00"),
        ("encrypted inside only", local + 6, b"\x01\x00"),
    ):
        yield what, ".npz", packed[:at] + value + packed[at + len(value) :]
    yield "a text", ".npz", b"These are no weights.\n"
    yield "nothing", ".npz", b""
    yield from _damaged(packed, ".npz", rng, damaged)


@cache
def _bomb() -> bytes:
    return archive({"V.npy": npy(bytes(257 << 20), shape=f"({257 << 17},)")})


def _damaged(whole: bytes, ending: str, rng: Generator, count: int) -> Iterator[Hostile]:
    """Cut, with bytes changed, with a piece taken out or doubled."""
    for i in range(count):
        data = bytearray(whole)
        match i % 4:
            case 0:
                del data[int(rng.integers(len(data))) :]
                what = "cut"
            case 1:
                for at in rng.integers(len(data), size=int(rng.integers(1, 9))):
                    data[at] = int(rng.integers(256))
                what = "changed bytes"
            case 2:
                at = int(rng.integers(len(data)))
                data[at] ^= 1 << int(rng.integers(8))
                what = "a flipped bit"
            case _:
                start, end = sorted(rng.integers(len(data), size=2).tolist())
                data[start:start] = data[start:end] if rng.integers(2) else b""
                what = "a piece doubled"
        yield what, ending, bytes(data)


# --- .json and .toml files --------------------------------------------------------------------

STRANGE = (
    *("Infinity", "-Infinity", "NaN", "1e400", "-1e400", "1e-400", "null", "true", "{}", "[]"),
    *('""', '"x"', '"1/0"', '"1e999999999"', '"0x10"', '"\\ud800"', '"\\u0000"', '"\\n"', '"-"'),
    *(
        '"/etc/hostname"',
        '"/dev/zero.toml"',
        '"none.json"',
        "[[[[[[]]]]]]",
        '[{"a": 1}]',
        "0",
        "-1",
    ),
    *("1.5", "99999999999999999999", HUGE, f'"{HUGE}"', f'"1/{HUGE}"', f"1e{HUGE}", f"{HUGE}.5"),
    *(f'"{"7" * 400}/3"', f'"1/{"7" * 400}"', "7" * 400, f"-{'7' * 400}"),
    *("[1, [2]]", "[[1, 2], [3]]", '["a", 1.5]', "[0.5, " + "7" * 400 + "]"),
    *(f'[0.5, "{"7" * 400}/3"]', "[" * 40 + "]" * 40, "[" * 100_000, '{"a":' * 100_000),
)


def json_files(kind: str, rng: Generator, damaged: int) -> Iterator[Hostile]:
    """Every place of a good document holds every strange value, and documents that are none."""
    good = json.dumps(_document(kind, rng))
    for place in _places(json.loads(good)):
        for value in STRANGE:
            mark = '"here it is"'
            marked = json.dumps(_replaced(json.loads(good), place, "here it is"))
            name = value if len(value) < 40 else value[:30] + "..."
            yield (
                f"{'.'.join(map(str, place))}: {name}",
                ".json",
                marked.replace(mark, value).encode("utf-8", "surrogatepass"),
            )
    for what, data in (
        ("nothing", b""),
        ("not text", bytes(range(256))),
        ("a list", b"[1, 2]"),
        ("a number", b"12"),
        ("UTF-16", good.encode("utf-16")),
        ("with a mark at its head", b"\xef\xbb\xbf" + good.encode()),
        ("twice", good.encode() * 2),
        ("zeros", bytes(10_000)),
        (
            "a key of 100,000 letters",
            good.replace("{", '{"' + "k" * 100_000 + '": 1, ', 1).encode(),
        ),
        ("a key of two lines", good.replace("{", '{"two\\nlines": 1, ', 1).encode()),
    ):
        yield what, ".json", data
    yield from _damaged(good.encode(), ".json", rng, damaged)


def _document(kind: str, rng: Generator) -> dict[str, Any]:
    if kind == "weights":
        exact = {k: rng.integers(-9, 9, s).astype(str).tolist() for k, s in SHAPES.items()}
        return {"spec": SPEC, "layers": [exact]}
    if kind in ("point", "samples"):
        return {k: np.round(a, 3).tolist() for k, a in _arrays(kind, rng).items()}
    if kind == "config":
        config = {"vocab_size": 11, "n_positions": 4, "n_embd": 4, "n_layer": 1, "n_head": 2}
        more = {"layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}
        return {"model_type": "gpt2", **config, **more, "tie_word_embeddings": True}
    return {"kind": "softmax", "d": [2, 2], "a": 1, "heads": [1], "dv": 1, "t": 2}


def _places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys of a document, and the first item of every list in it."""
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = list(enumerate(document))[:1]
    for key, value in items:
        yield (*at, key)
        yield from _places(value, (*at, key))


def _replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


SWEEP = {
    "kind": '"lightning"',
    "exhaustive": "true",
    "seed": "0",
    "compute": '["exact"]',
    "where": '"a <= d"',
    "claim": '"dimension >= 0"',
    "fields": '{ layers = 1, d = "2..3", a = 1, t = 2 }',
}
SPEC_KEYS = {"kind": '"softmax"', "d": "[2, 2]", "a": "1", "heads": "1", "dv": "1", "t": "2"}
STRANGE_TOML = (
    *("inf", "-inf", "nan", "1e400", "true", "{}", "[]", '""', '"x"', "-1", "0", "1.5", "[[]]"),
    *(
        "1979-05-27",
        "07:32:00",
        "1979-05-27T07:32:00Z",
        HUGE,
        f"0x{'f' * 6000}",
        f"0b{'1' * 20000}",
    ),
    *(f"0o{'7' * 9000}", f"[{HUGE}]", f"{{ d = 0x{'f' * 6000} }}", f'"{HUGE}"', f"{HUGE}.5"),
    *("'''two\nlines'''", '"\\u0000"', f"[0x{'f' * 6000}, 2]", "[" * 40 + "]" * 40, "[" * 10_000),
    *(
        f'"1..{HUGE}"',
        '"1..1000000000000"',
        '"dimension ** 99999999 > 0"',
        '"(" ',
        '"()" ',
        '"a" "b"',
    ),
    *(
        '"' + "(" * 5000 + '"',
        '"' + "not " * 5000 + 'a"',
        '"a <= ' + HUGE + '"',
        '"2 ** 9 ** 9 ** 9"',
    ),
)


def toml_files(kind: str, rng: Generator, damaged: int) -> Iterator[Hostile]:
    """Every key of a good document with every strange value, and documents that are none."""
    good = SWEEP if kind == "sweep" else SPEC_KEYS
    for key in good:
        for value in STRANGE_TOML:
            lines = [f"{k} = {value if k == key else v}" for k, v in good.items()]
            name = value if len(value) < 40 else value[:30] + "..."
            yield f"{key}: {name}", ".toml", "\n".join(lines).encode()
    text = "\n".join(f"{key} = {value}" for key, value in good.items()).encode()
    for what, data in (("nothing", b""), ("not text", bytes(range(256))), ("twice", text * 2)):
        yield what, ".toml", data
    yield from _damaged(text, ".toml", rng, damaged)


def hostile_files(kind: str, seed: int = 0, damaged: int = 40) -> Iterator[Hostile]:
    """All files that are made for one kind of reader."""
    rng = np.random.default_rng(seed)
    if kind in ("weights", "point", "samples"):
        yield from npz_files(kind, rng, damaged)
    if kind != "sweep":
        yield from json_files(kind, rng, damaged)
    if kind in ("spec", "sweep"):
        yield from toml_files(kind, rng, damaged)


# --- what happens -----------------------------------------------------------------------------


@cache
def _command_line() -> Any:
    from typer.main import get_command

    from segre.cli.app import app

    return get_command(app)


def outcome(arguments: list[str]) -> str:
    """What a command does with a file: "answered", "refused", or what is wrong, in words."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            _command_line()(arguments, standalone_mode=False)
    except SegreError as error:
        if error.exit_code not in (2, 3):
            return f"exit code {error.exit_code}"
        said = str(error)
        if len(said) > 2000:
            return f"a message of {len(said)} letters"
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return "answered"


def try_files(kind: str, chosen: Callable[[int], bool], seed: int, damaged: int) -> list[str]:
    """What every command did with every file that is chosen by its number."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (what, ending, content) in enumerate(hostile_files(kind, seed, damaged)):
            if not chosen(number):
                continue
            file = Path(folder, f"hostile{ending}")
            file.write_bytes(content)
            for command in COMMANDS[kind]:
                out = Path(folder, "out")
                line = command.format(file=file, out=out).split()
                said = outcome(line)
                written = [name for name in os.listdir(folder) if name != file.name]  # noqa: PTH208
                if said == "refused" and written:
                    said = f"refused, but {written[0]} was written"
                if said not in ("answered", "refused"):
                    said = f"{command.split()[0]} of {what} ({ending}): {said}"
                found.append(said)
                for name in written:
                    Path(folder, name).unlink()
            file.unlink()
    return found


def tally(quick: bool) -> list[Tally]:
    """Give hostile files to every command that reads their kind."""
    found = []
    for kind in COMMANDS:
        every = 23 if quick else 1
        said = try_files(kind, lambda n: n % every == 0, seed=0, damaged=40 if quick else 400)  # noqa: B023
        wrong = [one for one in said if one not in ("answered", "refused")]
        note = (
            wrong[0] if wrong else f"{said.count('refused')} refused in one line, exit code 2 or 3"
        )
        found.append(Tally(f"hostile files: {kind}", len(said), len(wrong), note))
    return found
