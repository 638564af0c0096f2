"""BroadcastTo and Tile as one strided copy that reads repeated axes with stride 0."""

from __future__ import annotations

from typing import cast

from softneuro.codegen.target import Target
from softneuro.ops.movement import BroadcastTo, Tile
from softneuro.problem import Problem
from softneuro.routines.formats import same_layout_signatures
from softneuro.routines.narrow import also_narrow
from softneuro.routines.routine import Built, Routine, Schedule, Signature, source, target_of
from softneuro.routines.strided import Copies, byte_strides, in_order_kernels, reject_unmovable

__all__ = ["BROADCAST_TO_STRIDED_ANY", "TILE_STRIDED_ANY"]


def _build_broadcast(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    x, y = problem.input(0), problem.outputs[0]
    if x.shape == y.shape:
        return Built(alias=0)
    x_format = signature.inputs[0]
    assert x_format is not None
    missing = y.rank - x.rank
    shape = (1,) * missing + x.shape
    strides = (0,) * missing + byte_strides(x, x_format.layout)
    repeated = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    copies = Copies()
    copies.add(x.dtype.itemsize, y.shape, source(0), repeated, target_of(0),
               byte_strides(y, signature.outputs[0].layout))
    return copies.built()


def _build_tile(problem: Problem, signature: Signature, schedule: Schedule, target: Target) -> Built:
    """Every axis as two: the repetition, which does not move in x, and the axis itself."""
    x, y = problem.input(0), problem.outputs[0]
    repeats = cast(Tile, problem.op).repeats
    assert repeats is not None
    layout = signature.outputs[0].layout
    shape: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for size, count, near, far in zip(x.shape, repeats, byte_strides(x, layout), byte_strides(y, layout), strict=True):
        shape += [count, size]
        before += [0, near]
        after += [size * far, far]
    copies = Copies()
    copies.add(x.dtype.itemsize, tuple(shape), source(0), tuple(before), target_of(0), tuple(after))
    return copies.built()


BROADCAST_TO_STRIDED_ANY = also_narrow(Routine(
    name="broadcast_to.strided.any.both", op=BroadcastTo, reject=reject_unmovable,
    signatures=same_layout_signatures, build=_build_broadcast, kernels=in_order_kernels))
TILE_STRIDED_ANY = also_narrow(Routine(
    name="tile.strided.any.both", op=Tile, reject=reject_unmovable, signatures=same_layout_signatures,
    build=_build_tile, kernels=in_order_kernels))
