"""Attributes that convolutions and pooling share: strides, dilations, and pads in their static and automatic forms."""

from __future__ import annotations

from dataclasses import dataclass

from softneuro.importer.node import Node
from softneuro.ops.same_padding import same_pads

__all__ = ["Windows", "kernel_of", "windows_of"]


@dataclass(frozen=True)
class Windows:
    """How a kernel moves. pads: None when they are to keep the size ("same") of an input whose size is not known."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None
    upper: bool


def kernel_of(node: Node) -> tuple[int, ...] | None:
    """A kernel's sizes, from the attribute or from the shape of the weights at input 1; None when neither is known."""
    declared = node.ints("kernel_shape")
    weights = node.shape(1)
    if weights is None:
        return declared
    sizes = tuple(size for size in weights[2:] if size is not None)
    if declared is not None and len(sizes) == len(weights) - 2 and sizes != declared:
        raise node.error(f"found kernel_shape {declared} and weights of shape {weights}, needed equal kernel sizes")
    return declared if declared is not None else sizes if len(sizes) == len(weights) - 2 else None


def windows_of(node: Node, kernel: tuple[int, ...]) -> Windows:
    """The windows of a node that reads (n, c, *spatial) at input 0. Raises ModelError for lists of the wrong length."""
    spatial = len(kernel)
    strides = node.ints("strides") or (1,) * spatial
    dilations = node.ints("dilations") or (1,) * spatial
    pads = node.ints("pads") or (0,) * (2 * spatial)
    for name, values, needed in (
        ("strides", strides, spatial),
        ("dilations", dilations, spatial),
        ("pads", pads, 2 * spatial),
    ):
        if len(values) != needed:
            raise node.error(f"found {name} {values}, needed {needed} numbers")
    if min((*strides, *dilations, *kernel), default=1) < 1:
        raise node.error(f"found kernel {kernel}, strides {strides}, dilations {dilations}, needed numbers of at least 1")
    auto = node.get("auto_pad", "NOTSET")
    if auto == "VALID":
        return Windows(kernel, strides, dilations, (0,) * (2 * spatial), False)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return Windows(kernel, strides, dilations, pads, False)
    upper, sizes = auto == "SAME_UPPER", (node.shape(0) or ())[2:]
    known = [size for size in sizes if size is not None]
    resolved = same_pads(known, kernel, strides, dilations, upper=upper) if len(known) == spatial else None
    return Windows(kernel, strides, dilations, resolved, upper)
