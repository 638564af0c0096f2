"""Operators that read pictures between their pixels: GridSample and RoiAlign."""

from __future__ import annotations

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.grid_sample import GridSample
from softneuro.ops.roi_align import RoiAlign

__all__ = ["CONVERTERS"]

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
_PADDINGS = ("zeros", "border", "reflection")


def _grid_sample(node: Node) -> tuple[Layer, ...]:
    """Modes have been renamed in opset 20."""
    mode, padding = node.get("mode", "linear"), node.get("padding_mode", "zeros")
    if mode not in _MODES:
        raise node.error(f"found mode {mode!r}, needed one of {', '.join(_MODES)}")
    if padding not in _PADDINGS:
        raise node.error(f"found padding mode {padding!r}, needed one of {', '.join(_PADDINGS)}")
    return (node.layer(GridSample(_MODES[mode], padding, bool(node.get("align_corners", 0)))),)  # type: ignore[arg-type]


def _roi_align(node: Node) -> tuple[Layer, ...]:
    """Before opset 16, pixels have their centres at whole numbers."""
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    try:
        op = RoiAlign(
            int(node.get("output_height", 1)),
            int(node.get("output_width", 1)),
            "max" if node.get("mode", "avg") == "max" else "avg",
            int(node.get("sampling_ratio", 0)),
            float(node.get("spatial_scale", 1.0)),
            node.get("coordinate_transformation_mode", default) == "half_pixel",
        )
    except ValueError as error:
        raise node.error(str(error)) from error
    return (node.layer(op),)


CONVERTERS: Converters = {
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
