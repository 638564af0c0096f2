"""An ONNX model in ncnn's own format, translated by the program of the package pnnx."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Mapping
from pathlib import Path

from softneuro.bench.process import EngineFailed, ending
from softneuro.bench.sized_model import sized_model
from softneuro.types import Array

__all__ = ["ncnn_model"]

_TYPES = {"float32": "f32", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
          "uint8": "u8", "bool": "i8"}  # fmt: skip


def ncnn_model(model: Path, feeds: Mapping[str, Array], folder: Path) -> Path:
    """The ``.param`` file of the translation for these shapes, made in the folder unless it is there; ``.bin`` lies beside.

    Weights stay float32. Raises EngineFailed when pnnx cannot translate the model.
    """
    shapes = ",".join(_shape(name, array) for name, array in feeds.items())
    place = folder / f"ncnn-{hashlib.sha256(f'{model.resolve()} {shapes}'.encode()).hexdigest()[:16]}"
    param = place / "model.ncnn.param"
    if not param.exists():
        place.mkdir(exist_ok=True)
        link = place / "model.onnx"  # pnnx writes beside what it reads
        link.unlink(missing_ok=True)
        link.symlink_to(sized_model(model, feeds, place).resolve())
        command = [_program(), "model.onnx", f"inputshape={shapes}", "fp16=0"]
        done = subprocess.run(command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != 0 or not param.exists():
            raise EngineFailed(f"ncnn: pnnx cannot translate the model ({ending(done.returncode)}){_said(done.stderr)}")
    return param


def _program() -> str:
    """The package's program; importing the package would import torch."""
    spec = importlib.util.find_spec("pnnx")
    if spec is None or spec.origin is None:
        raise EngineFailed("ncnn: package 'pnnx' is not installed, needed pip install 'softneuro[ncnn]'")
    return str(Path(spec.origin).with_name("pnnx"))


def _shape(name: str, array: Array) -> str:
    kind = _TYPES.get(str(array.dtype))
    if kind is None:
        raise EngineFailed(f"ncnn: input {name!r} has data type {array.dtype}, needed one of {', '.join(_TYPES)}")
    return f"[{','.join(map(str, array.shape))}]{kind}"


def _said(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
