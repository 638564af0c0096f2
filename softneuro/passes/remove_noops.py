"""Layers that give out what they read leave.

    x ── Identity ── y ── Conv     →     x ── Conv

So do multiplications by 1, additions of 0, casts to the same type, transpositions that keep the order, paddings by
nothing, slices of everything, concatenations of one tensor and so on.
"""

from __future__ import annotations

import math

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.ops.movement import BroadcastTo, Expand, Tile, Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.ops.pointwise_opcodes import CAST_PREFIX
from softneuro.ops.pool import Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.resize import Resize
from softneuro.ops.slicing import Concat, Slice, Split, StridedSlice
from softneuro.ops.view import Identity, Reshape, View
from softneuro.passes.affine import affine_form
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["remove_noops"]

_WHOLE = np.iinfo(np.int32).max  # an end of a slice from which on it means the end of the axis


def remove_noops(graph: Graph) -> Graph:
    """A layer whose result is a graph output leaves only if the output's name can go to the layer before."""
    return sweep(graph, _remove)


def _remove(draft: Draft, layer: Layer) -> Outcome:
    if sum(map(bool, layer.outputs)) != 1 or not layer.inputs or not layer.inputs[0]:
        return False
    source = _equal_input(draft, layer)
    return draft.bypass(layer, source) if source else False


def _equal_input(draft: Draft, layer: Layer) -> str:
    """The input that the layer's output always equals, or the empty name."""
    if isinstance(layer.op, Pointwise):
        return _pointwise_source(draft, layer, layer.op.program)
    same = _keeps_all(layer) or _keeps_known_shape(draft, layer)
    return layer.inputs[0] if same else ""


def _keeps_all(layer: Layer) -> bool:
    """Whether the op's parameters alone say that it changes nothing."""
    match layer.op:
        case Identity():
            return True
        case Transpose(perm):
            return perm == tuple(range(len(perm)))
        case Concat():
            return len(layer.inputs) == 1
        case Split(_, sizes, parts):
            return (sizes is not None and len(sizes) == 1) or (parts == 1 and len(layer.inputs) == 1)
        case Pad(_, pads):
            return pads is not None and not any(pads)
        case Tile(repeats):
            return repeats is not None and all(count == 1 for count in repeats)
        case Reduce(_, axes, _, True):
            return not axes and len(layer.inputs) == 1
        case Pool() as pool:
            return math.prod(pool.kernel) == 1 and math.prod(pool.strides) == 1 and not any(pool.pads)
    return False


def _keeps_known_shape(draft: Draft, layer: Layer) -> bool:
    """Whether the op changes nothing because its input has the shape that it has, in every run."""
    x, y = draft.shape(layer.inputs[0]), draft.shape(layer.outputs[0])
    unchanged = x is not None and x == y
    match layer.op:
        case View() | BroadcastTo() | Reshape():
            return unchanged
        case StridedSlice(starts, steps):
            return unchanged and not any(starts) and all(step == 1 for step in steps)
        case Resize() as resize:
            return unchanged and resize.coordinates != "tf_crop_and_resize" and not resize.antialias
        case Slice():
            return _slices_everything(draft, layer)
        case Expand():
            shape, rank = draft.constant(layer.inputs[1]), draft.rank(layer.inputs[0])
            only_ones = shape is not None and rank is not None and len(shape) <= rank and bool((shape == 1).all())
            return unchanged or only_ones
    return False


def _slices_everything(draft: Draft, layer: Layer) -> bool:
    starts, ends = draft.constant(layer.inputs[1]), draft.constant(layer.inputs[2])
    steps = draft.constant(layer.inputs[4]) if len(layer.inputs) > 4 and layer.inputs[4] else np.ones(1)
    if starts is None or ends is None or steps is None:
        return False
    return bool((starts == 0).all() and (ends >= _WHOLE).all() and (steps == 1).all())


def _pointwise_source(draft: Draft, layer: Layer, program: str) -> str:
    first, *others = parse_program(program)
    dtype = draft.dtype(layer.inputs[0])
    casts = dtype is not None and first.opcode == CAST_PREFIX + dtype
    if not others and (casts or (first.opcode == "clip" and first.parameters == (-math.inf, math.inf))):
        return layer.inputs[0]
    form = affine_form(draft, layer)
    if form is None or form.scale.size != 1 or form.shift.size != 1:
        return ""
    return form.source if form.is_shift and not form.shift.any() else ""
