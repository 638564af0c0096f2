"""An ONNX model with the input sizes that are to be measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from softneuro.compare.input_sizes import replace_input_sizes
from softneuro.types import Array

__all__ = ["sized_model"]


def sized_model(model: Path, feeds: Mapping[str, Array], folder: Path) -> Path:
    """The model itself, or a copy in the folder when it declares fixed input sizes other than the feeds have."""
    import onnx

    proto = onnx.load(model, load_external_data=False)
    if not replace_input_sizes(proto, feeds):
        return model
    sizes = {name: array.shape for name, array in feeds.items()}
    copy = folder / f"{hashlib.sha256(f'{model.resolve()} {sizes}'.encode()).hexdigest()[:16]}.onnx"
    if not copy.exists():
        proto = onnx.load(model)
        replace_input_sizes(proto, feeds)
        onnx.save(proto, copy)
    return copy
