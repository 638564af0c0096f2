"""ConvTranspose."""

from __future__ import annotations

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.importer.windows import kernel_of
from softneuro.ops.conv_transpose import ConvTranspose

__all__ = ["CONVERTERS"]


def _conv_transpose(node: Node) -> tuple[Layer, ...] | None:
    kernel = kernel_of(node)
    if kernel is None or not kernel:
        return None
    spatial = len(kernel)
    strides, dilations = node.ints("strides") or (1,) * spatial, node.ints("dilations") or (1,) * spatial
    extra = node.ints("output_padding") or (0,) * spatial
    pads = _transposed_pads(node, kernel, strides, dilations, extra)
    if pads is None or min(pads) < 0:
        return None
    op = ConvTranspose(strides, pads, extra, dilations, int(node.get("group", 1)), node.has(2))
    return (node.layer(op),)


def _transposed_pads(
    node: Node, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], extra: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Pads, worked out from the wanted output sizes where given; None when the input's sizes are not known."""
    spatial, auto, wanted = len(kernel), node.get("auto_pad", "NOTSET"), node.ints("output_shape")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if wanted is not None:
        sizes = (node.shape(0) or (None,) * (spatial + 2))[2:]
        if any(size is None for size in sizes):
            return None
        full = [s * (size - 1) + e + o for s, size, e, o in zip(strides, sizes, extents, extra, strict=True) if size is not None]
        totals = [f - w for f, w in zip(full, wanted[-spatial:], strict=True)]
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        totals = [e + o - s for e, o, s in zip(extents, extra, strides, strict=True)]
    else:
        return (0,) * (2 * spatial) if auto == "VALID" else node.ints("pads") or (0,) * (2 * spatial)
    smaller, larger = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (*smaller, *larger) if auto == "SAME_UPPER" else (*larger, *smaller)


CONVERTERS: Converters = {"ConvTranspose": _conv_transpose}
