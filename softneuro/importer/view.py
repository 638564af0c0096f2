"""Operators that only rename a shape or pass their input on."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converter, Converters, Node
from softneuro.ops.absent import Absent
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze

__all__ = ["CONVERTERS"]


def _reshape(node: Node) -> tuple[Layer, ...]:
    if node.opset < 5:
        shape = node.add_constant("shape", np.array(node.get("shape"), np.int64))
        return (node.layer(Reshape(), (node.inputs[0], shape)),)
    return (node.layer(Reshape(bool(node.get("allowzero", 0)))),)


def _flatten(node: Node) -> tuple[Layer, ...]:
    return (node.layer(Flatten(int(node.get("axis", 1)))),)


def _axes_form(kind: type[Squeeze] | type[Unsqueeze]) -> Converter:
    """Axes are an attribute up to opset 12, then an input; constant ones go into the op."""

    def convert(node: Node) -> tuple[Layer, ...]:
        axes, constant = node.ints("axes"), node.constant(1)
        if constant is not None:
            axes = tuple(int(axis) for axis in constant.reshape(-1))
        return (node.layer(kind(axes), node.inputs if axes is None else node.inputs[:1]),)

    return convert


def _identity(node: Node) -> tuple[Layer, ...]:
    value = node.constant(0)
    if value is None:
        return (node.layer(Identity()),)
    node.scope.add_constant(node.outputs[0], value)
    return ()


def _dropout(node: Node) -> tuple[Layer, ...] | None:
    """Nothing happens outside of training. The mask and training itself are left to the reference."""
    training = node.constant(2)
    in_training = node.has(2) and (training is None or bool(training.any()))
    if in_training or not node.only_output():
        return None
    return (node.layer(Identity(), node.inputs[:1], node.outputs[:1]),)


def _optional(node: Node) -> tuple[Layer, ...]:
    """An optional is its value, or None."""
    return (node.layer(Identity() if node.has(0) else Absent()),)


CONVERTERS: Converters = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _axes_form(Squeeze),
    "Unsqueeze": _axes_form(Unsqueeze),
    "Identity": _identity,
    "Dropout": _dropout,
    "Optional": _optional,
}
