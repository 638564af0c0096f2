"""Products of 8-bit or 16-bit integers that are added up in 32-bit lanes, exactly, one instruction or two at a time."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from softneuro.codegen.integer_forms import DOT, PAIRS, IntegerForm
from softneuro.codegen.vector import call_intrinsic

__all__ = ["add_dots", "add_form_products", "add_pairs"]

_PAIR_SUMS = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
"""Products of 16-bit integers summed in pairs to 32 bits, by vector width."""


def _bits(total: Any) -> int:
    return 32 * int(total.type.count)


def _elements(builder: Any, value: Any, width: int, bits: int) -> Any:
    """The bits of a vector as integers of ``width`` bits."""
    return builder.bitcast(value, ir.VectorType(ir.IntType(width), bits // width))


def add_dots(builder: Any, total: Any, rows: Any, weights: Any) -> Any:
    """``total`` and in each lane the products of four unsigned bytes and four signed ones, by vpdpbusd at this width."""
    bits = _bits(total)
    operands = [_elements(builder, value, 8, bits) for value in (rows, weights)]
    return call_intrinsic(builder, f"llvm.x86.avx512.vpdpbusd.{bits}", total.type, [total, *operands])


def add_pairs(builder: Any, total: Any, a: Any, b: Any) -> Any:
    """``total`` and in each lane the products of two signed 16-bit integers, by pmaddwd at this width."""
    bits = _bits(total)
    operands = [_elements(builder, value, 16, bits) for value in (a, b)]
    return builder.add(total, call_intrinsic(builder, _PAIR_SUMS[bits], total.type, operands))


def add_form_products(builder: Any, form: IntegerForm, total: Any, factor: Any, weights: Any) -> Any:
    """``total`` and the products of a step of a form, all given as vectors of 32-bit lanes."""
    if form is DOT:
        return add_dots(builder, total, factor, weights)
    if form is PAIRS:
        return add_pairs(builder, total, factor, weights)
    return builder.add(total, builder.mul(factor, weights))
