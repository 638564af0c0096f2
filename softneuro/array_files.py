"""Arrays in files, read as untrusted data: sizes are checked before memory is asked for, and nothing is unpickled."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from softneuro.errors import InputError
from softneuro.types import Array

__all__ = ["MOST_BYTES", "array_shape", "read_arrays", "write_arrays"]

MOST_BYTES = 1 << 33
"""How much is read from a file, in bytes: of a .npz file, unpacked."""

_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path) -> Array | dict[str, Array]:
    """The array of a .npy file, or the arrays of a .npz file by name: by content, whatever the file's name is.

    Raises InputError, in one sentence, for files that cannot be read, are damaged, hold objects or more than
    `MOST_BYTES`.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(_ARRAY))
            file.seek(0)
            if start == _ARRAY:
                return _read_array(file, path.stat().st_size, MOST_BYTES, str(path))
            if start.startswith(_ARCHIVE):
                return _read_archive(file, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    raise InputError(f"{path}: is not an array file of numpy (.npy or .npz)")


def array_shape(path: Path) -> tuple[int, ...] | None:
    """The shape of the array in a .npy file, from its first bytes; None for every other file."""
    try:
        with open(path, "rb") as file:
            return _read_header(file, str(path))[0]
    except (OSError, InputError):
        return None


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .npz file. Unlike numpy's own function, this takes any names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _read_archive(file: IO[bytes], path: Path) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    left = MOST_BYTES
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                with archive.open(member) as content:
                    array = _read_array(content, member.file_size, left, f"{path}: {member.filename}")
                arrays[member.filename.removesuffix(".npy")] = array
                left -= array.nbytes
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not an array file of numpy (.npy or .npz), or is damaged: {error}") from error
    return arrays


def _read_array(file: IO[bytes], size: int, most: int, what: str) -> Array:
    """The array in ``size`` bytes, which the file may not have, if they are at most ``most``."""
    shape, in_columns, dtype, start = _read_header(file, what)
    count = math.prod(shape)
    needed = start + count * dtype.itemsize
    if dtype.hasobject:
        raise InputError(f"{what}: holds Python objects, which are not read from files, needed numbers or text")
    if needed > size:
        raise InputError(f"{what}: is truncated: found {size} bytes, needed {needed}")
    if needed > most:
        raise InputError(f"{what}: has {needed} bytes, needed at most {MOST_BYTES} in a file")
    data = bytearray(needed - start)
    found = _fill(file, data)
    if found < len(data):
        raise InputError(f"{what}: is truncated: found {start + found} bytes, needed {needed}")
    array: Array = np.frombuffer(data, dtype, count) if data else np.empty(count, dtype)
    array = array.reshape(shape, order="F" if in_columns else "C")
    if array.dtype.kind in "US":
        return array.astype(object)
    return np.asarray(array, dtype.newbyteorder("="), order="C")


def _fill(file: IO[bytes], data: bytearray) -> int:
    """Read into the whole of ``data``; how many bytes came."""
    found, view = 0, memoryview(data)
    while found < len(data):
        part = file.read(min(len(data) - found, 1 << 24))
        if not part:
            break
        view[found : found + len(part)] = part
        found += len(part)
    return found


def _read_header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns lie together, data type, and where the elements start."""
    try:
        start = io.BytesIO(file.read(12))
        version = np.lib.format.read_magic(start)
        if version not in _READERS:
            raise InputError(f"{what}: has version {version[0]}.{version[1]} of numpy's format, needed 1.0 or 2.0")
        length_bytes = 2 if version == (1, 0) else 4
        length = int.from_bytes(start.getvalue()[8 : 8 + length_bytes], "little")
        end = 8 + length_bytes + length
        if length > 1 << 16:
            raise ValueError("header too long")
        whole = io.BytesIO(start.getvalue() + file.read(end - 12))
        whole.seek(8)
        shape, in_columns, dtype = _READERS[version](whole)
        file_position = whole.tell()
    except InputError:
        raise
    except (ValueError, EOFError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise InputError(f"{what}: is not an array file of numpy (.npy or .npz), or is damaged") from error
    if min(shape, default=0) < 0:
        raise InputError(f"{what}: has shape {shape}, needed sizes of at least 0")
    return shape, in_columns, dtype, file_position
