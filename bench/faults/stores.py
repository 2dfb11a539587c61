"""Damaged stores of sweeps: nothing that was altered is shown, and the next run mends it.

Bits and bytes of real stores are changed, rows are changed, lost and added. Then the store is
exported, its status is asked for, and the sweep is run again. What is shown must be what was
written, or a line that says that the store is damaged; and the run must end with the table of an
undamaged one.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from bench.faults.tally import Tally
from segre.errors import SegreError
from segre.sweep.export import export
from segre.sweep.plan import Plan
from segre.sweep.run import drive
from segre.sweep.status import standing
from segre.sweep.store import Store
from segre.sweep.task import Result, Task, solve
from segre.sweep.verify import check

PAGE = 4096
PLAN = Plan.from_mapping(
    {
        "name": "to be damaged",
        "kind": ["softmax", "lightning"],
        "draw": 24,
        "seed": 5,
        "compute": ["closed-form", "exact"],
        "claim": "dimension == closed_form",
        "fields": {"layers": "1..2", "d": {"each": "1..4"}, "a": [1, 2], "t": "1..3"},
    }
)


class WrongError(Exception):
    """Something altered was shown, or the store was not mended."""


@dataclass(frozen=True)
class Whole:
    """A store in which nothing is wrong, and all that is to be seen of it."""

    files: dict[str, bytes]  # of the store, and of what is beside it, by what their names end with
    lines: list[str]  # of its table
    status: dict[str, Any]
    rows: list[tuple[Any, ...]]  # without what differs from run to run

    @classmethod
    def of(cls, path: Path) -> Whole:
        """Look at a store."""
        files = {end: _beside(path, end).read_bytes() for end in ("", "-wal") if _there(path, end)}
        return cls(files, table_lines(path), standing(path).document(), lasting(path))

    def put(self, path: Path) -> None:
        """Write the store, alone in its folder."""
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        for end, data in self.files.items():
            _beside(path, end).write_bytes(data)


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _there(path: Path, end: str) -> bool:
    return _beside(path, end).exists()


def in_this_process(tasks: Iterator[Task]) -> Iterator[Result]:
    """Solve tasks without workers."""
    return map(solve, tasks)


def table_lines(path: Path) -> list[str]:
    """What is exported of a store."""
    target = path.with_name("table.csv")
    export(path, target)
    lines = target.read_text().splitlines()
    target.unlink()
    return lines


def lasting(path: Path) -> list[tuple[Any, ...]]:
    """All columns of a store but those that differ from run to run."""
    with Store.open(path) as store:
        return [
            tuple(str(value) for key, value in vars(row).items() if key not in {"seconds", "bytes"})
            for row in store.rows()
        ]


def make(path: Path) -> None:
    """A whole store, in place."""
    drive(PLAN, path, in_this_process)


def left_by_a_killed_run(path: Path) -> Whole:
    """A store as it is found when its driver is killed: some rows are in the log beside it."""
    files: dict[str, bytes] = {}

    def copying(tasks: Iterator[Task]) -> Iterator[Result]:
        for number, task in enumerate(tasks):
            if number == 8:
                files.update({end: _beside(path, end).read_bytes() for end in ("", "-wal")})
            yield solve(task)

    drive(PLAN, path, in_this_process, limit=12)
    drive(PLAN, path, copying)
    return replace(Whole.of(path), files=files)


def trial(path: Path, whole: Whole, *, earlier: bool = False) -> str:
    """What a damaged store shows: "the truth" or "a line"; raises WrongError otherwise.

    `earlier`: it may also show the store at an earlier moment, with rows that are still to come.
    """
    shown = "the truth"
    for look in (_look_at_table, _look_at_status):
        try:
            look(path, whole, earlier)
        except SegreError as error:
            if "\n" in str(error):
                raise WrongError(f"more than a line: {error}") from None
            shown = "a line"
    try:
        drive(PLAN, path, in_this_process)
    except SegreError as error:
        raise WrongError(f"not mended: {error}") from None
    if lasting(path) != whole.rows:
        raise WrongError("the mended store is another one")
    return shown


def _look_at_table(path: Path, whole: Whole, earlier: bool) -> None:
    lines = table_lines(path)
    if lines != whole.lines and not (earlier and {*lines} <= {*whole.lines}):
        raise WrongError("an altered table was exported")


def _look_at_status(path: Path, whole: Whole, earlier: bool) -> None:
    status = standing(path).document()
    if status != whole.status and not (earlier and status["done"] < whole.status["done"]):
        raise WrongError("an altered status was shown")


def one_bit(rng: Random, data: bytearray) -> None:
    """Flip a bit anywhere."""
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def bit_of_the_header(rng: Random, data: bytearray) -> None:
    """Flip a bit of the first 100 bytes, by which SQLite knows what it reads."""
    data[rng.randrange(100)] ^= 1 << rng.randrange(8)


def bit_of_a_page_header(rng: Random, data: bytearray) -> None:
    """Flip a bit of what says where the rows of a page are."""
    page = rng.randrange(len(data) // PAGE)
    data[page * PAGE + (100 if page == 0 else 0) + rng.randrange(24)] ^= 1 << rng.randrange(8)


def one_byte(rng: Random, data: bytearray) -> None:
    """Overwrite a byte that is not zero, where something is written."""
    used = [at for at, byte in enumerate(data) if byte]
    data[rng.choice(used)] = rng.randrange(256)


def byte_of_the_tables(rng: Random, data: bytearray) -> None:
    """Put a byte that is no text into what says which tables there are."""
    data[rng.choice([at for at in range(100, PAGE) if data[at]])] = rng.randrange(128, 256)


def eight_bytes(rng: Random, data: bytearray) -> None:
    """Invert eight bytes in different places."""
    for at in rng.sample(range(len(data)), 8):
        data[at] ^= 0xFF


def a_digit(rng: Random, data: bytearray) -> None:
    """Change one digit to another, in the text of a row or of the plan."""
    at = rng.choice([at for at, byte in enumerate(data) if chr(byte).isdigit()])
    data[at] = ord(rng.choice([digit for digit in "0123456789" if ord(digit) != data[at]]))


def cut_short(rng: Random, data: bytearray) -> None:
    """Lose the end."""
    del data[rng.randrange(100, len(data)) :]


def page_of_zeros(rng: Random, data: bytearray) -> None:
    """Lose a page."""
    page = rng.randrange(1, len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def pages_exchanged(rng: Random, data: bytearray) -> None:
    """Write two pages in each other's place."""
    x, y = (slice(n * PAGE, (n + 1) * PAGE) for n in rng.sample(range(1, len(data) // PAGE), 2))
    data[x], data[y] = data[y], data[x]


FLIPS: dict[str, tuple[Callable[[Random, bytearray], None], int]] = {
    "one bit, anywhere": (one_bit, 400),
    "one bit of the file's header": (bit_of_the_header, 100),
    "one bit of a page's header": (bit_of_a_page_header, 100),
    "one byte that is used": (one_byte, 200),
    "one byte of the tables' names": (byte_of_the_tables, 100),
    "one digit": (a_digit, 100),
    "eight bytes": (eight_bytes, 50),
    "cut short": (cut_short, 20),
    "a page of zeros": (page_of_zeros, 10),
    "two pages exchanged": (pages_exchanged, 10),
}

_ROW = "WHERE rowid = (SELECT rowid FROM results ORDER BY rowid LIMIT 1 OFFSET {row})"
STATEMENTS = (
    f"UPDATE results SET lower = -100 {_ROW}",
    f"UPDATE results SET lower = lower + 1, upper = upper + 1 {_ROW}",
    f"UPDATE results SET claim = 'fails' {_ROW}",
    f"UPDATE results SET status = 'lower-bound' {_ROW}",
    f"UPDATE results SET spec = 'softmax/d=1,1/a=1/t=1' {_ROW}",
    f"UPDATE results SET place = place + 1000 {_ROW}",
    f"UPDATE results SET evidence = '{{}}' {_ROW}",
    f"DELETE FROM results {_ROW}",
    "INSERT INTO results SELECT 'x' || digest, place, spec, fields, parameters, lower, upper, "
    "closed_form, status, claim, evidence, seed, bytes, seconds, checksum FROM results LIMIT 1",
    "UPDATE sweep SET value = replace(value, 'closed_form', 'parameters') WHERE key = 'plan'",
    "UPDATE sweep SET value = '1' WHERE key = 'version'",
    "DELETE FROM sweep WHERE key = 'rows'",
    "DELETE FROM sweep WHERE key = 'checksum'",
    "DROP TABLE sweep",
    "ALTER TABLE results RENAME COLUMN lower TO higher",
)


def tally(quick: bool) -> list[Tally]:
    """Damage stores in every way, and see what they show."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "whole.db")
        whole = Whole.of(folder / "whole.db")
        path = folder / "damaged" / "s.db"
        for fault, (flip, count) in FLIPS.items():
            rng = Random(fault)
            found.append(_tally(fault, path, whole, "", flip, rng, 3 if quick else count))
        chosen = STATEMENTS[:: 5 if quick else 1]
        found += [_tally_statement(statement, path, whole) for statement in chosen]
        killed = left_by_a_killed_run(folder / "killed.db")
        for end, fault in (("", "one bit of a killed run's store"), ("-wal", "one bit of its log")):
            rng = Random(fault)
            found.append(_tally(fault, path, killed, end, one_bit, rng, 3 if quick else 100))
        sealed = _tally_sealed(path, whole, 2 if quick else 40)
    return [*_together(found), sealed]


def _tally(
    fault: str,
    path: Path,
    whole: Whole,
    end: str,
    flip: Callable[[Random, bytearray], None],
    rng: Random,
    count: int,
) -> Tally:
    shown: Counter[str] = Counter()
    for _ in range(count):
        whole.put(path)
        data = bytearray(whole.files[end])
        flip(rng, data)
        _beside(path, end).write_bytes(data)
        shown[_outcome(path, whole, earlier="-wal" in whole.files)] += 1
    return _counted(fault, shown)


def _tally_statement(statement: str, path: Path, whole: Whole) -> Tally:
    shown: Counter[str] = Counter()
    for row in (0, PLAN.draw or 1) if "{row}" in statement else (0,):
        whole.put(path)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement.replace("{row}", str(max(0, row - 1))))
        shown[_outcome(path, whole)] += 1
    return _counted("a row or an entry changed, lost or added", shown)


def _tally_sealed(path: Path, whole: Whole, count: int) -> Tally:
    """Alter a row, with new checksums: only computing it again shows that."""
    rng, unseen = Random(0), 0
    for number in range(count):
        whole.put(path)
        with Store.create(path, PLAN) as store:
            row = rng.choice(list(store.rows()))
            by = rng.choice((-2, -1, 1))
            altered = (
                {"lower": (row.lower or 0) + by, "upper": (row.upper or 0) + by},
                {"parameters": row.parameters + by},
                {"closed_form": (row.closed_form or 0) + by},
                {"claim": "fails" if row.claim == "holds" else "holds"},
            )
            store.add([replace(row, **altered[number % len(altered)])])
        unseen += check(path, in_this_process, sample=None).value
    note = "sweep verify --all finds every one"
    return Tally("a row altered and sealed again", count, unseen, note)


def _outcome(path: Path, whole: Whole, *, earlier: bool = False) -> str:
    try:
        return trial(path, whole, earlier=earlier)
    except Exception as error:  # a traceback is wrong too, whatever it is
        return f"{type(error).__name__}: {error}"


def _counted(fault: str, shown: Counter[str]) -> Tally:
    good = ("a line", "the truth")
    note = ", ".join(f"{name} {shown[name]}" for name in sorted(shown))
    return Tally(fault, shown.total(), shown.total() - sum(shown[x] for x in good), note)


def _together(every: list[Tally]) -> list[Tally]:
    """One tally for each fault."""
    notes: dict[str, Counter[str]] = {}
    for one in every:
        counts = notes.setdefault(one.fault, Counter())
        for part in one.note.split(", "):
            words, _, number = part.rpartition(" ")
            counts[words] += int(number)
    return [_counted(fault, counts) for fault, counts in notes.items()]
