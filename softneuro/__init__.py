"""softneuro: an auto-tuning inference compiler for CPUs.

    plan = softneuro.tune("model.onnx")
    plan.save("model.plan")
    outputs = softneuro.Session("model.plan").run({"input": array})

Importing this package loads nothing heavy: onnx comes with `tune`, numba only when a kernel must be compiled.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from softneuro._version import __version__

if TYPE_CHECKING:
    from softneuro import errors
    from softneuro.calibration.table import CalibrationTable
    from softneuro.limits import ResourceLimits
    from softneuro.plan.plan import Plan
    from softneuro.runtime.session import Binding, Session, TensorInfo
    from softneuro.tuning.calibrate import calibrate
    from softneuro.tuning.tune import Progress, tune

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program wants to hear

__all__ = ["Binding", "CalibrationTable", "Plan", "Progress", "ResourceLimits", "Session", "TensorInfo", "__version__",
           "calibrate", "errors", "tune"]  # fmt: skip

_LAZY = {
    "Binding": "softneuro.runtime.session",
    "CalibrationTable": "softneuro.calibration.table",
    "Plan": "softneuro.plan.plan",
    "Progress": "softneuro.tuning.tune",
    "ResourceLimits": "softneuro.limits",
    "Session": "softneuro.runtime.session",
    "TensorInfo": "softneuro.runtime.session",
    "calibrate": "softneuro.tuning.calibrate",
    "tune": "softneuro.tuning.tune",
}


def __getattr__(name: str) -> Any:
    """Import public names when they are first used (PEP 562)."""
    if name == "errors":
        return importlib.import_module("softneuro.errors")
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'softneuro' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
