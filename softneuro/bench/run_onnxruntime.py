"""onnxruntime in a process of its own: see `softneuro.bench.adapter`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softneuro.bench.adapter import Feeds, Loaded

__all__ = ["bring", "load"]


def bring() -> str:
    """Import it; gives the version."""
    import onnxruntime

    return str(onnxruntime.__version__)


def load(model: str, threads: int, feeds: Feeds) -> Loaded:
    """Load an ONNX model for the CPU, one operator at a time with so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run() -> Sequence[Any]:
        return session.run(None, dict(feeds))  # type: ignore[no-any-return]

    return Loaded(run, list)
