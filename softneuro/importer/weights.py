"""Tensors of a model as numpy arrays: embedded, in files beside the model, and sparse ones made dense."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx

from softneuro.errors import ModelError
from softneuro.importer.screen import element_bits, tensor_nbytes
from softneuro.types import Array

__all__ = ["Weights"]


class Weights:
    """Reads the tensors of one model. ``path`` is the model's file, None when it has none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The tensor's elements. Raises ModelError when they are missing, too few, or outside of the model's folder."""
        if tensor.data_type == onnx.TensorProto.UNDEFINED or tensor.data_type not in onnx.TensorProto.DataType.values():
            raise ModelError(f"tensor {tensor.name!r}: found element type {tensor.data_type}, needed one that ONNX defines")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(tensor)
        found = len(tensor.raw_data)
        if tensor.HasField("raw_data") and tensor.data_type != onnx.TensorProto.STRING and found != tensor_nbytes(tensor):
            raise ModelError(f"tensor {tensor.name!r} of shape {tuple(tensor.dims)}: found {found} bytes of data, "
                             f"needed {tensor_nbytes(tensor)}: fetch or export the model again")
        try:
            return onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise ModelError(f"tensor {tensor.name!r} of shape {tuple(tensor.dims)}: {_first_line(error)}, "
                             "needed as many elements as its shape has") from error

    def dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """The sparse tensor with its zeros. Indices are row-major positions, or one row of axis indices each."""
        name, shape = sparse.values.name, tuple(sparse.dims)
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        dense = np.zeros(shape, values.dtype)
        position = indices if indices.ndim == 1 else tuple(indices.T)
        try:
            (dense.reshape(-1) if indices.ndim == 1 else dense)[position] = values
        except (IndexError, ValueError) as error:
            raise ModelError(f"sparse tensor {name!r} of shape {shape}: {_first_line(error)}") from error
        return dense

    def _external(self, tensor: onnx.TensorProto) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = self._file(tensor.name, entries.get("location", ""))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        packed = element_bits(tensor.data_type)
        needed = tensor_nbytes(tensor)
        offset = _number(tensor.name, entries, "offset", 0)
        length = _number(tensor.name, entries, "length", needed)
        size = file.stat().st_size
        if length != needed or dtype.hasobject:
            raise ModelError(
                f"tensor {tensor.name!r} of shape {tuple(tensor.dims)}: found {length} bytes of external data, needed {needed}"
            )
        if offset + length > size:
            raise ModelError(f"tensor {tensor.name!r}: file {file.name!r} has {size} bytes, needed {offset + length}")
        if packed >= 8:
            return np.fromfile(file, dtype, math.prod(tensor.dims), offset=offset).reshape(tuple(tensor.dims))
        inline = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        inline.raw_data = np.fromfile(file, np.uint8, length, offset=offset).tobytes()
        return onnx.numpy_helper.to_array(inline)

    def _file(self, name: str, location: str) -> Path:
        """The data file, which must be inside the model's folder once links are followed.

        One exception: in caches that keep every file as a link into one folder of blobs, the model file is such a
        link, and data may lie in the same folder as what it points to.
        """
        if self._path is None:
            raise ModelError(f"tensor {name!r}: its data are in file {location!r}, needed the model's path rather than its bytes")
        if _leaves_folder(location):
            raise ModelError(f"tensor {name!r}: its data file {location!r} is outside of the model's folder, needed one inside")
        folder = self._path.parent.resolve()
        try:
            file = (folder / location).resolve()
            is_file = file.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long a name, a byte of 0, links in a circle
            raise ModelError(f"tensor {name!r}: its data file {location!r} cannot be found ({_first_line(error)}), "
                             "needed a file in the model's folder") from error
        beside_blob = self._path.is_symlink() and file.parent == self._path.resolve().parent
        if not file.is_relative_to(folder) and not beside_blob:
            raise ModelError(
                f"tensor {name!r}: its data file {location!r} is a link out of the model's folder, needed one inside"
            )
        if not is_file:
            raise ModelError(f"tensor {name!r}: its data file {location!r} is missing from the model's folder, needed it there")
        return file


def _leaves_folder(location: str) -> bool:
    """Whether a location names no file below a folder, on any system: a colon is a drive or a stream to Windows."""
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    parts = (*posix.parts, *windows.parts)
    return not parts or ".." in parts or posix.is_absolute() or bool(windows.anchor) or ":" in location


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _number(name: str, entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(f"tensor {name!r}: found {key} {text!r} of its external data, needed a number of at least 0")
    return int(text)
