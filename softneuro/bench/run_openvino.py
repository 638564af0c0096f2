"""OpenVINO in a process of its own: see `softneuro.bench.adapter`."""

from __future__ import annotations

import sys
from typing import Any

from softneuro.bench.adapter import Feeds, Loaded

__all__ = ["bring", "load"]


def bring() -> str:
    """Import it; gives the version, without the build.

    Its reports of usage are off: a process of their own would send them while other engines are measured.
    """
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    return str(openvino.__version__).partition("-")[0]


def load(model: str, threads: int, feeds: Feeds) -> Loaded:
    """Compile an ONNX model for the CPU and these shapes, in float32, for one inference at a time."""
    import openvino

    core = openvino.Core()
    network = core.read_model(model)
    network.reshape({name: list(array.shape) for name, array in feeds.items()})
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
    request = core.compile_model(network, "CPU", settings).create_infer_request()

    def run() -> Any:
        return request.infer(dict(feeds), share_inputs=True, share_outputs=True)

    return Loaded(run, lambda result: list(result.values()))
