"""Zeros around the input of a convolution or pool become its own pads.

    x ── Pad(pads=(0, 0, 1, 1, 0, 0, 1, 1)) ── Conv     →     x ── Conv(pads=(1, 1, 1, 1))
"""

from __future__ import annotations

import math
from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.conv import Conv
from softneuro.ops.padding import Pad
from softneuro.ops.pool import Pool
from softneuro.passes.linear import linear_op
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["pad_into_window"]

_NOT_NEGATIVE = ("relu", "sigmoid", "hard_sigmoid")


def pad_into_window(graph: Graph) -> Graph:
    """Max pools ignore their pads, so those take lowest values, or zeros around what is never negative."""
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    op = layer.op
    pad = draft.producer(layer.inputs[0]) if isinstance(op, (Conv, Pool)) else None
    if pad is None or not isinstance(pad.op, Pad) or not isinstance(op, (Conv, Pool)):
        return False
    spatial = len(op.strides)
    if pad.op.mode != "constant" or pad.op.pads is None or len(pad.op.pads) != 2 * (spatial + 2):
        return f"{pad.name!r} is no constant padding with known pads"
    begins, ends = pad.op.pads[: spatial + 2], pad.op.pads[spatial + 2 :]
    if min(pad.op.pads) < 0 or any((*begins[:2], *ends[:2])):
        return f"{pad.name!r} crops, or pads images or channels"
    added = (*begins[2:], *ends[2:])
    refusal = _pool_refusal(draft, op, pad, added) if isinstance(op, Pool) else _conv_refusal(pad.op)
    if refusal:
        return refusal
    pads = tuple(a + b for a, b in zip(op.pads, added, strict=True))
    changed = replace(op, pads=pads)
    if isinstance(changed, Pool) and changed.kind == "average":
        changed = replace(changed, count_include_pad=True)
    draft.replace(layer, replace(layer, op=changed, inputs=(pad.inputs[0], *layer.inputs[1:])))
    return True


def _conv_refusal(pad: Pad) -> str:
    return f"it pads with {pad.value}, needed 0" if pad.value != 0 else ""


def _pool_refusal(draft: Draft, op: Pool, pad: Layer, added: tuple[int, ...]) -> str:
    assert isinstance(pad.op, Pad)
    if op.ceil_mode:
        return "windows that hang over the end would start in the pads"
    if op.kind == "average":
        fits = pad.op.value == 0 and (op.count_include_pad or not any(op.pads))
        return "" if fits else f"it pads with {pad.op.value} and counts only elements inside"
    extents = [(k - 1) * d + 1 for k, d in zip(op.kernel, op.dilations, strict=True)]
    wide = any(a + b >= e for a, b, e in zip(op.pads, added, extents * 2, strict=True))
    if pad.op.value == -math.inf:
        return ""
    if pad.op.value != 0 or any(op.pads) or not _is_not_negative(draft, pad.inputs[0]):
        return f"it pads with {pad.op.value}, which can be the maximum"
    return "some window would have nothing but pads" if wide else ""


def _is_not_negative(draft: Draft, tensor: str) -> bool:
    """Whether the tensor comes out of an activation that is never negative."""
    op = linear_op(draft, tensor)
    if op is None or op.epilogue.residual == "after":
        return False
    epilogue = op.epilogue
    return epilogue.activation in _NOT_NEGATIVE or (epilogue.activation == "clip" and epilogue.parameters[0] >= 0)
