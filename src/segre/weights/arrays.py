"""Numbers from untrusted files: JSON and .npz, of bounded size, never pickles."""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from segre.errors import WeightsError
from segre.fields.interface import Array
from segre.fields.rational import Rational
from segre.files import is_standard_input, read_given
from segre.values import parse_failure, quote

LONGEST_FILE = 1 << 28
_ZIP = b"PK"  # how an .npz file begins
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_WIDEST = 8  # bytes of a number: wider floats do not fit float64
_ENDING = ".npy"


def read_arrays(path: Path, strings: tuple[str, ...] = ()) -> dict[str, Any]:
    """The contents of a .json or .npz file or of standard input, by name.

    Arrays of an .npz file are float64; only those called `strings` are text. Values of a JSON file
    are returned unchanged.
    """
    piped = is_standard_input(path)
    if path.suffix not in {".json", ".npz"} and not piped:
        if path.is_dir():
            raise WeightsError(
                "this is a directory, not a file of weights; to compare checkpoints use segre "
                "same ONE TWO or segre diff ONE TWO"
            )
        raise WeightsError(
            "unknown file type; allowed: .json and .npz files, or - for standard input"
        )
    try:
        data = read_given(path, LONGEST_FILE)
    except OSError as error:
        raise WeightsError(error.strerror or str(error)) from None
    if path.suffix == ".npz" or (piped and data.startswith(_ZIP)):
        return npz_arrays(data, LONGEST_FILE, strings)
    return _json_object(data)


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"not a JSON document ({parse_failure(error)})") from None
    if not isinstance(document, dict):
        raise WeightsError("not a table of keys and values")
    return document


def number_array(value: Any, name: str) -> Array:
    """Nested lists as an array: exact if all numbers are integers or strings, else float64."""
    try:
        given = np.array(value, dtype=object)
        flat = given.reshape(-1).tolist()
        if any(
            not isinstance(item, int | float | str) or item is True or item is False
            for item in flat
        ):
            raise ValueError("not a rectangular array of numbers")
        if any(isinstance(item, float) for item in flat):
            numbers = np.array([float(item) for item in flat])
            if not np.isfinite(numbers).all():
                raise ValueError("a NaN or an infinity")
            return numbers.reshape(given.shape)
        return Rational().constant(given)
    except RecursionError:
        raise WeightsError(f"{name}: nested too deeply") from None
    except (ValueError, OverflowError, ZeroDivisionError, TypeError) as error:
        said = str(error) if len(str(error)) <= 200 else quote(str(error))
        raise WeightsError(f"{name}: {said}") from None


def common_kind(arrays: list[Array]) -> list[Array]:
    """Arrays with one kind of numbers: exact only if all arrays are."""
    if all(array.dtype == object for array in arrays):
        return arrays
    return [
        array.astype(np.float64) if array.dtype != object else _floats(array) for array in arrays
    ]


def _floats(array: Array) -> Array:
    try:
        flat = [int(x.p) / int(x.q) for x in array.reshape(-1).tolist()]
    except OverflowError:
        raise WeightsError(
            "a fraction is too large for a float, and other numbers are floats; give fractions only"
        ) from None
    return np.array(flat, dtype=np.float64).reshape(array.shape)


# --- .npz files -----------------------------------------------------------------------------------


def npz_arrays(data: bytes, most: int, strings: tuple[str, ...] = ()) -> dict[str, Any]:
    """The arrays of an .npz file as finite float64, by name; those called `strings` as text.

    NumPy's own reader allocates what a header asks for before it looks at the data, and passes on
    the errors of the decompressor and of Python's parser. Here a member is unpacked first, within a
    limit, and its header must describe exactly the bytes that follow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members, most)
            unpacked = {
                member.filename.removesuffix(_ENDING): archive.read(member) for member in members
            }
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OverflowError,
        IndexError,
    ) as error:
        raise WeightsError(f"not an .npz file, or damaged ({_said(error)})") from None
    return {
        name: _text(name, content) if name in strings else _numbers(name, content)
        for name, content in unpacked.items()
    }


def npy_array(name: str, content: bytes) -> Array:
    """The array of an .npy file, with its own type of numbers."""
    array = _array(name, content)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > _WIDEST:
        raise WeightsError(f"{quote(name)} holds {array.dtype}; allowed: real numbers of 64 bits")
    return array


def _check_members(members: list[zipfile.ZipInfo], most: int) -> None:
    names = [member.filename for member in members]
    if sum(member.file_size for member in members) > most:
        raise WeightsError(f"larger than {most >> 20} MiB when unpacked")
    if len(set(names)) != len(names):
        raise WeightsError("two arrays have the same name")
    for member in members:
        name = quote(member.filename)
        if not member.filename.endswith(_ENDING):
            raise WeightsError(f"its member {name} is not an array; an .npz file holds .npy files")
        if member.flag_bits & _ENCRYPTED:
            raise WeightsError(f"its member {name} is encrypted; write it without a password")
        if member.compress_type not in _METHODS:
            raise WeightsError(
                f"its member {name} is compressed by method {member.compress_type}; allowed: "
                "stored, deflate"
            )


def _numbers(name: str, content: bytes) -> Array:
    numbers = npy_array(name, content).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise WeightsError(f"{quote(name)} has a NaN or an infinity")
    return numbers


def _text(name: str, content: bytes) -> str:
    array = _array(name, content)
    try:
        if array.dtype.kind != "U" or array.size != 1:
            raise ValueError("not text")
        return str(array.reshape(-1)[0])
    except (ValueError, OverflowError, SystemError):  # letters that no alphabet has
        raise WeightsError(f"the string `{name}` is missing") from None


def _array(name: str, content: bytes) -> Array:
    """The array of an .npy file, whose header must describe exactly its bytes."""
    stream = io.BytesIO(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about a hostile header
            shape, columns_first, dtype = _header(stream)
    except Exception as error:  # a header is parsed as Python, and may fail in any way that does
        raise WeightsError(f"{quote(name)} is not an .npy file ({_said(error)})") from None
    if dtype.hasobject or dtype.kind not in "fiuUbcSVmM" or not dtype.itemsize:
        raise WeightsError(f"{quote(name)} holds {quote(str(dtype))}; allowed: real numbers")
    there = len(content) - stream.tell()
    wanted = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or wanted != there:
        size = quote("x".join(map(str, shape)))
        raise WeightsError(
            f"{quote(name)} has {there} bytes, but its header says {size} of {dtype}"
        )
    try:
        flat = np.frombuffer(content, dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if columns_first else "C")
    except (ValueError, OverflowError) as error:
        raise WeightsError(f"{quote(name)} is not an array ({_said(error)})") from None


def _header(stream: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is not supported")
    shape, columns_first, dtype = readers[version](stream)
    return tuple(map(int, shape)), bool(columns_first), dtype


def _said(error: Exception) -> str:
    said = " ".join(str(error).split())
    return (said if len(said) <= 120 else said[:117] + "...") or type(error).__name__
