"""MaxPool, AveragePool and their global forms."""

from __future__ import annotations

from collections.abc import Callable

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.importer.windows import windows_of
from softneuro.ops.base import Op
from softneuro.ops.pool import GlobalPool, Pool, PoolKind
from softneuro.ops.same_padding import SamePool

__all__ = ["CONVERTERS"]


def _pool(kind: PoolKind) -> Converter:
    def convert(node: Node) -> tuple[Layer, ...] | None:
        kernel = node.ints("kernel_shape")
        if not kernel or not node.only_output():  # an output of indices
            return None
        windows = windows_of(node, kernel)
        inside = bool(node.get("count_include_pad", 0))
        op: Op
        if windows.pads is None:
            op = SamePool(kind, kernel, windows.strides, windows.dilations, inside, windows.upper)
        else:
            ceil_mode = bool(node.get("ceil_mode", 0)) and node.get("auto_pad", "NOTSET") == "NOTSET"
            op = Pool(kind, kernel, windows.strides, windows.pads, windows.dilations, ceil_mode, inside)
        return (node.layer(op, outputs=node.outputs[:1]),)

    return convert


def _global(kind: PoolKind) -> Callable[[Node], tuple[Layer, ...]]:
    return lambda node: (node.layer(GlobalPool(kind)),)


CONVERTERS: Converters = {
    "MaxPool": _pool("max"),
    "AveragePool": _pool("average"),
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("average"),
}
