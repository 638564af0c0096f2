"""Pooling over windows with the borders as tables: which taps of each output position lie inside the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from softneuro.codegen.conventions import POOL_ROWS
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.ops.pool import Pool, tap_counts
from softneuro.problem import Problem
from softneuro.routines.formats import F32_CHF, F32_CHL, reject_unless_f32
from softneuro.routines.narrow import narrow_dtypes, numbers_of, stored_dtype
from softneuro.routines.routine import (
    Address,
    Built,
    Launch,
    Routine,
    Schedule,
    Signature,
    Word,
    packed,
    scratch,
    source,
    table,
    target_of,
)
from softneuro.routines.sizes import round_up
from softneuro.types import Array, DType, Format, Layout

__all__ = ["POOL_WINDOW_BF16_CHL", "POOL_WINDOW_F16_CHL", "POOL_WINDOW_F32_CHF", "POOL_WINDOW_F32_CHL",
           "POOL_WINDOW_QINT8_CHL", "Axis", "pool_axes", "reject_pool"]

_AXES = 3


def reject_pool(problem: Problem, target: Target) -> str | None:
    """Why neither layout can compute the problem."""
    x = problem.input(0)
    if not 3 <= x.rank <= 2 + _AXES:
        return f"found an input of rank {x.rank}, needed 3 to {2 + _AXES}"
    return reject_unless_f32(problem)


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a pooling problem. windows: int64 [outputs][3], for every output position the first tap's
    position inside the axis, how many taps are inside, and how many elements an average counts."""

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    windows: Array

    @classmethod
    def of(cls, op: Pool, axis: int, size: int) -> Axis:
        """Spatial axis ``axis`` of a problem, ``size`` elements long."""
        kernel, stride, dilation, pad = op.kernel[axis], op.strides[axis], op.dilations[axis], op.pads[axis]
        outputs = op.output_size(axis, size)
        start = np.arange(outputs) * stride - pad
        skipped = np.maximum(0, -(start // dilation))
        inside = np.maximum(0, np.minimum(kernel, -((start - size) // dilation)) - skipped)
        columns = (start + skipped * dilation, inside, tap_counts(op, axis, size))
        return cls(size, outputs, kernel, stride, dilation, pad, np.stack(columns, axis=1).astype(np.int64))

    @classmethod
    def through(cls, size: int) -> Axis:
        """An axis that is not pooled: windows of one element."""
        columns = (np.arange(size), np.ones(size), np.ones(size))
        return cls(size, size, 1, 1, 1, 0, np.stack(columns, axis=1).astype(np.int64))


def pool_axes(problem: Problem) -> tuple[Axis, Axis, Axis]:
    """The spatial axes as d, h, w; missing ones have one element."""
    op, spatial = cast(Pool, problem.op), problem.input(0).shape[2:]
    axes = [Axis.of(op, axis, size) for axis, size in enumerate(spatial)]
    d, h, w = [Axis.through(1)] * (_AXES - len(axes)) + axes
    return d, h, w


def _schedules(problem: Problem, target: Target, lanes: int) -> tuple[Schedule, ...]:
    """nv: vectors of channels at a time, balanced so that the last group is nearly full.

    passes: windows whole, or first along w and then along d and h where that is less than half the taps.
    """
    vectors = math.ceil(problem.input(0).shape[1] / lanes)
    balanced = [math.ceil(vectors / math.ceil(vectors / most)) for most in (4, 8) if 2 * most < target.registers]
    d, h, w = pool_axes(problem)
    separable = 2 * (d.stride * h.stride * w.kernel + d.kernel * h.kernel) < d.kernel * h.kernel * w.kernel
    passes = (2, 1) if separable else (1,)
    return tuple({"nv": max(1, nv), "passes": p} for p in passes for nv in dict.fromkeys(balanced))


def _chl_words(x: Address, y: Address, images: int, channels: int, axes: Sequence[Axis], tables: Sequence[int],
               size: int) -> tuple[Word, ...]:
    """size: bytes of an element of x."""
    d, h, w = axes
    steps = (size * channels * w.size * h.size, size * channels * w.size, size * channels)
    return (
        x, y, images, channels, d.outputs, h.outputs, w.outputs, steps[0] * d.size, *steps,
        *(step * axis.dilation for step, axis in zip(steps, axes, strict=True)), *(table(t) for t in tables),
        packed(0), packed(1),
    )  # fmt: skip


def _build_chl(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    images, channels = problem.input(0).shape[:2]
    d, h, w = pool_axes(problem)
    kind, before, after = cast(Pool, problem.op).kind, stored_dtype(signature), signature.outputs[0].dtype
    between = before if kind == "max" else DType.F32

    def kernel(found: DType, wanted: DType) -> KernelSpec:
        return KernelSpec.of("pool_chl", kind=kind, nv=schedule["nv"], found=found.value, wanted=wanted.value)

    if schedule["passes"] == 1:
        words = _chl_words(source(0), target_of(0), images, channels, (d, h, w), (0, 1, 2), before.itemsize)
        return Built((Launch(kernel(before, after), words),), (d.windows, h.windows, w.windows))
    d_in, h_in, w_in = Axis.through(d.size), Axis.through(h.size), Axis.through(w.outputs)
    first = _chl_words(source(0), scratch(), images, channels, (d_in, h_in, w), (3, 4, 2), before.itemsize)
    second = _chl_words(scratch(), target_of(0), images, channels, (d, h, w_in), (0, 1, 5), between.itemsize)
    tables = (d.windows, h.windows, w.windows, d_in.windows, h_in.windows, w_in.windows)
    nbytes = between.itemsize * images * channels * d.size * h.size * w.outputs
    return Built((Launch(kernel(before, between), first), Launch(kernel(between, after), second)), tables, nbytes)


def _pack(problem: Problem, schedule: Schedule, target: Target, values: Sequence[Array | None]) -> tuple[Array, ...]:
    return numbers_of(problem.input_quantisation(0)), numbers_of(problem.output_quantisation())


def _refused_dtype(problem: Problem, target: Target, dtype: DType) -> str | None:
    """Bytes need quantisations, and maxima of bytes the same one on both sides."""
    moved = cast(Pool, problem.op).kind == "max"
    reason = reject_pool(problem, target)
    if reason is not None or dtype is DType.F32 or dtype in narrow_dtypes(problem, moved=moved):
        return reason
    return f"found no quantisations for {dtype}, needed {'one for input and output' if moved else 'those of input and output'}"


def _chl_signatures(problem: Problem, dtype: DType) -> tuple[Signature, ...]:
    """Outputs of the input's data type, and averages as float32 too."""
    own = Format(dtype, Layout.CHL)
    outputs = (own,) if cast(Pool, problem.op).kind == "max" else dict.fromkeys((own, F32_CHL))
    return tuple(Signature((own,), (y,)) for y in outputs)


def _lanes(problem: Problem, target: Target, dtype: DType) -> int:
    """Channels in a vector: maxima of bytes are taken byte by byte, all else is done in float32."""
    return target.f32_lanes * (4 if dtype is DType.QINT8 and cast(Pool, problem.op).kind == "max" else 1)


def _chl_routine(dtype: DType) -> Routine:
    return Routine(
        name=f"pool.window.{dtype}.chl", op=Pool, reject=lambda problem, target: _refused_dtype(problem, target, dtype),
        signatures=lambda problem: _chl_signatures(problem, dtype), build=_build_chl, pack=_pack,
        schedules=lambda problem, target: _schedules(problem, target, _lanes(problem, target, dtype)))


POOL_WINDOW_F32_CHL = _chl_routine(DType.F32)
POOL_WINDOW_BF16_CHL = _chl_routine(DType.BF16)
POOL_WINDOW_F16_CHL = _chl_routine(DType.F16)
POOL_WINDOW_QINT8_CHL = _chl_routine(DType.QINT8)


def _build_chf(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, lanes = problem.input(0), target.f32_lanes
    d, h, w = pool_axes(problem)

    across = round_up(w.outputs, lanes)
    row_floats = round_up(max(w.pad + round_up(w.size, lanes), across * w.stride + (w.kernel - 1) * w.dilation), lanes)
    with np.errstate(divide="ignore"):
        factors = np.ones(across, np.float32)
        factors[: w.outputs] = np.float32(1) / w.windows[:, 2].astype(np.float32)
    steps = (4 * w.size * h.size, 4 * w.size)
    words = (
        source(0), target_of(0), x.shape[0] * x.shape[1], d.outputs, h.outputs, w.outputs, steps[0] * d.size, *steps,
        steps[0] * d.dilation, steps[1] * h.dilation, w.size, w.pad, row_floats, 4 * w.dilation,
        table(0), table(1), table(2), scratch(), problem.threads,
    )  # fmt: skip
    kind = cast(Pool, problem.op).kind
    kernel = KernelSpec.of("pool_chf", kind=kind, stride=w.stride, kernel_h=h.kernel, kernel_w=w.kernel)
    rows = POOL_ROWS * problem.threads
    return Built((Launch(kernel, words),), (d.windows, h.windows, factors), 4 * row_floats * rows)


POOL_WINDOW_F32_CHF = Routine(
    name="pool.window.f32.chf",
    op=Pool,
    reject=reject_pool,
    signatures=lambda problem: (Signature((F32_CHF,), (F32_CHF,)),),
    build=_build_chf,
)
