"""The plan file: data only, checked by digest, written whole or not at all. The format is in docs/plan-format.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softneuro.errors import PlanError
from softneuro.plan.graph_codec import decode_graph, encode_graph
from softneuro.plan.plan import Choice, Measured, Plan, Provenance
from softneuro.routines.routine import Signature
from softneuro.types import Array, DType, Shape

__all__ = ["FORMAT_VERSION", "load_plan", "release", "save_plan"]

MAGIC = b"softneuro plan\r\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<16sIIQ32s")  # magic, format version, reserved, header bytes, SHA-256 of all that follows
_ALIGNMENT = 64
_MOST_HEADER_BYTES = 1 << 28
_CHUNK = 1 << 24


class _Blobs:
    """Arrays with their places in the blob section, equal objects stored once."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.arrays: list[Array] = []
        self._known: dict[int, int] = {}
        self._end = 0

    def store(self, array: Array) -> int:
        if id(array) in self._known:
            return self._known[id(array)]
        dtype = DType.of(array.dtype)
        if dtype is DType.STR:
            self.entries.append({"strings": [str(s) for s in array.reshape(-1)], "shape": list(array.shape)})
            self.arrays.append(np.zeros(0, np.uint8))
        elif dtype is DType.OTHER:
            raise PlanError(f"constant of data type {array.dtype}: a plan file cannot hold it")
        else:
            start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
            self.entries.append({"dtype": str(dtype), "shape": list(array.shape), "offset": start})
            self.arrays.append(array)
            self._end = start + array.nbytes
        self._known[id(array)] = len(self.entries) - 1
        return self._known[id(array)]

    def pieces(self) -> Iterator[bytes | memoryview]:
        position = 0
        for entry, array in zip(self.entries, self.arrays, strict=True):
            if "offset" in entry:
                yield b"\0" * (entry["offset"] - position)
                yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                position = entry["offset"] + array.nbytes


def _header(plan: Plan, blobs: _Blobs) -> bytes:
    choices = {name: [c.routine, str(c.signature), dict(c.schedule)] for name, c in plan.choices.items()}
    graph = encode_graph(plan.graph, blobs.store)
    data = {
        "graph": graph,
        "choices": choices,
        "provenance": dataclasses.asdict(plan.provenance),
        "blobs": blobs.entries,
    }
    text = json.dumps(data, separators=(",", ":")).encode()
    return text + b" " * (-(len(text) + _PREFIX.size) % _ALIGNMENT)


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan: to a temporary file beside the target, synced, then renamed over it."""
    path = Path(path)
    blobs = _Blobs()
    header = _header(plan, blobs)
    digest = hashlib.sha256(header)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(scratch, "wb") as file:
            file.write(b"\0" * _PREFIX.size)
            file.write(header)
            for piece in blobs.pieces():
                digest.update(piece)
                file.write(piece)
            file.seek(0)
            file.write(_PREFIX.pack(MAGIC, FORMAT_VERSION, 0, len(header), digest.digest()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise PlanError(f"plan {str(path)!r}: cannot be written: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)


def _read(path: Path) -> memoryview:
    """The file's bytes, mapped. Raises PlanError when it is no whole plan file of this version."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _PREFIX.size:
                raise PlanError(f"plan {str(path)!r}: found {size} bytes, needed a softneuro plan file")
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise PlanError(f"plan {str(path)!r}: cannot be read: {error.strerror}") from error
    magic, version, _, header_bytes, digest = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise PlanError(f"plan {str(path)!r}: is not a softneuro plan file")
    if version != FORMAT_VERSION:
        raise PlanError(f"plan {str(path)!r}: found format version {version}, needed {FORMAT_VERSION}: tune the model again")
    if header_bytes > min(_MOST_HEADER_BYTES, size - _PREFIX.size):
        raise PlanError(f"plan {str(path)!r}: is truncated: found {size} bytes")
    found = hashlib.sha256()
    for start in range(_PREFIX.size, size, _CHUNK):
        piece = data[start : start + _CHUNK]
        found.update(piece)
        release(np.frombuffer(piece, np.uint8))
    if found.digest() != digest:
        raise PlanError(f"plan {str(path)!r}: is damaged: its contents do not match its digest")
    return data


def _fetch(entries: list[Any], blobs: memoryview, index: Any) -> Array:
    """Array ``index`` of the blob section, without a copy."""
    entry = entries[index]
    shape = tuple(int(size) for size in entry["shape"])
    if any(size < 0 for size in shape):
        raise PlanError(f"plan's constant {index} has shape {shape}")
    if "strings" in entry:
        return np.array(entry["strings"], dtype=object).reshape(shape)
    dtype = DType(entry["dtype"])
    count = 1
    for size in shape:
        count *= size
    start, nbytes = int(entry["offset"]), count * dtype.itemsize
    if start < 0 or start + nbytes > len(blobs):
        raise PlanError(f"plan's constant {index} lies outside the file")
    return np.frombuffer(blobs, dtype.numpy, count, start).reshape(shape)


def load_plan(path: str | Path) -> Plan:
    """Read a plan file. Constants stay in the file, which is mapped.

    Raises PlanError, in one sentence, for a file that is truncated, damaged, foreign or of another version.
    """
    data = _read(Path(path))
    header_bytes = _PREFIX.unpack_from(data)[3]
    try:
        header = json.loads(bytes(data[_PREFIX.size : _PREFIX.size + header_bytes]))
        blobs = data[_PREFIX.size + header_bytes :]
        arrays: dict[int, Array] = {}

        def fetch(index: int) -> Array:
            if index not in arrays:
                arrays[index] = _fetch(header["blobs"], blobs, index)
            return arrays[index]

        graph = decode_graph(header["graph"], fetch)
        return Plan(graph, _decode_choices(header["choices"]), _decode_provenance(header["provenance"]))
    except PlanError as error:
        raise PlanError(f"plan {str(path)!r}: {error}") from error
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise PlanError(f"plan {str(path)!r}: is damaged: {type(error).__name__}: {error}") from error


def release(array: Array) -> None:
    """Let the kernel take back the memory of a constant that lies in a mapped plan file; it is read again when needed.

    Does nothing for any other array.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else base
    if not isinstance(mapping, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        mapping.madvise(mmap.MADV_DONTNEED, first, last - first)


def _decode_choices(data: Mapping[str, Any]) -> dict[str, Choice]:
    return {
        str(name): Choice(str(routine), Signature.parse(signature), {str(k): int(v) for k, v in schedule.items()})
        for name, (routine, signature, schedule) in data.items()
    }


def _decode_provenance(data: Mapping[str, Any]) -> Provenance:
    known = {field.name for field in dataclasses.fields(Provenance)}
    values = {key: value for key, value in data.items() if key in known}
    values["shapes"] = _decode_shapes(values.get("shapes", {}))
    values["further_shapes"] = tuple(map(_decode_shapes, values.get("further_shapes", ())))
    values["measured"] = {str(key): tuple(Measured(*item) for item in items) for key, items in values.get("measured", {}).items()}
    return Provenance(**values)


def _decode_shapes(data: Mapping[str, Any]) -> dict[str, Shape]:
    return {str(name): tuple(map(int, shape)) for name, shape in data.items()}
