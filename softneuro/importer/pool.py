"""MaxPool, AveragePool, their global forms and GlobalLpPool."""

from __future__ import annotations

from collections.abc import Callable

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.importer.windows import windows_of
from softneuro.ops.base import Op
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import GlobalPool, Pool, PoolKind
from softneuro.ops.reduce import Reduce
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


def _global_lp(node: Node) -> tuple[Layer, ...] | None:
    """The p-norm over all spatial axes."""
    p, rank = float(node.get("p", 2)), node.rank(0)
    if rank is None:
        return None
    axes = tuple(range(2, rank))
    if p in (1.0, 2.0):
        return (node.layer(Reduce(f"l{int(p)}", axes)),)
    powers, total = node.tensor("powers"), node.tensor("total")
    return (
        node.layer(Pointwise(f"abs(x0);pow(t0,{p!r})"), outputs=(powers,)),
        node.layer(Reduce("sum", axes), (powers,), (total,)),
        node.layer(Pointwise(f"pow(x0,{1 / p!r})"), (total,)),
    )


CONVERTERS: Converters = {
    "GlobalLpPool": _global_lp,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("average"),
    "GlobalMaxPool": _global("max"),
    "GlobalAveragePool": _global("average"),
}
