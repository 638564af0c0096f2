"""Operators of the domain ai.onnx.ml that are plain arithmetic."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.pointwise import Pointwise

__all__ = ["CONVERTERS"]


def _scaler(node: Node) -> tuple[Layer, ...]:
    """(x - offset) * scale as float32, with one number of each for every column or one for all."""
    names = [
        node.add_constant(name, np.array(node.get(name, default), np.float32))
        for name, default in (("offset", [0.0]), ("scale", [1.0]))
    ]
    return (node.layer(Pointwise("cast_f32(x0);sub(t0,x1);mul(t1,x2)"), (node.inputs[0], *names)),)


CONVERTERS: Converters = {"Scaler": _scaler}
