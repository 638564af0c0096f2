"""Tensors that are kept with one scale and zero point: those between which layers only move elements.

Elements of one byte are moved as they are, without a look at them, so the tensors at both ends need the same quantisation.
It spans the ranges of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from softneuro.graph import Graph, Layer
from softneuro.ops.base import Op
from softneuro.ops.gather import Gather
from softneuro.ops.gather_elements import GatherElements
from softneuro.ops.gather_nd import GatherND
from softneuro.ops.movement import BroadcastTo, DepthToSpace, Expand, SpaceToDepth, Tile, Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.ops.resize import Resize
from softneuro.ops.same_padding import SamePool
from softneuro.ops.scatter import ScatterElements, ScatterND
from softneuro.ops.slicing import Concat, Slice, Split, StridedSlice
from softneuro.ops.top_k import TopK
from softneuro.ops.trilu import Trilu
from softneuro.ops.trim import Trim
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze, View

__all__ = ["MOVING", "linked"]

_Names = Sequence[str]


def _first_to_all(layer: Layer) -> _Names:
    return (layer.inputs[0], *layer.outputs)


def _first_to_first(layer: Layer) -> _Names:
    return (layer.inputs[0], layer.outputs[0])


def _all(layer: Layer) -> _Names:
    return (*layer.inputs, *layer.outputs)


def _when_max(layer: Layer) -> _Names:
    return _first_to_first(layer) if getattr(layer.op, "kind", "") == "max" else ()


def _when_nearest(layer: Layer) -> _Names:
    return _first_to_first(layer) if isinstance(layer.op, Resize) and layer.op.mode == "nearest" else ()


def _when_it_replaces(layer: Layer) -> _Names:
    return (layer.inputs[0], layer.inputs[2], layer.outputs[0]) if getattr(layer.op, "reduction", "") == "none" else ()


MOVING: Mapping[type[Op], Callable[[Layer], _Names]] = {
    View: _first_to_first, Reshape: _first_to_first, Flatten: _first_to_first, Squeeze: _first_to_first,
    Unsqueeze: _first_to_first, Identity: _first_to_first,
    Transpose: _first_to_first, DepthToSpace: _first_to_first, SpaceToDepth: _first_to_first,
    BroadcastTo: _first_to_first, Expand: _first_to_first, Tile: _first_to_first,
    Concat: _all, Split: _first_to_all, Slice: _first_to_first, StridedSlice: _first_to_first,
    Pad: _first_to_first, Trim: _first_to_first, Trilu: _first_to_first,
    Gather: _first_to_first, GatherElements: _first_to_first, GatherND: _first_to_first,
    ScatterElements: _when_it_replaces, ScatterND: _when_it_replaces,
    TopK: _first_to_first,
    Pool: _when_max, SamePool: _when_max, GlobalPool: _when_max, Resize: _when_nearest,
}  # fmt: skip
"""The ops that only move elements (or choose among them), and between which of a layer's tensors."""


def linked(graph: Graph, tensors: Collection[str]) -> list[list[str]]:
    """The given tensors in groups of one quantisation, in the graph's order; a tensor that nothing moves is a group of its
    own. Links lead through tensors that are not given as well, but not through constants."""
    order = dict.fromkeys([*graph.inputs, *(name for layer in graph.layers for name in layer.outputs if name)])
    leader = {name: name for name in order}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    for layer in graph.layers:
        rule = MOVING.get(type(layer.op))
        names = [name for name in rule(layer) if name in order] if rule and any(layer.outputs) else []
        for name in names[1:]:
            leader[find(name)] = find(names[0])
    groups: dict[str, list[str]] = {}
    for name in order:
        if name in tensors:
            groups.setdefault(find(name), []).append(name)
    return list(groups.values())
