"""ncnn in a process of its own: see `softneuro.bench.adapter`.

Everything that makes float32 convolutions fast stays on (Winograd, packed layouts); reduced precision is off, as the
other engines compute in float32. The threads of its OpenMP spin for 20 ms after a run before they sleep: whoever
measures another engine next must wait longer than that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from softneuro.bench.adapter import Feeds, Loaded

__all__ = ["bring", "load"]

_REDUCED = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage")


def bring() -> str:
    """Import it; gives the version."""
    import ncnn

    return str(ncnn.__version__)


def load(model: str, threads: int, feeds: Feeds) -> Loaded:
    """Load a ``.param`` file with the ``.bin`` file beside it. Raises RuntimeError when ncnn cannot run it on such inputs."""
    import ncnn

    net = ncnn.Net()
    for name in _REDUCED:
        if hasattr(net.opt, name):  # some came with later versions
            setattr(net.opt, name, False)
    net.opt.num_threads = threads
    if net.load_param(model) != 0 or net.load_model(str(Path(model).with_suffix(".bin"))) != 0:
        raise RuntimeError("it has no layer for an operator of the model")
    arrays = list(feeds.values())
    batched = any(array.ndim > 1 and array.shape[0] != 1 for array in arrays)
    inputs = {name: _mat(arrays[_number(name, "in")], batched) for name in net.input_names()}
    outputs = sorted(net.output_names(), key=lambda name: _number(name, "out"))

    def run() -> list[Any]:
        extractor = net.create_extractor()
        for name, mat in inputs.items():
            extractor.input(name, mat)
        return [_extracted(extractor, name) for name in outputs]

    return Loaded(run, lambda mats: [mat.numpy(batch_index=0) if batched else mat.numpy() for mat in mats])


def _number(name: str, start: str) -> int:
    """pnnx names the inputs in0, in1, … and the outputs out0, out1, … in the model's order, unless it joins some."""
    if not name.startswith(start):
        raise RuntimeError(f"its translation has {name!r} where {start}0, {start}1, … are needed")
    return int(name.removeprefix(start))


def _mat(array: Any, batched: bool) -> Any:
    """A copy that ncnn owns and shares with every run: a layer that works in place then leaves it as it is."""
    import ncnn
    import numpy as np

    if array.dtype.kind in "iub":
        array = array.astype(np.int32)
    elif array.dtype != np.float32:
        raise RuntimeError(f"it takes float32 and whole numbers, the model {array.dtype}")
    if not batched:
        return ncnn.Mat(np.ascontiguousarray(array[0] if array.ndim > 1 else array)).clone()
    try:
        return ncnn.Mat(array, batch_index=0).clone()
    except TypeError as error:
        raise RuntimeError("this version of it runs one sample at a time") from error


def _extracted(extractor: Any, name: str) -> Any:
    code, mat = extractor.extract(name)
    if code != 0:
        raise RuntimeError(f"its layers fail (code {code})")
    return mat

