"""What happens to a row of exact sums of 8-bit products on its way to memory: scaling, epilogue, rounding, and store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from softneuro.codegen.byte_lanes import in_memory_order, packed_bytes, unpacked_bytes, within_words
from softneuro.codegen.byte_panels import BYTE_NUMBERS, is_scaled, vector_groups
from softneuro.codegen.emit import I8, I64, byte_offset, load_at, load_lanes, store_lanes
from softneuro.codegen.finish import Kept, store_finished
from softneuro.codegen.functions import activation_value
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic, first_lanes, fma_value, splat_value
from softneuro.ops.epilogue import Epilogue

__all__ = ["ByteFinish"]


class ByteFinish:
    """Stores rows of ``nv`` vectors of int32 sums, whose columns are dealt as in `byte_panels`.

    kept: ``qint8``, or a float type that the results and the residual are kept as. columns, numbers: addresses of what
    `COLUMN_NUMBERS` and `BYTE_NUMBERS` say. y, residual: addresses that rows lie ``place`` bytes behind.
    """

    def __init__(self, builder: Any, target: Target, nv: int, epilogue: str, kept: str, columns: Any, numbers: Any, y: Any,
                 residual: Any) -> None:
        self._builder, self._target, self._nv, self._epilogue = builder, target, nv, Epilogue.parse(epilogue)
        self._columns, self._y, self._residual = columns, y, residual
        self._floats = None if kept == "qint8" else Kept(kept)
        self._lanes = target.f32_lanes
        self._scaled = is_scaled(self._epilogue.activation, self._epilogue.residual)
        if kept == "qint8":
            scalars = [load_at(builder, byte_offset(builder, numbers, 4 * i), F32) for i in range(BYTE_NUMBERS)]
            self._zero = builder.fptosi(scalars[0], I32)
            self._inverse, self._ratio, self._shift = (splat_value(builder, s, self._lanes) for s in scalars[1:4])
            self._bounds = [builder.trunc(builder.fptosi(s, I32), I8) for s in scalars[4:]]

    def store(self, sums: Sequence[Any], place: Any, width: Any = None) -> None:
        """Store the row ``place`` bytes from y, or only its first ``width`` columns."""
        for first, count in vector_groups(self._nv):
            part = sums[first : first + count]
            if self._floats is not None:
                self._store_floats(first, part, place, self._floats, width)
            else:
                self._store_bytes(first, part, place, width)

    def _mask(self, width: Any, before: int, lanes: int) -> Any:
        return None if width is None else first_lanes(self._builder, self._builder.sub(width, I64(before)), lanes)

    def _lane(self, number: int, vector: int) -> Any:
        """A vector of the columns' float32 numbers."""
        offset = (number * self._nv + vector) * 4 * self._lanes
        return load_at(self._builder, byte_offset(self._builder, self._columns, offset), ir.VectorType(F32, self._lanes))

    def _real(self, first: int, sums: Sequence[Any], number: int) -> list[Any]:
        """The sums by the columns' factors and addends ``number`` and ``number + 1``."""
        floats = ir.VectorType(F32, self._lanes)
        return [fma_value(self._builder, self._target, self._builder.sitofp(total, floats), self._lane(number, first + j),
                          self._lane(number + 1, first + j)) for j, total in enumerate(sums)]

    def _store_floats(self, first: int, sums: Sequence[Any], place: Any, kept: Kept, width: Any) -> None:
        for j, value in enumerate(in_memory_order(self._builder, self._real(first, sums, 1))):
            before = (first + j) * self._lanes
            offset = self._builder.add(place, I64(before * kept.nbytes))
            store_finished(self._builder, self._target, self._epilogue, value, self._y, self._residual, offset,
                           self._mask(width, before, self._lanes), kept)

    def _store_bytes(self, first: int, sums: Sequence[Any], place: Any, width: Any) -> None:
        builder, count, before = self._builder, len(sums), first * self._lanes
        mask, offset = self._mask(width, before, count * self._lanes), builder.add(place, I64(before))
        steps = self._steps(self._real(first, sums, 3), offset, mask)
        filled = steps * 2 if count == 2 else [steps[min(j, count - 1)] for j in range(4)]  # equal halves are packed once
        found = packed_bytes(builder, self._target, filled, self._zero)
        if count < 4:
            taken = [16 * p + e for p in range(self._lanes // 4) for e in range(4 * count)]
            found = builder.shuffle_vector(found, found, ir.Constant(ir.VectorType(I32, len(taken)), taken))
        if self._scaled and self._epilogue.activation:
            found = self._bounded(found, "umax", 0)
            if self._epilogue.activation == "clip":
                found = self._bounded(found, "umin", 1)
        store_lanes(builder, found, byte_offset(builder, self._y, offset), mask, 1)

    def _bounded(self, value: Any, name: str, bound: int) -> Any:
        lanes = value.type.count
        return call_intrinsic(self._builder, f"llvm.{name}.v{lanes}i8", value.type,
                              [value, splat_value(self._builder, self._bounds[bound], lanes)])

    def _steps(self, values: Sequence[Any], offset: Any, mask: Any) -> list[Any]:
        """The epilogue's results in steps of the output."""
        builder, epilogue = self._builder, self._epilogue
        added = self._residuals(len(values), offset, mask) if epilogue.residual else []
        found = []
        for j, value in enumerate(values):
            if epilogue.residual and (self._scaled or epilogue.residual == "before"):
                value = fma_value(builder, self._target, added[j], self._ratio, value)
            if not self._scaled:
                value = activation_value(builder, self._target, epilogue.activation, epilogue.parameters, value)
                value = builder.fmul(value, self._inverse)
                if epilogue.residual == "after":
                    value = fma_value(builder, self._target, added[j], self._ratio, builder.fadd(value, self._shift))
                value = within_words(builder, value)
            found.append(value)
        return found

    def _residuals(self, count: int, offset: Any, mask: Any) -> list[Any]:
        """The bytes of the residual as float32, dealt as the sums are."""
        builder, lanes = self._builder, self._lanes
        pointer = byte_offset(builder, self._residual, offset)
        loaded = load_lanes(builder, pointer, ir.VectorType(I8, count * lanes), mask, 1)
        if count == 4:
            words = unpacked_bytes(builder, loaded)
        else:
            places = [[4 * (count * p + j) + e for p in range(lanes // 4) for e in range(4)] for j in range(count)]
            words = [builder.zext(builder.shuffle_vector(loaded, loaded, ir.Constant(ir.VectorType(I32, lanes), taken)),
                                  ir.VectorType(I32, lanes)) for taken in places]
        return [builder.sitofp(value, ir.VectorType(F32, lanes)) for value in words]
