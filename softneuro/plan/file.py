"""The plan file: data only, checked by digest, written whole or not at all. The format is in docs/plan-format.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import mmap
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softneuro.errors import PlanError, ResourceLimitError
from softneuro.graph import Graph
from softneuro.limits import ResourceLimits, enforced, in_force
from softneuro.ops.field_types import conforms, field_types
from softneuro.plan.graph_codec import decode_graph, encode_graph
from softneuro.plan.plan import Choice, Measured, Plan, Provenance, Tradeoff
from softneuro.routines.routine import Signature
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["FORMAT_VERSION", "load_plan", "release", "save_plan"]

MAGIC = b"softneuro plan\r\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<16sIIQ32s")  # magic, format version, reserved, header bytes, SHA-256 of all that follows
_ALIGNMENT = 64
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
        if stat.S_ISFIFO(os.stat(path).st_mode):  # it would keep us waiting
            raise PlanError(f"plan {str(path)!r}: cannot be read: no regular file, needed a softneuro plan file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _PREFIX.size:
                raise PlanError(f"plan {str(path)!r}: found {size} bytes, needed a softneuro plan file")
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PlanError(f"plan {str(path)!r}: cannot be read: {reason}") from error
    magic, version, _, header_bytes, digest = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise PlanError(f"plan {str(path)!r}: is not a softneuro plan file, needed one: softneuro tune makes it of a model")
    if version != FORMAT_VERSION:
        raise PlanError(f"plan {str(path)!r}: found format version {version}, needed {FORMAT_VERSION}: tune the model again")
    in_force().check("header_bytes", header_bytes, f"plan {str(path)!r}: its header has")
    if header_bytes > size - _PREFIX.size:
        raise PlanError(f"plan {str(path)!r}: is truncated: found {size} bytes, needed {_PREFIX.size + header_bytes} or more: "
                        "copy it again")
    found = hashlib.sha256()
    for start in range(_PREFIX.size, size, _CHUNK):
        piece = data[start : start + _CHUNK]
        found.update(piece)
        release(np.frombuffer(piece, np.uint8))
    if found.digest() != digest:
        raise PlanError(f"plan {str(path)!r}: is damaged: its contents do not match its digest: copy it again")
    return data


def _fetch(entries: list[Any], blobs: memoryview, index: Any) -> Array:
    """Array ``index`` of the blob section, without a copy."""
    if not _is_natural(index) or index >= len(entries):
        raise PlanError(f"found constant {index!r}, needed a number below {len(entries)}")
    entry = entries[index]
    shape = tuple(entry["shape"])
    if not all(map(_is_natural, shape)):
        raise PlanError(f"constant {index} has shape {shape}, needed sizes of 0 or more")
    if "strings" in entry:
        texts = entry["strings"]
        if len(texts) != math.prod(shape) or not all(isinstance(text, str) for text in texts):
            raise PlanError(f"constant {index} has {len(texts)} texts, needed {math.prod(shape)} for shape {shape}")
        return np.array(texts, dtype=object).reshape(shape)
    type_ = TensorType(DType(entry["dtype"]), shape)
    if type_.dtype in (DType.STR, DType.OTHER):
        raise PlanError(f"constant {index} has data type {type_.dtype}, needed numbers")
    in_force().check_tensor(type_)
    start = entry["offset"]
    if not _is_natural(start) or start % _ALIGNMENT or start + type_.nbytes > len(blobs):
        raise PlanError(f"constant {index} of {type_.nbytes} bytes at {start!r} lies outside of the file's {len(blobs)} bytes "
                        f"of constants, needed it inside at a multiple of {_ALIGNMENT}")
    return np.frombuffer(blobs, type_.dtype.numpy, type_.size, start).reshape(shape)


def _is_natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def load_plan(path: str | Path, limits: ResourceLimits | None = None) -> Plan:
    """Read a plan file. Constants stay in the file, which is mapped.

    Raises PlanError, in one sentence, for a file that is truncated, damaged, foreign or of another version, and
    ResourceLimitError for one that asks for more than the limits (without any: those in force) allow.
    """
    with enforced(limits):
        return _decoded(Path(path))


def _decoded(path: Path) -> Plan:
    data = _read(path)
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
        made = _decode_provenance(header["provenance"])
        for numbers in (made.values, *made.further_values):
            _check_values(numbers, graph)
        return Plan(graph, _decode_choices(header["choices"]), made)
    except (PlanError, ResourceLimitError) as error:
        raise type(error)(f"plan {str(path)!r}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise PlanError(f"plan {str(path)!r}: is damaged: its header is not as needed ({text}): tune the model again") from error


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
    return {name: Choice(_is(str, routine), Signature.parse(_is(str, signature)), _decode_numbers(schedule))
            for name, (routine, signature, schedule) in data.items()}  # fmt: skip


def _decode_numbers(data: Mapping[str, Any]) -> dict[str, int]:
    return {name: _is(int, number) for name, number in data.items()}


def _decode_provenance(data: Mapping[str, Any]) -> Provenance:
    known = field_types(Provenance)
    values = {key: value for key, value in data.items() if key in known}
    values["shapes"] = _decode_shapes(values.get("shapes", {}))
    values["further_shapes"] = tuple(map(_decode_shapes, values.get("further_shapes", ())))
    values["values"] = _decode_numbers(values.get("values", {}))
    values["further_values"] = tuple(map(_decode_numbers, values.get("further_values", ())))
    values["ranges"] = tuple({str(n): str(text) for n, text in asked.items()} for asked in values.get("ranges", ()))
    values["measured"] = {key: tuple(map(_decode_measured, items)) for key, items in values.get("measured", {}).items()}
    values["layer_ns"] = {key: _is(float, value) for key, value in values.get("layer_ns", {}).items()}
    values["packages"] = {key: _is(str, value) for key, value in values.get("packages", {}).items()}
    values["frontier"] = tuple(Tradeoff(*_is(tuple[float, float, int], tuple(point))) for point in values.get("frontier", ()))
    for key, value in values.items():
        if not isinstance(value, (dict, tuple)):
            _is(known[key], value)
    if values.get("threads", 1) < 1:
        raise PlanError(f"found {values['threads']} threads, needed 1 or more")
    return Provenance(**values)


def _check_values(numbers: Mapping[str, int], graph: Graph) -> None:
    """Raise PlanError for a value of no input, or one that its data type cannot hold."""
    for name, number in numbers.items():
        dtype = graph.inputs[name].dtype if name in graph.inputs else DType.OTHER
        limits = np.iinfo(dtype.numpy.name) if dtype.numpy.kind in "iu" else np.iinfo(np.int8)
        least, most = (0, 1) if dtype is DType.BOOL else (limits.min, limits.max)
        if dtype.numpy.kind not in "iub" or not least <= number <= most:
            raise PlanError(f"found value {number} for input {name!r} of type {dtype}, needed one that it can hold")


def _decode_measured(data: Sequence[Any]) -> Measured:
    routine, formats, schedule, ns, spread, note = data
    return Measured(_is(str, routine), _is(str, formats), _decode_numbers(schedule), _is(float | None, ns), _is(float, spread),
                    _is(str, note))  # fmt: skip


def _decode_shapes(data: Mapping[str, Any]) -> dict[str, Shape]:
    return {name: _is(tuple[int, ...], tuple(shape)) for name, shape in data.items()}


def _is(wanted: Any, value: Any) -> Any:
    """The value. Raises PlanError when it is of another type."""
    if not conforms(value, wanted):
        raise PlanError(f"found {value!r:.80}, needed {getattr(wanted, '__name__', wanted)}")
    return value
