"""If, Loop and Scan: their bodies become graphs, what these capture (but constants) becomes inputs of the layer."""

from __future__ import annotations

from softneuro.control import If, Loop, Scan
from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node

__all__ = ["CONVERTERS"]


def _if(node: Node) -> tuple[Layer, ...]:
    branches = node.get("then_branch"), node.get("else_branch")
    if None in branches:
        raise node.error("found one branch, needed then_branch and else_branch")
    then_branch, then_captures = node.scope.body(branches[0])
    else_branch, else_captures = node.scope.body(branches[1])
    captures = tuple(sorted({*then_captures, *else_captures}))
    return (node.layer(If(then_branch, else_branch, captures), (node.inputs[0], *captures)),)


def _loop(node: Node) -> tuple[Layer, ...]:
    if node.get("body") is None:
        raise node.error("found no body, needed one")
    body, captures = node.scope.body(node.get("body"))
    carried = len(body.inputs) - len(captures) - 2
    if carried < 0 or len(body.outputs) < 1 + carried:
        raise node.error(
            f"its body has {carried + 2} inputs and {len(body.outputs)} outputs, needed 2 and 1 besides the carried values"
        )
    inputs = (*node.inputs, *("",) * (2 + carried - len(node.inputs)))
    empty = tuple(node.scope.least_type(name) for name in body.outputs[1 + carried :])
    return (node.layer(Loop(body, carried, captures, empty), (*inputs, *captures)),)


def _scan(node: Node) -> tuple[Layer, ...]:
    if node.get("body") is None:
        raise node.error("found no body, needed one")
    body, captures = node.scope.body(node.get("body"))
    scanned = int(node.get("num_scan_inputs"))
    states = len(body.inputs) - len(captures) - scanned
    results = len(body.outputs) - states
    if states < 0 or results < 0:
        raise node.error(
            f"its body has {len(body.inputs) - len(captures)} inputs and {len(body.outputs)} outputs, "
            f"needed {scanned} scanned inputs and every state as input and output"
        )
    batched = node.opset < 9
    inputs = node.inputs[1:] if batched else node.inputs
    if len(inputs) != states + scanned:
        raise node.error(f"found {len(inputs)} inputs, needed {states} states and {scanned} scanned inputs")
    lengths = (node.inputs[0],) if batched else ()
    reverse_in = node.ints("directions" if batched else "scan_input_directions") or (0,) * scanned
    op = Scan(
        body,
        scanned,
        captures,
        batched,
        input_axes=node.ints("scan_input_axes") or (0,) * scanned,
        input_reversed=tuple(bool(r) for r in reverse_in),
        output_axes=node.ints("scan_output_axes") or (0,) * results,
        output_reversed=tuple(bool(r) for r in node.ints("scan_output_directions") or (0,) * results),
        empty=tuple(node.scope.least_type(name) for name in body.outputs[states:]),
    )
    return (node.layer(op, (*lengths, *inputs, *captures)),)


CONVERTERS: Converters = {"If": _if, "Loop": _loop, "Scan": _scan}
