"""The model and the pictures that come with the package; tools/train_demo.py made both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softneuro.types import Array

__all__ = ["INPUT", "OUTPUT", "as_input", "load_pictures", "model_path"]

INPUT, OUTPUT = "pictures", "logits"
_FOLDER = Path(__file__).parent


def model_path() -> Path:
    """The ONNX model: ``pictures`` f32[N,1,28,28] to ``logits`` f32[N,10]."""
    return _FOLDER / "fashion_mnist.onnx"


def load_pictures() -> tuple[Array, Array]:
    """200 pictures of the Fashion-MNIST test set as the model reads them, f32[200,1,28,28], and their classes, u8[200]."""
    with np.load(_FOLDER / "pictures.npz") as file:
        return as_input(file["pictures"]), file["labels"]


def as_input(pictures: np.ndarray[Any, Any]) -> Array:
    """Grey values u8[n,28,28] as the model reads them: f32[n,1,28,28] from 0 to 1."""
    return pictures[:, None].astype(np.float32) / np.float32(255)
