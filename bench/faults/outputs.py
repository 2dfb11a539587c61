"""Every command that writes, and every kind of thing that may be there under the name it is given.

A file is written where a file belongs, through links too. Pipes and devices get the bytes and stay
what they are. Everything else is refused in one line, and nothing in the folder is changed.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.faults.processes import Running
from bench.faults.tally import Tally

SPEC = "lightning/d=2,2/a=1/t=2"
FILES = {  # the command, and how the name of its file ends
    f"certify {SPEC} -o": ".json",
    "model move weights.json -o": ".json",
    f"model run {SPEC} -w weights.json -i x.npy -o": ".npy",
    "sweep export sweep.db -o": ".csv",
    "sweep plot sweep.db -o": ".html",
    f"analyze {SPEC} --only what -q -o": ".html",
    "compare gpt2 llama-3-8b -o": ".html",
    "model cost softmax/d=4,4/a=2/t=3 --t 64 --plot": ".svg",
    "model trace demo/base --length 4 -q --dense": ".npy",
}
FOLDERS = (
    "model move demo/base -q -o",
    "model canonical demo/base -q -o",
    "model shrink demo/base -q -o",
    "model demo",
)
STORES = ("sweep run sweep.toml --workers 1 -q -o",)
SWEEP = 'kind = "softmax"\nexhaustive = true\n[fields]\nlayers = 1\nd = 2\na = 1\nt = 2\n'
WRITTEN, STREAMED, REFUSED = "written", "streamed", "refused"


def prepare(folder: Path) -> None:
    """What the commands read."""
    from segre.checkpoint.demo import demo
    from segre.sweep.run import run

    rng = np.random.default_rng(0)
    layer = {f"W_{name}": rng.standard_normal((1, 1, 2)).tolist() for name in "KQ"}
    layer["W_V"] = rng.standard_normal((1, 2, 2)).tolist()
    (folder / "weights.json").write_text(json.dumps({"spec": SPEC, "layers": [layer]}))
    np.save(folder / "x.npy", rng.standard_normal((2, 2)))
    (folder / "sweep.toml").write_text(SWEEP)
    run(folder / "sweep.toml", folder / "sweep.db", workers=1)
    demo(folder / "demo")


def _file(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o640)


def _read_only(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o444)


def _link(path: Path) -> None:
    _file(path.with_name("behind" + path.suffix))
    path.symlink_to("behind" + path.suffix)


def _full(path: Path) -> None:
    path.mkdir()
    (path / "something").write_text("old")


def _device(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null


# What is there, how it is made, and what becomes of it where a file, a directory or a store is due.
TARGETS: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    "nothing": (lambda _: None, WRITTEN, WRITTEN, WRITTEN),
    "a file": (_file, WRITTEN, REFUSED, REFUSED),
    "a read-only file": (_read_only, REFUSED, REFUSED, REFUSED),
    "a link to a file": (_link, WRITTEN, REFUSED, REFUSED),
    "a link to nothing": (lambda path: path.symlink_to("gone"), REFUSED, REFUSED, REFUSED),
    "a link to itself": (lambda path: path.symlink_to(path.name), REFUSED, REFUSED, REFUSED),
    "a directory": (_full, REFUSED, REFUSED, REFUSED),
    "an empty directory": (Path.mkdir, REFUSED, WRITTEN, REFUSED),
    "a pipe": (os.mkfifo, STREAMED, REFUSED, REFUSED),
    "a device": (_device, STREAMED, REFUSED, REFUSED),
}
NAMES = {
    "-": (STREAMED, REFUSED, REFUSED),
    "missing/out": (REFUSED,) * 3,
    "x" * 300: (REFUSED,) * 3,
}


Tree = dict[str, tuple[int, object]]


def tree(folder: Path) -> Tree:
    """Everything in a folder: its kind and permissions, and the content of files."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content: object = path.read_bytes() if stat.S_ISREG(mode) else None
        found[str(path.relative_to(folder))] = mode, content
    return found


def problem(command: str, name: str, expected: str, folder: Path) -> str | None:
    """Run a command with its output to `name` in a prepared folder; what is wrong, if anything."""
    before = tree(folder)
    target = folder / name
    pipe = os.open(target, os.O_RDONLY | os.O_NONBLOCK) if _is_fifo(target) else None
    running = Running([*command.split(), name], folder)
    received = _drained(running, pipe)
    ended = running.end()
    after = tree(folder)
    if ended.problem is not None:
        return ended.problem
    if expected == REFUSED:
        if ended.code != 2:
            return f"exit code {ended.code}"
        return None if after == before else f"changed: {_differences(before, after)}"
    if ended.code != 0:
        return f"exit code {ended.code}: {ended.said}"
    if expected == STREAMED:
        if after != before:
            return f"changed: {_differences(before, after)}"
        content = received if pipe is not None else ended.out if name == "-" else b"nobody looks"
        return None if content else "nothing was written"
    new = _differences(before, after)
    own = str(target.resolve().relative_to(folder.resolve()))
    if other := [one for one in new if one != own and not one.startswith(own + "/")]:
        return f"changed: {other}"
    if before.get(name, (0, 0))[0] != after[name][0] and name in before and target.is_file():
        return "other permissions"
    return None if new else "nothing was written"


def _differences(before: Tree, after: Tree) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _is_fifo(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(path.lstat().st_mode)
    except OSError:
        return False


def _drained(running: Running, pipe: int | None) -> bytes:
    """What comes out of a pipe until the command has ended."""
    out = b""
    while pipe is not None:
        over = not running.process.is_alive()
        try:
            while part := os.read(pipe, 1 << 16):
                out += part
        except BlockingIOError:
            pass
        if over:
            os.close(pipe)
            break
        running.process.join(0.005)
    return out


def tally(quick: bool) -> list[Tally]:
    """Give every command every kind of target."""
    commands = [*FILES.items(), *((one, "") for one in FOLDERS), *((one, ".db") for one in STORES)]
    found: dict[str, list[str | None]] = {}
    with tempfile.TemporaryDirectory() as first:
        prepare(Path(first))
        for number, (command, ending) in enumerate(commands):
            kind = 0 if command in FILES else 1 if command in FOLDERS else 2
            trials = [
                (what, f"out{ending}", make, kinds) for what, (make, *kinds) in TARGETS.items()
            ]
            trials += [(name[:12], name, lambda _: None, [*each]) for name, each in NAMES.items()]
            for place, (what, name, make, kinds) in enumerate(trials):
                if quick and (number + place) % 7:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    _copied(Path(first), Path(folder), command)
                    try:
                        make(Path(folder, name))
                    except PermissionError:  # only root makes devices
                        continue
                    wrong = problem(command, name, kinds[kind], Path(folder))
                    said = None if wrong is None else f"{command} {name[:40]}: {wrong}"
                    found.setdefault(f"{kinds[kind]}: {what}", []).append(said)
    return [_counted(fault, said) for fault, said in sorted(found.items())]


def _copied(source: Path, folder: Path, command: str) -> None:
    import shutil

    for path in source.iterdir():
        if path.name.partition(".")[0] in command and command != "model demo":
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / path.name)


def _counted(fault: str, said: list[str | None]) -> Tally:
    wrong = [one for one in said if one is not None]
    note = wrong[0] if wrong else "as documented; nothing else is changed"
    return Tally(
        f"output to {fault.partition(': ')[2]}: {fault.partition(': ')[0]}",
        len(said),
        len(wrong),
        note,
    )
