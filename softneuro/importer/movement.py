"""Operators that move elements: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Gather, space and depth."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.gather import Gather
from softneuro.ops.gather_elements import GatherElements
from softneuro.ops.movement import DepthToSpace, Expand, SpaceToDepth, Tile, Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.slicing import Concat, Slice, Split

__all__ = ["CONVERTERS"]


def _transpose(node: Node) -> tuple[Layer, ...] | None:
    perm, rank = node.ints("perm"), node.rank(0)
    if perm is None and rank is None:
        return None
    return (node.layer(Transpose(perm if perm is not None else tuple(reversed(range(rank or 0))))),)


def _concat(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Concat(int(node.get("axis", 1)))),)  # an attribute that is required from opset 4 on


def _split(node: Node) -> tuple[Layer, ...] | None:
    if not all(node.outputs) or len(node.outputs) != len(node.proto.output):
        return None
    sizes, constant = node.ints("split"), node.constant(1)
    if constant is not None:
        sizes = tuple(int(size) for size in constant.reshape(-1))
    inputs = node.inputs if node.has(1) and constant is None else node.inputs[:1]
    return (node.layer(Split(int(node.get("axis", 0)), sizes, 0 if sizes is not None else len(node.outputs)), inputs),)


def _slice(node: Node) -> tuple[Layer, ...]:
    if node.opset >= 10:
        return (node.layer(Slice()),)
    parts = [
        node.add_constant(name, np.array(node.get(name), np.int64)) if name in node.attributes else ""
        for name in ("starts", "ends", "axes")
    ]
    return (node.layer(Slice(), (node.inputs[0], *(parts if parts[2] else parts[:2]))),)


def _pad(node: Node) -> tuple[Layer, ...]:
    mode = node.get("mode", "constant")
    if node.opset < 11:
        pads = node.ints("paddings" if node.opset < 2 else "pads")
        return (node.layer(Pad(mode, pads, float(node.get("value", 0.0)))),)
    constant, value = node.constant(1), node.constant(2)
    is_static = constant is not None and not node.has(3) and (value is not None or not node.has(2))
    if constant is None or not is_static:
        return (node.layer(Pad(mode)),)
    number = value.reshape(-1)[0].item() if value is not None and value.size else 0.0
    return (node.layer(Pad(mode, tuple(int(p) for p in constant.reshape(-1)), number), node.inputs[:1]),)


def _expand(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Expand()),)


def _tile(node: Node) -> tuple[Layer, ...]:
    if node.opset < 6:
        raise node.unsupported("repeats one axis, needed the form of opset 6")
    repeats = node.constant(1)
    if repeats is None:
        return (node.layer(Tile()),)
    return (node.layer(Tile(tuple(int(r) for r in repeats.reshape(-1))), node.inputs[:1]),)


def _gather(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Gather(int(node.get("axis", 0)))),)


def _gather_elements(node: Node) -> tuple[Layer, ...]:
    return (node.layer(GatherElements(int(node.get("axis", 0)))),)


def _depth_to_space(node: Node) -> tuple[Layer, ...]:
    return (node.layer(DepthToSpace(int(node.get("blocksize")), node.get("mode", "DCR"))),)


def _space_to_depth(node: Node) -> tuple[Layer, ...] | None:
    if node.get("mode", "DCR") != "DCR":
        return None
    return (node.layer(SpaceToDepth(int(node.get("blocksize")))),)


CONVERTERS: Converters = {
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
