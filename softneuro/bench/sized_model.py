"""An ONNX model with the input sizes that are to be measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from softneuro.types import Array

if TYPE_CHECKING:
    import onnx

__all__ = ["sized_model"]


def sized_model(model: Path, feeds: Mapping[str, Array], folder: Path) -> Path:
    """The model itself, or a copy in the folder when it declares fixed input sizes other than the feeds have."""
    import onnx

    proto = onnx.load(model, load_external_data=False)
    if not _replaced(proto, feeds):
        return model
    sizes = {name: array.shape for name, array in feeds.items()}
    copy = folder / f"{hashlib.sha256(f'{model.resolve()} {sizes}'.encode()).hexdigest()[:16]}.onnx"
    if not copy.exists():
        proto = onnx.load(model)
        _replaced(proto, feeds)
        onnx.save(proto, copy)
    return copy


def _replaced(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> bool:
    """Replace declared sizes in place, and forget shapes that followed from them; whether any was another."""
    differs = False
    for item in proto.graph.input:
        shape = feeds[item.name].shape if item.name in feeds else ()
        for dim, size in zip(item.type.tensor_type.shape.dim, shape, strict=False):
            if dim.HasField("dim_value") and dim.dim_value != size:
                dim.dim_value, differs = size, True
    if differs:
        del proto.graph.value_info[:]
        for item in proto.graph.output:
            item.type.tensor_type.ClearField("shape")
    return differs
