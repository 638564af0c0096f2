"""How far two engines' outputs are apart, and how long each takes."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softneuro.errors import InputError
from softneuro.types import Array

if TYPE_CHECKING:
    from softneuro.runtime.session import Session

__all__ = ["Difference", "differences", "onnxruntime_session", "run_onnxruntime", "times_in_turns"]

_TOP = 5
_TURNS = 7
_PAUSE_SECONDS = 0.03


@dataclass(frozen=True)
class Difference:
    """One output compared.

    absolute: the largest absolute difference (infinite when shapes, types or the places of NaN differ); scale: the
    largest absolute value on the other side; top5_equal: for outputs of shape (samples, classes) with ten classes
    or more, whether the five largest are the same, else None.
    """

    name: str
    absolute: float
    scale: float
    nan_here: int
    nan_there: int
    top5_equal: bool | None

    @property
    def relative(self) -> float:
        """The largest difference in units of the output's largest value: the smallest tolerance that passes."""
        return self.absolute / self.scale if self.scale else self.absolute

    def within(self, tolerance: float) -> bool:
        """Whether the difference is allowed."""
        return self.relative <= tolerance and self.top5_equal is not False


def differences(found: Mapping[str, Array], expected: Mapping[str, Array]) -> list[Difference]:
    """Compare outputs by name. Raises InputError when an output is missing on one side."""
    missing = sorted(set(expected) ^ set(found))
    if missing:
        raise InputError(f"output {missing[0]!r} is made by one side only")
    return [_difference(name, np.asarray(found[name]), np.asarray(expected[name])) for name in expected]


def _difference(name: str, here: Array, there: Array) -> Difference:
    if here.shape != there.shape or here.dtype != there.dtype:
        return Difference(name, np.inf, 1.0, 0, 0, None)
    if here.dtype.kind not in "fiubc":
        return Difference(name, 0.0 if bool(np.array_equal(here, there)) else np.inf, 1.0, 0, 0, None)
    a, b = here.astype(np.float64), there.astype(np.float64)
    nan_here, nan_there = np.isnan(a), np.isnan(b)
    if not np.array_equal(nan_here, nan_there):
        return Difference(name, np.inf, 1.0, int(nan_here.sum()), int(nan_there.sum()), None)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | nan_here, 0.0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max(initial=0.0))
    return Difference(name, float(gaps.max(initial=0.0)), scale, int(nan_here.sum()), int(nan_there.sum()), _top5(a, b))


def _top5(a: Array, b: Array) -> bool | None:
    """Whether the five largest classes of every sample are the same ones, ties within rounding aside."""
    if a.ndim != 2 or a.shape[-1] < 2 * _TOP or a.size == 0:
        return None
    threshold = np.sort(b, axis=-1)[:, -_TOP]
    slack = 1e-4 * np.abs(b).max(axis=-1)
    chosen = np.take_along_axis(b, np.argsort(a, axis=-1)[:, -_TOP:], axis=-1)
    return bool((chosen >= (threshold - slack)[:, None]).all())


def onnxruntime_session(model: Path, feeds: Mapping[str, Array], threads: int) -> Any:
    """An onnxruntime session for the shapes of the feeds; declared input sizes that differ are replaced.

    Raises InputError when onnxruntime is not installed or does not take the model.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError("comparing with onnxruntime needs the extra: pip install 'softneuro[bench]'")
    try:
        return _opened(model, feeds, threads)
    except Exception as error:  # onnxruntime raises types of its own, none public
        raise InputError(f"onnxruntime cannot run {str(model)!r}: {error}") from error


def _opened(model: Path, feeds: Mapping[str, Array], threads: int) -> Any:
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    peer = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    declared = {i.name: i.shape for i in peer.get_inputs()}
    if all(_fits(declared.get(name), array.shape) for name, array in feeds.items()):
        return peer
    proto = onnx.load(str(model))
    for item in proto.graph.input:
        if item.name in feeds:
            for dim, size in zip(item.type.tensor_type.shape.dim, feeds[item.name].shape, strict=True):
                dim.dim_value = size
    for item in proto.graph.output:
        item.type.tensor_type.ClearField("shape")
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _fits(declared: list[int | str | None] | None, shape: tuple[int, ...]) -> bool:
    return declared is None or all(not isinstance(d, int) or d == s for d, s in zip(declared, shape, strict=False))


def run_onnxruntime(model: Path | None, feeds: Mapping[str, Array], session: Session) -> dict[str, Array]:
    """The outputs of onnxruntime. Raises InputError when it is not installed, the model is not given, or it cannot run it."""
    if model is None:
        raise InputError("comparing with onnxruntime needs the model: --model model.onnx")
    peer = onnxruntime_session(model, feeds, session.threads)
    names = [output.name for output in peer.get_outputs()]
    try:
        return dict(zip(names, peer.run(names, dict(feeds)), strict=True))
    except Exception as error:  # likewise
        raise InputError(f"onnxruntime cannot run {str(model)!r}: {error}") from error


def times_in_turns(engines: Mapping[str, Callable[[Mapping[str, Array]], object]],
                   samples: Sequence[Mapping[str, Array]]) -> dict[str, float]:
    """Median nanoseconds that each engine takes for one sample.

    The engines take turns, so that drift of the machine hits all alike; a turn runs every sample once. It begins with a
    pause, in which the other engine's threads stop spinning, and with a run that does not count.
    """
    times: dict[str, list[int]] = {name: [] for name in engines}
    for _ in range(_TURNS):
        for name, run in engines.items():
            time.sleep(_PAUSE_SECONDS)
            run(samples[0])
            for feeds in samples:
                start = time.perf_counter_ns()
                run(feeds)
                times[name].append(time.perf_counter_ns() - start)
    return {name: float(np.median(values)) for name, values in times.items()}
