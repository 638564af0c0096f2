"""Adapt between data types, and between layouts on the way: float32, float16, bfloat16 and qint8."""

from __future__ import annotations

from collections.abc import Sequence

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.adapt import Adapt
from softneuro.problem import Problem
from softneuro.routines.narrow import narrow_dtypes, numbers_of
from softneuro.routines.routine import Address, Built, Launch, Routine, Schedule, Signature, packed, scratch, source, target_of
from softneuro.routines.strided import Copies, byte_strides, transposing_kernels, unmoved
from softneuro.types import Array, DType, Format, TensorType

__all__ = ["ADAPT_CONVERT_ANY"]

_ELEMENTS = {1: DType.U8, 2: DType.U16, 4: DType.U32}


def _reject(problem: Problem, target: Target) -> str | None:
    return None if narrow_dtypes(problem) else f"found {problem.input(0)}, needed f32, which may be kept in fewer bits"


def _formats(problem: Problem) -> list[Format]:
    layouts = Format.layouts_of(problem.input(0))
    return [Format(dtype, layout) for dtype in (DType.F32, *narrow_dtypes(problem)) for layout in layouts]


def _signatures(problem: Problem) -> tuple[Signature, ...]:
    formats = _formats(problem)
    return tuple(Signature((x,), (y,)) for x in formats for y in formats if x.dtype is not y.dtype)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    return numbers_of(problem.input_quantisation(0)), numbers_of(problem.output_quantisation())


def _converting(x: Address, y: Address, size: int, before: Format, after: Format) -> Launch:
    kernel = KernelSpec.of("convert", found=before.dtype.value, wanted=after.dtype.value)
    return Launch(kernel, (size, x, y, packed(0), packed(1)))


def _build(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    """Convert; where the layout changes too, elements are moved while they are small."""
    x = problem.input(0)
    before, after = signature.inputs[0], signature.outputs[0]
    assert before is not None
    narrow = min(before, after, key=lambda format_: format_.dtype.itemsize)
    element = TensorType(_ELEMENTS[narrow.dtype.itemsize], x.shape)
    old, new = byte_strides(element, before.layout), byte_strides(element, after.layout)
    if unmoved(element.dtype.itemsize, x.shape, old, new):
        return Built((_converting(source(0), target_of(0), x.size, before, after),))
    copies = Copies()
    if narrow is after:
        copies.add(element.dtype.itemsize, x.shape, scratch(), old, target_of(0), new)
        moved = copies.built()
        launches = (_converting(source(0), scratch(), x.size, before, after), *moved.launches)
    else:
        copies.add(element.dtype.itemsize, x.shape, source(0), old, scratch(), new)
        moved = copies.built()
        launches = (*moved.launches, _converting(scratch(), target_of(0), x.size, before, after))
    return Built(launches, moved.tables, element.nbytes)


def _kernels(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> tuple[KernelSpec, ...]:
    before, after = signature.inputs[0], signature.outputs[0]
    assert before is not None
    element = TensorType(_ELEMENTS[min(before.dtype.itemsize, after.dtype.itemsize)], problem.input(0).shape)
    moved = Problem(problem.op, (element,), (element,), (False,))
    converting = KernelSpec.of("convert", found=before.dtype.value, wanted=after.dtype.value)
    return (converting, *transposing_kernels(moved, signature, schedule, target))


ADAPT_CONVERT_ANY = Routine(
    name="adapt.convert.any.both", op=Adapt, reject=_reject, signatures=_signatures, build=_build, pack=_pack,
    kernels=_kernels)
