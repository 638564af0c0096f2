"""Another engine's model at the input sizes that are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from softneuro.types import Array

if TYPE_CHECKING:
    import onnx

__all__ = ["replace_input_sizes"]


def replace_input_sizes(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> bool:
    """Replace, in place, declared input sizes that are not those of the feeds, and forget the shapes that followed from
    them; whether there were any.

    Free ones stay free: known ones would be followed into branches that are never taken.
    """
    differs = False
    for item in proto.graph.input:
        sizes = getattr(feeds.get(item.name), "shape", ())  # lists have none
        for dim, size in zip(item.type.tensor_type.shape.dim, sizes, strict=False):
            if dim.HasField("dim_value") and dim.dim_value != size:
                dim.dim_value, differs = size, True
    if differs:
        del proto.graph.value_info[:]
        for item in proto.graph.output:
            item.type.tensor_type.ClearField("shape")
    return differs
