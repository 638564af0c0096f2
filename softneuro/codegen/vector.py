"""SIMD vectors as values inside kernels: a numba type and the intrinsics on it, for one target's width.

``f32 = vectors(target)`` gives a namespace of intrinsics; kernel factories take the ones they use into local
names, since numba sees functions in a closure but no attributes of a plain object:

    load, store, fma = f32.load, f32.store, f32.fma
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

from softneuro.codegen.target import Target

__all__ = ["F32", "I32", "I64", "F32Vectors", "VectorType", "build_intrinsic", "call_intrinsic", "first_lanes", "float_bits",
           "fma_value", "masked_load", "masked_store", "splat_value", "vectors"]

F32, I32, I64, I1 = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
Generate = Callable[[Any, list[Any]], Any]


class VectorType(types.Type):
    """``lanes`` elements of an LLVM type in one register (or a few, when wider than the target's)."""

    def __init__(self, element: ir.Type, lanes: int) -> None:
        self.llvm = ir.VectorType(element, lanes)
        super().__init__(name=f"vector({lanes} x {element})")


@register_default(VectorType)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, fe_type: VectorType) -> None:
        super().__init__(manager, fe_type, fe_type.llvm)


def call_intrinsic(builder: Any, name: str, result: ir.Type, args: list[Any]) -> Any:
    """Call the LLVM intrinsic ``name`` (declared on first use) with the types of its arguments."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def build_intrinsic(result: types.Type, arguments: list[types.Type], generate: Generate) -> Any:
    """A numba intrinsic of fixed types whose code is ``generate(builder, args)``."""
    names = ", ".join(f"a{i}" for i in range(len(arguments)))

    def typed(typingctx: Any, *_: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = generate(builder, list(args))
            return context.get_dummy_value() if value is None else value

        return result(*arguments), emit

    # numba reads the number of parameters from the signature, so a function of exactly that many is made
    namespace: dict[str, Any] = {"typed": typed}
    exec(f"def fixed(typingctx, {names}):\n    return typed(typingctx, {names})", namespace)
    return intrinsic(namespace["fixed"])


@dataclass(frozen=True)
class F32Vectors:
    """Intrinsics on float32 vectors. Addresses and counts are int64, scalars float32; ``n`` counts lanes.

    maximum(a, b) and minimum(a, b) return b when either is NaN, so ``maximum(zero, x)`` propagates NaN.
    load_n/store_n touch only the first n lanes (0..lanes; missing lanes load as 0).
    less(a, b) gives a mask for select(mask, a, b); equal likewise.
    """

    lanes: int
    load: Any
    store: Any
    load_n: Any
    store_n: Any
    splat: Any
    fma: Any
    add: Any
    sub: Any
    mul: Any
    div: Any
    maximum: Any
    minimum: Any
    less: Any
    equal: Any
    select: Any
    negate: Any
    absolute: Any
    sqrt: Any
    floor: Any
    ceil: Any
    round_even: Any
    sum: Any
    largest: Any
    smallest: Any


def splat_value(builder: Any, value: Any, lanes: int) -> Any:
    """An LLVM vector with the scalar ``value`` in every lane."""
    vector = ir.VectorType(value.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(undefined, value, ir.Constant(I32, 0)),
        undefined,
        ir.Constant(ir.VectorType(I32, lanes), [0] * lanes),
    )


def first_lanes(builder: Any, count: Any, lanes: int) -> Any:
    """A mask of the first ``count`` (int64) lanes."""
    ramp = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
    return builder.icmp_signed("<", ramp, splat_value(builder, builder.trunc(count, I32), lanes))


def _float_width(element: ir.Type) -> int:
    return 64 if isinstance(element, ir.DoubleType) else 32


def float_bits(vector: Any) -> int:
    """Bits of an element of a vector value of floats."""
    return _float_width(vector.type.element)


def _masked(vector: Any) -> str:
    """How LLVM's masked loads and stores of a vector type end."""
    element = vector.element
    return f"v{vector.count}{f'i{element.width}' if isinstance(element, ir.IntType) else f'f{_float_width(element)}'}.p0"


def masked_load(builder: Any, pointer: Any, vector: Any, mask: Any, other: Any = None, align: int = 4) -> Any:
    """A vector of which only the lanes of the mask are read; the others are those of ``other``, or 0."""
    absent = ir.Constant(vector, None) if other is None else other
    arguments = [builder.bitcast(pointer, vector.as_pointer()), I32(align), mask, absent]
    return call_intrinsic(builder, f"llvm.masked.load.{_masked(vector)}", vector, arguments)


def masked_store(builder: Any, value: Any, pointer: Any, mask: Any, align: int = 4) -> None:
    """Store only the lanes of the mask."""
    arguments = [value, builder.bitcast(pointer, value.type.as_pointer()), I32(align), mask]
    call_intrinsic(builder, f"llvm.masked.store.{_masked(value.type)}", ir.VoidType(), arguments)


def fma_value(builder: Any, target: Target, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, fused where the target has the instruction."""
    if target.fma:
        return call_intrinsic(builder, f"llvm.fma.v{a.type.count}f{float_bits(a)}", a.type, [a, b, c])
    return builder.fadd(builder.fmul(a, b), c)


@functools.cache
def vectors(target: Target) -> F32Vectors:
    """The float32 vector intrinsics for a target's register width."""
    lanes = target.f32_lanes
    kind = VectorType(F32, lanes)
    mask = VectorType(I1, lanes)
    llvm_vector = kind.llvm
    suffix = f"v{lanes}f32"
    i64, f32 = types.int64, types.float32

    def pointer(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, llvm_vector.as_pointer())

    def load_n(builder: Any, a: list[Any]) -> Any:
        return masked_load(builder, pointer(builder, a[0]), llvm_vector, first_lanes(builder, a[1], lanes))

    def store_n(builder: Any, a: list[Any]) -> None:
        masked_store(builder, a[1], pointer(builder, a[0]), first_lanes(builder, a[2], lanes))

    def store(builder: Any, a: list[Any]) -> None:
        builder.store(a[1], pointer(builder, a[0]), align=4)

    def reduce(name: str) -> Generate:
        def generate(builder: Any, a: list[Any]) -> Any:
            if name == "fadd":
                call = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(F32, [F32, llvm_vector]), f"llvm.vector.reduce.fadd.{suffix}")
                return builder.call(call, [ir.Constant(F32, -0.0), a[0]], fastmath=("reassoc",))
            return call_intrinsic(builder, f"llvm.vector.reduce.{name}.{suffix}", F32, [a[0]])

        return generate

    def unary(name: str) -> Any:
        return build_intrinsic(kind, [kind], lambda b, a: call_intrinsic(b, f"llvm.{name}.{suffix}", llvm_vector, a))

    def binary(generate: Generate, result: types.Type = kind) -> Any:
        return build_intrinsic(result, [kind, kind], generate)

    return F32Vectors(
        lanes=lanes,
        load=build_intrinsic(kind, [i64], lambda b, a: b.load(pointer(b, a[0]), align=4)),
        store=build_intrinsic(types.void, [i64, kind], store),
        load_n=build_intrinsic(kind, [i64, i64], load_n),
        store_n=build_intrinsic(types.void, [i64, kind, i64], store_n),
        splat=build_intrinsic(kind, [f32], lambda b, a: splat_value(b, a[0], lanes)),
        fma=build_intrinsic(kind, [kind] * 3, lambda b, a: fma_value(b, target, *a)),
        add=binary(lambda b, a: b.fadd(*a)),
        sub=binary(lambda b, a: b.fsub(*a)),
        mul=binary(lambda b, a: b.fmul(*a)),
        div=binary(lambda b, a: b.fdiv(*a)),
        maximum=binary(lambda b, a: b.select(b.fcmp_ordered(">", *a), *a)),
        minimum=binary(lambda b, a: b.select(b.fcmp_ordered("<", *a), *a)),
        less=binary(lambda b, a: b.fcmp_ordered("<", *a), mask),
        equal=binary(lambda b, a: b.fcmp_ordered("==", *a), mask),
        select=build_intrinsic(kind, [mask, kind, kind], lambda b, a: b.select(*a)),
        negate=build_intrinsic(kind, [kind], lambda b, a: b.fneg(a[0])),
        absolute=unary("fabs"),
        sqrt=unary("sqrt"),
        floor=unary("floor"),
        ceil=unary("ceil"),
        round_even=unary("rint"),
        sum=build_intrinsic(f32, [kind], reduce("fadd")),
        largest=build_intrinsic(f32, [kind], reduce("fmax")),
        smallest=build_intrinsic(f32, [kind], reduce("fmin")),
    )
