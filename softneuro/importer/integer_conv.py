"""ConvInteger: rows of what the windows see, times the filters, in exact integer arithmetic."""

from __future__ import annotations

import math

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.importer.windows import windows_of
from softneuro.ops.base import Op
from softneuro.ops.integer import IntegerMatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.patches import Patches
from softneuro.ops.view import View

__all__ = ["CONVERTERS"]


def _conv_integer(node: Node) -> tuple[Layer, ...] | None:
    """Inputs: x, weights, zero points of both. Padding holds the zero point of x, which must be known for that.

    Float32 would not do: sums of 512 channels under a 3 x 3 kernel reach 3e8, and only those up to 2^24 are exact there.
    """
    shape = tuple(size for size in node.shape(1) or () if size is not None)
    if len(shape) < 3 or len(shape) != node.rank(1) or int(node.get("group", 1)) != 1:
        return None
    kernel, rank = shape[2:], len(shape)
    windows = windows_of(node, kernel)
    zero = node.constant(2)
    is_padded = windows.pads is None or any(windows.pads)
    if windows.pads is None or (is_padded and node.has(2) and (zero is None or zero.size != 1)):
        return None
    last = (0, *range(2, rank), 1)
    steps: list[Op] = [Transpose(last)]
    if is_padded:
        begins, ends = windows.pads[: rank - 2], windows.pads[rank - 2 :]
        value = float(zero.reshape(-1)[0]) if zero is not None else 0.0
        steps.append(Pad("constant", (0, *begins, 0, 0, *ends, 0), value))
    steps.append(Patches(kernel, windows.strides, windows.dilations))
    layers: list[Layer] = []
    rows = _chained(node, layers, node.inputs[0], steps)
    to_columns: list[Op] = [Transpose((*range(2, rank), 1, 0)), View((math.prod(shape[1:]), shape[0]))]
    columns = _chained(node, layers, node.inputs[1], to_columns)
    sums = node.tensor("sums")
    layers.append(node.layer(IntegerMatMul(), (rows, columns, *node.inputs[2:]), (sums,)))
    layers.append(node.layer(Transpose((0, rank - 1, *range(1, rank - 1))), (sums,)))
    return tuple(layers)


def _chained(node: Node, layers: list[Layer], source: str, ops: list[Op]) -> str:
    """The tensor that ops make of ``source`` one after the other; their layers are appended."""
    for op in ops:
        target = node.tensor(op.name)
        layers.append(node.layer(op, (source,), (target,)))
        source = target
    return source


CONVERTERS: Converters = {"ConvInteger": _conv_integer}
