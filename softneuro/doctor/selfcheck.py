"""Whether softneuro works here at all: a kernel is compiled, run on all threads, and held against the numpy reference."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softneuro import reference
from softneuro.codegen.jit import symbol
from softneuro.codegen.target import Target
from softneuro.errors import InputError, SoftneuroError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.conv import Conv
from softneuro.ops.epilogue import Epilogue
from softneuro.plan.defaults import choice_of
from softneuro.plan.lower import lower, problem_of
from softneuro.plan.plan import Choice, Plan
from softneuro.plan.program import NativeStep
from softneuro.routines.candidates import candidates
from softneuro.runtime.session import Session
from softneuro.specialise import specialise
from softneuro.types import Array, DType

__all__ = ["SelfCheck", "self_check"]

_TOLERANCE = 1e-5
_ROUTINE = "conv.igemm.f32.chl"
_SHAPES = {"x": (1, 16, 13, 11)}


@dataclass(frozen=True)
class SelfCheck:
    """ok: the kernel compiled and its result is right. compile_ns: what compiling took; difference: the largest one from
    the reference, relative to the largest result. problem: what went wrong, else empty."""

    ok: bool
    compile_ns: int | None = None
    difference: float | None = None
    problem: str = ""


def self_check(target: Target, threads: int, timer: Callable[[], int] = time.perf_counter_ns) -> SelfCheck:
    """Compile a convolution's kernel (without the cache), run it, compare. Raises nothing that a broken installation can."""
    taken = None
    try:
        graph = _convolution()
        choice = _choice(graph, target, threads)
        taken = _compile(graph, choice, target, threads, timer)
        found, expected = _run(graph, choice, target, threads)
    except (SoftneuroError, ImportError, OSError, MemoryError, RuntimeError, AttributeError) as error:
        return SelfCheck(False, taken, None, " ".join(str(error).split()) or type(error).__name__)
    difference = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    if not difference <= _TOLERANCE:
        return SelfCheck(False, taken, difference if np.isfinite(difference) else None,
                         f"the kernel's result is wrong: it differs by {difference:.2g} of the largest value")  # fmt: skip
    return SelfCheck(True, taken, difference)


def _convolution() -> Graph:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((24, 16, 3, 3), np.float32), "b": rng.standard_normal(24, np.float32)}
    op = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), bias=True, epilogue=Epilogue("relu"))
    return Graph({"x": GraphInput(DType.F32, _SHAPES["x"])}, ("y",), (Layer("conv", op, ("x", "w", "b"), ("y",)),), weights)


def _choice(graph: Graph, target: Target, threads: int) -> Choice:
    """The first way to run the convolution with the routine that is checked. Raises InputError when there is none."""
    problem = problem_of(graph.layers[0], specialise(graph, _SHAPES), threads)
    assert problem is not None
    for candidate in candidates(problem, target):
        if candidate.routine.name == _ROUTINE:
            return choice_of(candidate)
    raise InputError(f"routine {_ROUTINE}: is no candidate on {target.name}")


def _compile(graph: Graph, choice: Choice, target: Target, threads: int, timer: Callable[[], int]) -> int:
    """Compile the convolution's kernel anew; nanoseconds, loading the compiler included."""
    program = lower(specialise(graph, _SHAPES), {"conv": choice}, target, threads, None)
    kernel = next(step.kernel for step in program.steps if isinstance(step, NativeStep) and step.layer == "conv")
    start = timer()
    from softneuro.codegen.compile import compile_kernel

    compile_kernel(kernel, target, symbol(kernel, target))
    return timer() - start


def _run(graph: Graph, choice: Choice, target: Target, threads: int) -> tuple[Array, Array]:
    """The session's result and the reference's."""
    picture = np.random.default_rng(1).standard_normal(_SHAPES["x"], np.float32)
    session = Session(Plan(graph, {"conv": choice}), threads, target=target)
    return session.run({"x": picture})["y"], reference.run(graph, {"x": picture})["y"]
