"""From a path, bytes or a ModelProto to one checked ModelProto without local functions, and the folder of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from softneuro.errors import ModelError
from softneuro.importer.functions import with_functions_inlined

__all__ = ["Loaded", "load"]


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
    else:
        path = Path(model)
        what = f"model file {str(path)!r}"
        proto = _parsed(_contents(path), what)
    if proto.ir_version < 1 or not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelError(f"{what}: found no graph, needed an ONNX model")
    _opsets(proto, what)
    inlined = with_functions_inlined(proto)
    return Loaded(inlined, _opsets(inlined, what), path)


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"model file {str(path)!r}: cannot be read ({error.strerror or error})") from error


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
    if "" in opsets and not 1 <= opsets[""] <= newest:
        raise ModelError(f"{what}: uses operator set version {opsets['']}, needed one from 1 to {newest}")
    return opsets
