"""Where is what a run has done kept, so that a killed process goes on to the same bits?

A run is a list of units of work. After each unit, and inside a long one as often as it asks for,
the whole state is written to one file, whole or not at all. Results of units are plain data; the
state inside a unit may have arrays. Floats and arrays are read back to the last bit.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from segre.errors import SegreError
from segre.fields.interface import Array
from segre.files import whole_file
from segre.json_data import json_data

FORMAT = "segre run 2"
_ARRAY = "$array"


class Kept:
    """What a unit of work had kept when the process ended (or None), and how it keeps more."""

    def __init__(
        self, state: dict[str, Any] | None = None, save: Callable[[Any], None] | None = None
    ):
        self.state = state
        self._save = save

    def keep(self, state: Mapping[str, Any]) -> None:
        """From here the unit goes on if the process ends now; values are plain data or arrays."""
        if self._save is not None:
            self._save(dict(state))


class Store:
    """The state of one run: results of finished units, and what an unfinished one has kept.

    `meant` says which run it is, in plain data; a file of another run is refused. Without a file
    nothing is kept.

    >>> store = Store(None, {})
    >>> store.unit("sum", lambda kept: {"total": 1 + 1})
    {'total': 2}
    """

    def __init__(self, file: Path | None, meant: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.file = file
        self.meant = json_data(dict(meant))
        self.done: dict[str, Any] = {}
        self.under_way: dict[str, Any] = {}
        self.seconds = 0.0
        self._since = perf_counter()
        if file is not None and file.exists() and not fresh:
            self._load(file)

    def unit(self, name: str, work: Callable[[Kept], Any]) -> Any:
        """The result of a unit of work: as it was kept, or else computed now and kept."""
        if name not in self.done:
            self._since = perf_counter()
            found = json_data(
                work(Kept(self.under_way.get(name), lambda state: self._keep(name, state)))
            )
            self.under_way.pop(name, None)
            self.done[name] = found
            self._save()
        return self.done[name]

    def _keep(self, name: str, state: dict[str, Any]) -> None:
        self.under_way[name] = state
        self._save()

    def _save(self) -> None:
        now = perf_counter()
        self.seconds += now - self._since
        self._since = now
        if self.file is None:
            return
        arrays: dict[str, Array] = {}

        def aside(value: Any) -> Any:
            """A name in place of an array."""
            if not isinstance(value, np.ndarray):
                raise TypeError(f"a {type(value).__name__} cannot be kept")
            arrays[name := f"a{len(arrays)}"] = value
            return {_ARRAY: name}

        tree = {
            "format": FORMAT,
            "run": self.meant,
            "seconds": self.seconds,
            "done": self.done,
            "under way": self.under_way,
        }
        text = np.frombuffer(json.dumps(tree, default=aside).encode(), dtype=np.uint8)
        with whole_file(self.file) as temporary, temporary.open("wb") as out:
            np.savez(out, allow_pickle=False, tree=text, **arrays)

    def _load(self, file: Path) -> None:
        again = "give --fresh to start over, or another --output"
        try:
            with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as given:

                def back(item: dict[str, Any]) -> Any:
                    return given[item[_ARRAY]] if set(item) == {_ARRAY} else item

                tree = json.loads(given["tree"].tobytes(), object_hook=back)
                if tree["format"] != FORMAT:
                    raise ValueError("another format")
                run, done, seconds = tree["run"], tree["done"], float(tree["seconds"])
                under_way = tree["under way"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            raise SegreError(f"run {str(file)!r} cannot be read; {again}") from None
        keys = self.meant.keys() | run.keys()
        other = sorted(key for key in keys if self.meant.get(key) != run.get(key))
        if other:
            named = ", ".join(f"{key} = {run.get(key)}" for key in other)
            raise SegreError(f"run {str(file)!r} belongs to another run ({named}); {again}")
        self.done, self.under_way, self.seconds = done, under_way, seconds
