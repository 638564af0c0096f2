"""Resize, and Upsample, which it replaced."""

from __future__ import annotations

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.resize import Resize
from softneuro.types import Array

__all__ = ["CONVERTERS"]

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}


def _resize(node: Node) -> tuple[Layer, ...] | None:
    mode = _MODES.get(node.get("mode", "nearest"))
    if mode is None:
        return None
    if node.opset < 11:
        return _legacy(node, mode, node.inputs[1])
    op = Resize(
        mode=mode,
        coordinates=node.get("coordinate_transformation_mode", "half_pixel"),
        nearest=node.get("nearest_mode", "round_prefer_floor"),
        cubic_a=float(node.get("cubic_coeff_a", -0.75)),
        exclude_outside=bool(node.get("exclude_outside", 0)),
        extrapolation=float(node.get("extrapolation_value", 0.0)),
        antialias=bool(node.get("antialias", 0)),
        axes=node.ints("axes"),
        policy=node.get("keep_aspect_ratio_policy", "stretch"),
    )
    return (node.layer(op),)


def _upsample(node: Node) -> tuple[Layer, ...] | None:
    mode = _MODES.get(node.get("mode", "nearest"))
    if mode is None:
        return None
    if node.opset >= 9:
        return _legacy(node, mode, node.inputs[1])
    scales = node.get("scales") or [1.0, 1.0, node.get("height_scale"), node.get("width_scale")]  # opset 7, opset 1
    return _legacy(node, mode, node.add_constant("scales", np.array(scales, np.float32)))


def _legacy(node: Node, mode: str, scales: str) -> tuple[Layer, ...] | None:
    """Coordinates as before opset 11. "Nearest" is downwards when enlarging, upwards when shrinking."""
    nearest = _legacy_nearest(node.scope.constant(scales))
    if mode == "nearest" and nearest is None:
        return None
    return (node.layer(Resize(mode=mode, coordinates="asymmetric", nearest=nearest or "floor"), (node.inputs[0], "", scales)),)


def _legacy_nearest(scales: Array | None) -> str | None:
    if scales is None or bool((scales >= 1).all()):
        return "floor"
    return "ceil" if bool((scales <= 1).all()) else None


CONVERTERS: Converters = {"Resize": _resize, "Upsample": _upsample}
