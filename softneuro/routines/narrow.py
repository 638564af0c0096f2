"""float32 tensors kept in fewer bits: which formats a problem's tensors may have, and routines that only move elements.

Moving elements of a float32 tensor that is kept as bf16 or qint8 is moving elements of 2 or 1 bytes, so every routine that
moves those serves it as well.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.quantisation import Quantisation
from softneuro.routines.routine import Built, Routine, Schedule, Signature
from softneuro.types import Array, DType, Format, TensorType

__all__ = ["also_narrow", "narrow_dtypes", "numbers_of", "stored_dtype"]

_ELEMENTS = {DType.BF16: DType.U16, DType.F16: DType.U16, DType.QINT8: DType.U8}
"""The integers that elements kept as a narrow type are moved as."""


def narrow_dtypes(problem: Problem, *, moved: bool = False) -> tuple[DType, ...]:
    """What else the float32 tensors of a problem may be kept as; none for problems of other types.

    moved: the output must have the input's bytes, so both need the same quantisation.
    """
    types = [t for t in (*problem.inputs, *problem.outputs) if t is not None]
    if types[0].dtype is not DType.F32 or types[-1].dtype is not DType.F32:
        return ()
    kept = [q for t, q in zip((*problem.inputs, *problem.outputs), problem.quantisations, strict=False)
            if t is not None and t.dtype is DType.F32]
    bytewise = bool(kept) and None not in kept and (not moved or len(set(kept)) == 1)
    return (DType.BF16, DType.F16, DType.QINT8) if bytewise else (DType.BF16, DType.F16)


def numbers_of(quantisation: Quantisation | None) -> Array:
    """What kernels read of a quantisation: float32 scale and zero point."""
    return np.array((quantisation.scale, quantisation.zero) if quantisation else (1.0, 0.0), np.float32)


def stored_dtype(signature: Signature) -> DType:
    """What the first tensor of a signature is kept as."""
    return next(f.dtype for f in (*signature.inputs, *signature.outputs) if f is not None)


def also_narrow(routine: Routine) -> Routine:
    """A routine that moves elements of any size, for float32 tensors kept in fewer bits too.

    Its signatures must give all float32 tensors of a problem formats of one data type.
    """
    return replace(
        routine, signatures=partial(_signatures, routine), build=partial(_build, routine), kernels=partial(_kernels, routine)
    )


def _signatures(routine: Routine, problem: Problem) -> tuple[Signature, ...]:
    found = routine.signatures(problem)
    for dtype in narrow_dtypes(problem, moved=True):
        found += tuple(_with_dtype(signature, DType.F32, dtype) for signature in routine.signatures(problem))
    return found


def _with_dtype(signature: Signature, before: DType, after: DType) -> Signature:
    def changed(format_: Format) -> Format:
        return Format(after, format_.layout) if format_.dtype is before else format_

    return Signature(tuple(f and changed(f) for f in signature.inputs), tuple(map(changed, signature.outputs)))


def _as_elements(problem: Problem, signature: Signature) -> tuple[Problem, Signature]:
    """The problem and the signature with integers in place of float32 tensors that are kept in fewer bits."""
    narrow = next((f.dtype for f in (*signature.inputs, *signature.outputs) if f is not None and f.dtype in _ELEMENTS), None)
    if narrow is None or problem.outputs[0].dtype is not DType.F32:
        return problem, signature
    element = _ELEMENTS[narrow]

    def changed(type_: TensorType) -> TensorType:
        return TensorType(element, type_.shape) if type_.dtype is DType.F32 else type_

    inputs = tuple(t and changed(t) for t in problem.inputs)
    moved = replace(problem, inputs=inputs, outputs=tuple(map(changed, problem.outputs)), quantisations=())
    return moved, _with_dtype(signature, narrow, element)


def _build(routine: Routine, problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    return routine.build(*_as_elements(problem, signature), schedule, target)


def _kernels(routine: Routine, problem: Problem, signature: Signature, schedule: Schedule,
             target: Target) -> tuple[KernelSpec, ...]:
    return routine.kernels(*_as_elements(problem, signature), schedule, target)
