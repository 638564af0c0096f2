"""Operators that select elements, or write to selected places."""

from __future__ import annotations

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.cumulate import CumSum
from softneuro.ops.gather_nd import GatherND
from softneuro.ops.one_hot import OneHot
from softneuro.ops.reverse_sequence import ReverseSequence
from softneuro.ops.scatter import REDUCTIONS, ScatterElements, ScatterND
from softneuro.ops.suppression import SelectBoxes
from softneuro.ops.top_k import TopK
from softneuro.ops.trilu import Trilu
from softneuro.ops.trim import Trim

__all__ = ["CONVERTERS"]


def _top_k(node: Node) -> tuple[Layer, ...]:
    """k is an attribute up to opset 9, then an input; the results are in order even where that is not asked for."""
    constant = node.constant(1)
    k = int(node.get("k")) if node.opset < 10 else None
    if constant is not None and constant.size == 1:
        k = int(constant.reshape(-1)[0])
    op = TopK(int(node.get("axis", -1)), k, bool(node.get("largest", 1)))
    return (node.layer(op, node.inputs if k is None else node.inputs[:1], _both_outputs(node)),)


def _both_outputs(node: Node) -> tuple[str, ...]:
    """The node's two outputs, one that is absent under a name that nothing reads."""
    names = (*node.outputs, "")[:2]
    return tuple(name or node.tensor("unread") for name in names)


def _gather_nd(node: Node) -> tuple[Layer, ...]:
    return (node.layer(GatherND(int(node.get("batch_dims", 0)))),)


def _scatter_elements(node: Node) -> tuple[Layer, ...]:
    """Scatter, as it was called up to opset 10, has no reduction."""
    return (node.layer(ScatterElements(int(node.get("axis", 0)), _reduction(node))),)


def _scatter_nd(node: Node) -> tuple[Layer, ...]:
    return (node.layer(ScatterND(_reduction(node))),)


def _reduction(node: Node) -> str:
    reduction = str(node.get("reduction", "none"))
    if reduction not in REDUCTIONS:
        raise node.error(f"found reduction {reduction!r}, needed one of {', '.join(REDUCTIONS)}")
    return reduction


def _non_max_suppression(node: Node) -> tuple[Layer, ...]:
    """A selection of a size that is known before the run, then the used part of it."""
    rows, count = node.tensor("rows"), node.tensor("count")
    return (
        node.layer(SelectBoxes(bool(node.get("center_point_box", 0))), node.inputs, (rows, count)),
        node.layer(Trim(), (rows, count)),
    )


def _cum_sum(node: Node) -> tuple[Layer, ...]:
    return (node.layer(CumSum(None, bool(node.get("exclusive", 0)), bool(node.get("reverse", 0)))),)


def _trilu(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Trilu(bool(node.get("upper", 1)))),)


def _one_hot(node: Node) -> tuple[Layer, ...]:
    return (node.layer(OneHot(int(node.get("axis", -1)))),)


def _reverse_sequence(node: Node) -> tuple[Layer, ...]:
    axes = int(node.get("batch_axis", 1)), int(node.get("time_axis", 0))
    if sorted(axes) != [0, 1]:
        raise node.error(f"found batch_axis {axes[0]} and time_axis {axes[1]}, needed 0 and 1 in either order")
    return (node.layer(ReverseSequence(time_first=axes == (1, 0))),)


CONVERTERS: Converters = {
    "CumSum": _cum_sum,
    "GatherND": _gather_nd,
    "NonMaxSuppression": _non_max_suppression,
    "OneHot": _one_hot,
    "ReverseSequence": _reverse_sequence,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TopK": _top_k,
    "Trilu": _trilu,
}
