"""From a path, bytes or a ModelProto to one checked ModelProto without local functions, and the folder of its data."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from softneuro.errors import ModelError
from softneuro.importer.expanded import with_operators_expanded
from softneuro.importer.functions import with_functions_inlined
from softneuro.importer.screen import screen

__all__ = ["Loaded", "load"]

_MOST_BYTES = (1 << 31) - 1  # of one protobuf message


@dataclass(frozen=True)
class Loaded:
    """A model, its operator set versions by domain ("" is ONNX's own), and where external data may lie.

    path: the model's file as it was named; None for a model in memory, which has no external data.
    """

    model: onnx.ModelProto
    opsets: Mapping[str, int]
    path: Path | None


def load(model: str | Path | bytes | onnx.ModelProto) -> Loaded:
    """Read and check what does not depend on single nodes.

    Raises ModelError for bytes that are no ONNX model, an operator set that is too new, and recursive functions;
    ResourceLimitError when inlining functions would make too many nodes.
    """
    path: Path | None = None
    if isinstance(model, onnx.ModelProto):
        proto, what = model, "the model"
    elif isinstance(model, (bytes, bytearray, memoryview)):
        proto, what = _parsed(bytes(model), "the model"), "the model"
    elif not isinstance(model, (str, Path)):
        raise ModelError(f"the model: found {type(model).__name__}, needed a path, the bytes of a file or a ModelProto")
    else:
        path = Path(model)
        what = f"model file {str(path)!r}"
        proto = _parsed(_contents(path), what)
    try:
        return _checked(proto, what, path)
    except UnicodeDecodeError as error:
        raise ModelError(f"{what}: found a name with the bytes {error.object[:40]!r}, needed UTF-8: "
                         "export the model again") from error


def _checked(proto: onnx.ModelProto, what: str, path: Path | None) -> Loaded:
    screen(proto, what)
    if proto.ir_version < 1 or not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{what}: found no graph, needed an ONNX model")
    _opsets(proto, what)
    inlined = with_operators_expanded(with_functions_inlined(proto))
    return Loaded(inlined, _opsets(inlined, what), path)


def _contents(path: Path) -> bytes:
    what = f"model file {str(path)!r}"
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe would keep us waiting, and a device may have no end
            raise ModelError(f"model file {str(path)!r}: cannot be read (no regular file), needed the path of an ONNX file")
        if status.st_size > _MOST_BYTES:
            raise ModelError(f"{what}: found {status.st_size} bytes, needed at most {_MOST_BYTES}, the most of a protobuf: "
                             "save its weights as external data")
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ModelError(f"model file {str(path)!r}: cannot be read ({reason}), needed the path of an ONNX file") from error


def _parsed(data: bytes, what: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(
            f"{what}: found {len(data)} bytes that are no ONNX model or a part of one, needed a whole model"
        ) from error
    return proto


def _opsets(proto: onnx.ModelProto, what: str) -> dict[str, int]:
    """Versions by domain. Models of IR version 1 and 2 have none: they mean version 1."""
    newest = onnx.defs.onnx_opset_version()
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import}
    if not opsets and proto.ir_version < 3:
        opsets[""] = 1
    for domain, version in opsets.items():
        if not 0 <= version < 1 << 31:
            raise ModelError(f"{what}: uses operator set version {version} of domain {domain!r}, needed a positive number")
    if "" in opsets and not 1 <= opsets[""] <= newest:
        raise ModelError(f"{what}: uses operator set version {opsets['']}, needed one from 1 to {newest}")
    return opsets
