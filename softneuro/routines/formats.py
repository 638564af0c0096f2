"""Formats and signatures that many routines share, and what those for float32 refuse first."""

from __future__ import annotations

from softneuro.problem import Problem
from softneuro.routines.routine import Signature
from softneuro.types import DType, Format, Layout, physical_shape

__all__ = ["F32_CHF", "F32_CHL", "memory_order", "reject_unless_f32", "row_major_signature", "same_layout_signatures"]

F32_CHF, F32_CHL = Format(DType.F32, Layout.CHF), Format(DType.F32, Layout.CHL)


def reject_unless_f32(problem: Problem) -> str | None:
    """The refusal of routines whose input 0 is float32."""
    dtype = problem.input(0).dtype
    return f"found {dtype} input, needed f32" if dtype is not DType.F32 else None


def memory_order(rank: int, layout: Layout) -> tuple[int, ...]:
    """The axes (ONNX order) in the order of memory, outermost first."""
    return physical_shape(tuple(range(rank)), layout)


def row_major_signature(problem: Problem) -> Signature:
    """All inputs and outputs row-major."""
    return Signature(tuple(None if t is None else Format.row_major(t) for t in problem.inputs),
                     tuple(Format.row_major(t) for t in problem.outputs))


def same_layout_signatures(problem: Problem) -> tuple[Signature, ...]:
    """All inputs and outputs row-major, and when they share one rank of 3 or more, all channels last."""
    types = [t for t in (*problem.inputs, *problem.outputs) if t is not None]
    if types[0].rank < 3 or any(t.rank != types[0].rank for t in types):
        return (row_major_signature(problem),)
    last = Signature(tuple(None if t is None else Format(t.dtype, Layout.CHL) for t in problem.inputs),
                     tuple(Format(t.dtype, Layout.CHL) for t in problem.outputs))
    return row_major_signature(problem), last
