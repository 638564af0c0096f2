"""Run one routine on one problem in guarded buffers and hold it against the op's numpy reference."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from softneuro.codegen import jit
from softneuro.codegen.target import Target
from softneuro.problem import Problem
from softneuro.quantisation import decoded, encoded
from softneuro.routines.routine import Address, Area, Built, Routine, Schedule, Signature
from softneuro.types import Array, DType, Format, TensorType, to_layout

GUARD = 256  # bytes on each side of every buffer
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Guarded:
    """An array between guard bands, at an address that is only aligned to its elements."""

    def __init__(self, array: Array, fill: int = 0xA5) -> None:
        raw = np.full(array.nbytes + 2 * GUARD + 64, fill, np.uint8)
        start = (-raw.ctypes.data) % 64 + GUARD + array.dtype.itemsize
        self._raw, self._start = raw, start
        self.array = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array
        self._fill = fill

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    def check(self, what: str) -> None:
        end = self._start + self.array.nbytes
        assert (self._raw[: self._start] == self._fill).all(), f"{what}: written before its start"
        assert (self._raw[end:] == self._fill).all(), f"{what}: written past its end"


def random_inputs(problem: Problem, rng: np.random.Generator, *, exact: bool) -> list[Array | None]:
    """Values for every input: small integers (exact accumulation in float32) or normal data."""
    values: list[Array | None] = []
    for type_ in problem.inputs:
        if type_ is None:
            values.append(None)
        elif type_.dtype.is_float:
            data = rng.integers(-3, 4, type_.shape) if exact else rng.standard_normal(type_.shape)
            values.append(np.asarray(data).astype(type_.dtype.numpy))
        elif type_.dtype.value == "bool":
            values.append(rng.integers(0, 2, type_.shape).astype(bool))
        else:
            values.append(rng.integers(0, 5, type_.shape).astype(type_.dtype.numpy))
    return values


def execute(routine: Routine, problem: Problem, signature: Signature, schedule: Schedule, target: Target,
            values: Sequence[Array | None], threads: int = 1) -> list[Array]:
    """The routine's outputs in logical order; threads run one after the other between launches."""
    constants = [v if i in routine.packs else None for i, v in enumerate(values)]
    arrays = routine.pack(problem, schedule, target, constants)
    built = routine.build(problem, signature, schedule, target)
    inputs = [
        Guarded(encoded(v, f, problem.input_quantisation(i))) if v is not None and f is not None else None
        for i, (v, f) in enumerate(zip(values, signature.inputs, strict=False))
    ]
    outputs = [Guarded(_poison(t, f)) for t, f in zip(problem.outputs, signature.outputs, strict=True)]
    packed = [Guarded(np.ascontiguousarray(a)) for a in arrays]
    tables = [Guarded(np.ascontiguousarray(a)) for a in built.tables]
    scratch = _aligned_scratch(built)
    if built.alias is not None:
        alias = inputs[built.alias]
        assert alias is not None and not built.launches
        return _decoded(problem, signature, [alias.array.reshape(outputs[0].array.shape)])
    areas = {Area.INPUT: inputs, Area.OUTPUT: outputs, Area.PACKED: packed, Area.TABLE: tables}

    def word(value: int | Address) -> int:
        if isinstance(value, int):
            return value
        if value.area is Area.SCRATCH:
            assert 0 <= value.offset <= built.scratch
            return int(scratch.ctypes.data) + value.offset
        buffer = areas[value.area][value.index]
        assert buffer is not None, f"{routine.name} reads input {value.index}, which its signature leaves out"
        return buffer.address + value.offset

    for launch in built.launches:
        words = np.array([word(w) for w in launch.words], np.int64)
        function = _ENTRY(jit.address(launch.kernel, target))
        for tid in range(threads):
            function(words.ctypes.data, tid, threads)
    end = built.scratch
    assert (scratch[end : end + GUARD] == 0xA5).all(), "scratch: written past its end"
    for index, buffer in enumerate(inputs):
        if buffer is not None:
            buffer.check(f"input {index}")
    for index, buffer in enumerate(outputs):
        buffer.check(f"output {index}")
    return _decoded(problem, signature, [o.array for o in outputs])


def _decoded(problem: Problem, signature: Signature, arrays: Sequence[Array]) -> list[Array]:
    places = zip(arrays, signature.outputs, problem.outputs, strict=True)
    return [decoded(a, f, t.dtype, problem.output_quantisation(i)) for i, (a, f, t) in enumerate(places)]


def _poison(type_: TensorType, format_: Format) -> Array:
    array = to_layout(np.zeros(type_.shape, format_.dtype.numpy), format_.layout)
    array[...] = np.nan if format_.dtype.is_float else np.array(-77).astype(format_.dtype.numpy)
    return array


def as_kept(problem: Problem, signature: Signature, values: Sequence[Array | None]) -> list[Array | None]:
    """The inputs rounded to what their formats keep of them."""
    kept = list(values)
    for index, (value, format_, type_) in enumerate(zip(values, signature.inputs, problem.inputs, strict=False)):
        if value is not None and format_ is not None and type_ is not None and format_.dtype is not type_.dtype:
            quantisation = problem.input_quantisation(index)
            kept[index] = decoded(encoded(value, format_, quantisation), format_, type_.dtype, quantisation)
    return kept


def as_multiplied(routine: Routine, values: Sequence[Array | None]) -> list[Array | None]:
    """The inputs with packed weights rounded to the floats that a routine multiplies."""
    rounded = list(values)
    weights = values[1] if 1 in routine.packs else None
    if routine.computes is not None and routine.computes.is_float and weights is not None:
        rounded[1] = weights.astype(routine.computes.numpy).astype(weights.dtype)
    return rounded


_ROUNDING = {DType.BF16: 2.0**-8, DType.F16: 2.0**-11}


def rounding_bound(problem: Problem, signature: Signature, index: int, scale: float) -> float:
    """How far an output may be off because of the format it is kept in: a step of qint8, so that ties may go either way."""
    dtype = signature.outputs[index].dtype
    if dtype is DType.QINT8:
        quantisation = problem.output_quantisation(index)
        assert quantisation is not None
        return quantisation.scale
    return _ROUNDING.get(dtype, 0.0) * scale


def _aligned_scratch(built: Built) -> Array:
    raw = np.full(built.scratch + GUARD + 64, 0xFF, np.uint8)
    start = (-raw.ctypes.data) % 64
    scratch = raw[start : start + built.scratch + GUARD]
    scratch[built.scratch :] = 0xA5
    return scratch


def accumulation_length(problem: Problem) -> int:
    """How many products one output element sums, at least 1."""
    return max(1, problem.macs() // max(1, problem.outputs[0].size))


def check(routine: Routine, problem: Problem, signature: Signature, schedule: Schedule, target: Target,
          *, threads: int = 1, seed: int = 0) -> None:
    """Both tiers: equality on integer data unless an activation makes it inexact, and the error bound on normal data."""
    refusal = routine.reject(problem, target)
    assert refusal is None, refusal
    rng = np.random.default_rng(seed)
    for exact in (True, False):
        values = as_multiplied(routine, as_kept(problem, signature, random_inputs(problem, rng, exact=exact)))
        wide = [v.astype(np.float64) if v is not None and v.dtype == np.float32 else v for v in values]
        expected = problem.op.reference(wide)
        found = execute(routine, problem, signature, schedule, target, values, threads)
        for index, (got, want) in enumerate(zip(found, expected, strict=True)):
            assert got.shape == want.shape
            if not np.issubdtype(want.dtype, np.floating):
                np.testing.assert_array_equal(got, want)
                continue
            scale = float(np.max(np.abs(want), initial=1e-30))
            bound = routine.tolerance * np.finfo(np.float32).eps * math.sqrt(accumulation_length(problem)) * scale
            np.testing.assert_allclose(got, want, rtol=0, atol=bound + rounding_bound(problem, signature, index, scale))


Case = tuple[str, Problem, Signature, Schedule, Target]


def cases(routine: Routine, problems: dict[str, Problem], targets: dict[str, Target]) -> list[Case]:
    """Every (id, problem, signature, schedule, target) of a routine's named problems that it does not refuse."""
    found = []
    for name, problem in problems.items():
        for target_name, target in targets.items():
            if routine.reject(problem, target) is None:
                for signature in routine.signatures(problem):
                    for schedule in routine.schedules(problem, target):
                        numbers = ",".join(f"{k}{v}" for k, v in schedule.items())
                        found.append((f"{name}-{signature}-{numbers}-{target_name}", problem, signature, schedule, target))
    return found


def runnable_targets() -> dict[str, Target]:
    """The host's target and every narrower one that this machine can run."""
    from softneuro.codegen import target as targets

    host = targets.host()
    found = {host.name: host}
    if host.triple.startswith("x86_64"):
        if host.vector_bits > 256:
            found["avx2"] = targets.avx2()
        if host.vector_bits > 128:
            found["sse4"] = targets.baseline()
    return found
