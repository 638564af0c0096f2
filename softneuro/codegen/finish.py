"""What happens to a vector of finished sums on its way to memory: epilogue, and loads and stores of a few lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from softneuro.codegen.emit import load_at, store_at
from softneuro.codegen.functions import activation_value
from softneuro.codegen.target import Target
from softneuro.codegen.vector import F32, I32, call_intrinsic
from softneuro.ops.epilogue import Epilogue

__all__ = ["finish_value", "load_lanes", "store_lanes"]


def finish_value(builder: Any, target: Target, epilogue: Epilogue, value: Any, residual: Callable[[], Any]) -> Any:
    """The epilogue of a vector; ``residual()`` emits the load of its addend and is called only if there is one."""
    if epilogue.residual == "before":
        value = builder.fadd(value, residual())
    value = activation_value(builder, target, epilogue.activation, epilogue.parameters, value)
    return builder.fadd(value, residual()) if epilogue.residual == "after" else value


def load_lanes(builder: Any, pointer: Any, lanes: int, mask: Any) -> Any:
    """A float32 vector from a byte pointer; with a mask, only its lanes are read and the others are 0."""
    vector = ir.VectorType(F32, lanes)
    if mask is None:
        return load_at(builder, pointer, vector)
    arguments = [builder.bitcast(pointer, vector.as_pointer()), I32(4), mask, ir.Constant(vector, [0.0] * lanes)]
    return call_intrinsic(builder, f"llvm.masked.load.v{lanes}f32.p0", vector, arguments)


def store_lanes(builder: Any, value: Any, pointer: Any, mask: Any) -> None:
    """Store a float32 vector to a byte pointer; with a mask, only its lanes."""
    if mask is None:
        store_at(builder, value, pointer)
        return
    arguments = [value, builder.bitcast(pointer, value.type.as_pointer()), I32(4), mask]
    call_intrinsic(builder, f"llvm.masked.store.v{value.type.count}f32.p0", ir.VoidType(), arguments)
