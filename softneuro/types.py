"""Data types, layouts and tensor types: the words every other module speaks in.

Shapes are always written in ONNX order (channels first), whatever the layout in memory is.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "DType", "Dim", "Format", "Layout", "Shape", "TensorType", "admits", "physical_shape", "to_layout",
           "to_logical"]

Array: TypeAlias = npt.NDArray[Any]
Dim: TypeAlias = int
Shape: TypeAlias = tuple[int, ...]


class DType(enum.StrEnum):
    """Element type of a tensor, in the short names used in problem texts."""

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"
    STR = "str"
    C64 = "c64"
    C128 = "c128"
    QINT8 = "qint8"  # of formats only: a float tensor kept as bytes with a scale and a zero point
    OTHER = "other"  # float8, int4, sequences, optionals: only the host handles them

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type that holds one element (bf16 through ml_dtypes)."""
        if self is DType.BF16:
            import ml_dtypes

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(_NUMPY[self])

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return 2 if self is DType.BF16 else np.dtype(_NUMPY[self]).itemsize

    @property
    def is_float(self) -> bool:
        """Whether the type holds real numbers with a fraction."""
        return self in (DType.F32, DType.F64, DType.F16, DType.BF16)

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> DType:
        """The DType of a numpy dtype; ``OTHER`` for one that no kernel knows."""
        name = np.dtype(dtype).name
        if name.startswith(("str", "object", "bytes")):
            return cls.STR
        return _BY_NUMPY_NAME.get(name, cls.OTHER)


_NUMPY: dict[DType, str] = {
    DType.F32: "float32", DType.F64: "float64", DType.F16: "float16",
    DType.I8: "int8", DType.U8: "uint8", DType.I16: "int16", DType.U16: "uint16",
    DType.I32: "int32", DType.U32: "uint32", DType.I64: "int64", DType.U64: "uint64",
    DType.BOOL: "bool", DType.QINT8: "uint8", DType.STR: "object", DType.C64: "complex64", DType.C128: "complex128",
    DType.OTHER: "object",
}  # fmt: skip
_OWN_NAMES = {DType.QINT8, DType.STR, DType.OTHER}
_BY_NUMPY_NAME = {np.dtype(n).name: d for d, n in _NUMPY.items() if d not in _OWN_NAMES} | {"bfloat16": DType.BF16}


class Layout(enum.StrEnum):
    """Order of the axes in memory.

    ``chf`` (channels first) is row-major in ONNX order for tensors of rank 3 and more, ``chl`` moves axis 1 to
    the end, ``plain`` is row-major for ranks 0 to 2, where the two are the same thing.
    """

    CHF = "chf"
    CHL = "chl"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, order=True)
class Format:
    """Data type and layout of one tensor in memory, written ``f32:chl``."""

    dtype: DType
    layout: Layout

    def __str__(self) -> str:
        return f"{self.dtype}:{self.layout}"

    @classmethod
    def parse(cls, text: str) -> Format:
        """Inverse of ``str``. Raises ValueError for an unknown data type or layout."""
        dtype, _, layout = text.partition(":")
        return cls(DType(dtype), Layout(layout))

    @classmethod
    def row_major(cls, type_: TensorType) -> Format:
        """The format of a plain C-ordered array of this type."""
        return cls(type_.dtype, Layout.CHF if type_.rank >= 3 else Layout.PLAIN)

    @staticmethod
    def layouts_of(type_: TensorType) -> tuple[Layout, ...]:
        """The layouts that a tensor of this type can have."""
        return (Layout.CHF, Layout.CHL) if type_.rank >= 3 else (Layout.PLAIN,)

    def nbytes(self, type_: TensorType) -> int:
        """Bytes of a dense tensor of this type kept in this format."""
        return type_.size * self.dtype.itemsize


_TYPE_TEXT = re.compile(r"^(?P<dtype>[a-z0-9]+)\[(?P<dims>[0-9,]*)\]$")


@dataclass(frozen=True, slots=True)
class TensorType:
    """Data type and logical shape of a tensor, written ``f32[1,64,56,56]``."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @classmethod
    def parse(cls, text: str) -> TensorType:
        """Inverse of ``str``. Raises ValueError when the text is not of that form."""
        match = _TYPE_TEXT.match(text)
        if match is None:
            raise ValueError(f"tensor type {text!r}: needed a text like f32[1,64,56,56]")
        dims = match["dims"]
        if match["dtype"] == DType.QINT8:
            raise ValueError(f"tensor type {text!r}: {DType.QINT8} is a format of float tensors, no type")
        return cls(DType(match["dtype"]), tuple(int(d) for d in dims.split(",")) if dims else ())

    @classmethod
    def of(cls, array: Array) -> TensorType:
        """The type of a numpy array."""
        return cls(DType.of(array.dtype), tuple(array.shape))


def admits(declared: Sequence[int | str | None] | None, shape: Sequence[int]) -> bool:
    """Whether sizes agree with declared dimensions: numbers are fixed, symbols and None free; None alone admits any rank."""
    return declared is None or (
        len(declared) == len(shape) and all(not isinstance(d, int) or d == s for d, s in zip(declared, shape, strict=True))
    )


def physical_shape(shape: Shape, layout: Layout) -> Shape:
    """The shape in memory of a tensor of logical ``shape``: ``chl`` moves axis 1 to the end."""
    if layout is Layout.CHL:
        return (shape[0], *shape[2:], shape[1])
    return shape


def to_layout(array: Array, layout: Layout) -> Array:
    """The array (logical order) as a C-contiguous array in memory order."""
    if layout is Layout.CHL:
        return np.ascontiguousarray(np.moveaxis(array, 1, -1))
    return np.asarray(array, order="C")  # ascontiguousarray would make a scalar an array of one axis


def to_logical(array: Array, layout: Layout) -> Array:
    """A view in logical (ONNX) order of an array in memory order."""
    return np.moveaxis(array, -1, 1) if layout is Layout.CHL else array
