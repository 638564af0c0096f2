"""The routines of integer products against the numpy reference: equal to the last bit, on problems named by their edge."""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Sequence
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import execute, runnable_targets

from softneuro.codegen import target as targets
from softneuro.codegen.compile import assembly, compile_kernel
from softneuro.codegen.integer_forms import DOT, PAIRS, SINGLE, IntegerForm, integer_form
from softneuro.codegen.integer_tile import integer_tile
from softneuro.codegen.memory import load_i64
from softneuro.codegen.spec import KernelSpec
from softneuro.codegen.target import Target
from softneuro.memory import aligned
from softneuro.ops.integer import IntegerMatMul
from softneuro.problem import Problem
from softneuro.routines.candidates import candidates
from softneuro.routines.matmul_integer import INTEGER_MATMUL_BATCHED_I8_CHF, INTEGER_MATMUL_PACKED_I8_PLAIN
from softneuro.routines.routine import Routine
from softneuro.types import Array, DType, TensorType

ROUTINES = (INTEGER_MATMUL_PACKED_I8_PLAIN, INTEGER_MATMUL_BATCHED_I8_CHF)
Shape = tuple[int, ...]
Feeds = tuple[Array | None, ...]


def _without(target: Target, *features: str) -> Target:
    """The target as if it had not these features."""
    kept = [f"-{f[1:]}" if f in features else f for f in target.features.split(",")]
    return replace(target, name=f"{target.name}_without{''.join(features)}", features=",".join(kept))


def _targets() -> dict[str, Target]:
    """Those of the machine, and its widest with the forms of narrower ones."""
    found, host = runnable_targets(), targets.host()
    if integer_form(host) is DOT:
        pairs = _without(host, "+avx512vnni", "+avxvnni")
        found[pairs.name] = pairs
    if host.vector_bits == 512:
        single = _without(host, "+avx512vnni", "+avxvnni", "+avx512bw")
        found[single.name] = single
    return found


TARGETS = _targets()


def numbers(dtype: str, shape: Shape, seed: int = 0) -> Array:
    bounds = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def product(a: Shape, b: Shape, a_type: str = "uint8", b_type: str = "int8", az: Shape | None = None,
            bz: Shape | None = None) -> Feeds:
    return (numbers(a_type, a, 1), numbers(b_type, b, 2), None if az is None else numbers(a_type, az, 3),
            None if bz is None else numbers(b_type, bz, 4))


def filled(a: int, b: int, az: int | None, bz: int | None, m: int = 3, k: int = 1030, n: int = 20, a_type: str = "uint8",
           b_type: str = "int8") -> Feeds:
    return (np.full((m, k), a, a_type), np.full((k, n), b, b_type), None if az is None else np.array(az, a_type),
            None if bz is None else np.array(bz, b_type))


FEEDS: dict[str, Feeds] = {
    "no_zero_points": product((5, 12), (12, 40)),
    "two_inputs": product((5, 12), (12, 40))[:2],
    "one_of_everything": product((1, 1), (1, 1), az=(), bz=()),
    "depth_of_three": product((4, 3), (3, 33), az=(1,), bz=(1,)),
    "depth_beside_a_step": product((4, 35), (35, 33), az=(), bz=(33,)),
    "row_of_a_long_matrix": product((1, 260), (260, 300), az=()),
    "row_of_signed": product((1, 77), (77, 130), "int8", "int8", az=(), bz=()),
    "many_tiles": product((37, 40), (40, 150), az=()),
    "rows_a_kilobyte_apart": product((15, 1024), (1024, 24), az=()),
    "both_unsigned": product((9, 30), (30, 50), "uint8", "uint8", az=(), bz=()),
    "unsigned_without_zero_points": product((9, 30), (30, 50), "uint8", "uint8"),
    "unsigned_right_signed_left": product((9, 32), (32, 50), "int8", "uint8", az=(), bz=(50,)),
    "both_signed": product((9, 32), (32, 50), "int8", "int8"),
    "zero_points_of_rows": product((16, 24), (24, 50), az=(16,)),
    "zero_points_of_rows_and_columns": product((16, 24), (24, 50), "int8", "uint8", az=(16,), bz=(50,)),
    "rows_of_a_batch": product((2, 3, 5, 8), (8, 20), az=()),
    "zero_points_of_a_batch": product((2, 3, 5, 8), (8, 20), az=(2, 1, 5, 1), bz=(20,)),
    "zero_points_of_rows_in_each_batch": product((2, 5, 8), (8, 20), az=(5,)),
    "batches_of_both": product((2, 1, 7, 12), (3, 12, 20), az=(), bz=()),
    "batches_with_zero_points_of_columns": product((3, 7, 12), (3, 12, 20), "uint8", "uint8", az=(3, 7, 1), bz=(3, 1, 20)),
    "batches_with_a_zero_point_each": product((3, 7, 12), (3, 12, 20), "uint8", "uint8", bz=(3, 1, 1)),
    "vector_times_matrix": product((12,), (12, 20), az=()),
    "matrix_times_vector": product((7, 12), (12,), az=(7,), bz=()),
    "vector_times_vector": product((12,), (12,), "int8", "uint8"),
    "largest_times_smallest": filled(255, -128, None, None),
    "largest_times_largest": filled(255, 127, 0, 0),
    "zero_points_as_far_as_possible": filled(255, -128, 0, 127),
    "zero_points_the_other_way": filled(0, 127, 255, -128),
    "unsigned_extremes": filled(255, 255, 0, 0, b_type="uint8"),
    "signed_extremes": filled(-128, -128, 127, 127, a_type="int8"),
    "symmetric_stored_unsigned": (numbers("uint8", (6, 20)), numbers("uint8", (20, 40)), None, np.array(128, np.uint8)),
    "sums_that_wrap": filled(255, -128, None, 127, m=1, k=70_000, n=3),
}  # fmt: skip


def problem_of(feeds: Sequence[Array | None], constant: bool = True) -> Problem:
    inputs = tuple(None if v is None else TensorType.of(v) for v in feeds)
    constants = (False, constant, False, constant)[: len(inputs)]
    return Problem.of(IntegerMatMul(), inputs, tuple(c and t is not None for c, t in zip(constants, inputs, strict=True)))


def compare(routine: Routine, feeds: Sequence[Array | None], target: Target, threads: Sequence[int]) -> None:
    problem = problem_of(feeds, routine is INTEGER_MATMUL_PACKED_I8_PLAIN)
    assert routine.reject(problem, target) is None
    (want,) = problem.op.reference(feeds)
    (signature,) = routine.signatures(problem)
    for schedule in routine.schedules(problem, target):
        for count in threads:
            (got,) = execute(routine, problem, signature, schedule, target, feeds, count)
            np.testing.assert_array_equal(got, want, err_msg=f"{schedule} {count}")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
@pytest.mark.parametrize("feeds", FEEDS.values(), ids=FEEDS)
def test_equals_reference(feeds: Feeds, routine: Routine, target: Target) -> None:
    compare(routine, feeds, target, (1, 2, 3, 7))


@st.composite
def products(draw: st.DrawFn) -> Feeds:
    m, k, n = (draw(st.integers(1, most)) for most in (20, 40, 70))
    a_type, b_type = (draw(st.sampled_from(("int8", "uint8"))) for _ in range(2))
    lead = draw(st.sampled_from(((), (2,), (1, 3))))
    right = draw(st.sampled_from(((), (), (2, 1))))
    az = draw(st.sampled_from((None, (), (1,), (m,), (m, 1))))
    bz = draw(st.sampled_from((None, (), (1,), (n,), (1, n))))
    return product((*lead, m, k), (*right, k, n), a_type, b_type, az, bz)


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_schedules_serve_other_numbers_of_rows(routine: Routine) -> None:
    constant, target = routine is INTEGER_MATMUL_PACKED_I8_PLAIN, targets.host()
    tuned = problem_of(product((3, 12), (12, 40), az=(), bz=(40,)), constant)
    for rows in (1, 2, 37):
        feeds = product((rows, 12), (12, 40), az=(), bz=(40,))
        problem = problem_of(feeds, constant)
        (signature,) = routine.signatures(problem)
        for schedule in routine.schedules(tuned, target):
            compiled = routine.kernels(tuned, signature, schedule, target)
            assert {launch.kernel for launch in routine.build(problem, signature, schedule, target).launches} <= set(compiled)
            (got,) = execute(routine, problem, signature, schedule, target, feeds, 2)
            np.testing.assert_array_equal(got, problem.op.reference(feeds)[0])


# the tile as a convolution would use it: several taps, whose rows may lie outside of the image


def _taps(target: Target, form: IntegerForm, mr: int, nv: int) -> tuple[object, int]:
    """The loaded kernel that calls one tile with 15 words, and what must be kept alive for it."""
    tile = integer_tile(target, form, mr, nv)

    def kernel(args: int, tid: int, nthreads: int) -> None:
        tile(load_i64(args, 0), load_i64(args, 1), load_i64(args, 2), load_i64(args, 3), load_i64(args, 4), load_i64(args, 5),
             load_i64(args, 6), load_i64(args, 7), load_i64(args, 8), load_i64(args, 9), load_i64(args, 10),
             load_i64(args, 11), load_i64(args, 12), load_i64(args, 13), load_i64(args, 14))

    name = "integer_taps"
    module = types.ModuleType(name)
    module.make = lambda target: kernel  # type: ignore[attr-defined]
    sys.modules[f"softneuro.codegen.kernels.{name}"] = module
    try:
        code = compile_kernel(KernelSpec.of(name), target, name)
    finally:
        del sys.modules[f"softneuro.codegen.kernels.{name}"]
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, engine.get_function_address(name)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_taps_and_rows_outside(target: Target) -> None:
    form, mr, nv, taps, depth, rng = integer_form(target), 3, 2, 3, 8, np.random.default_rng(0)
    n, kind = nv * target.f32_lanes, "uint8" if form.narrow else "int16"
    x, zero = (rng.integers(0, 200, shape).astype(kind) for shape in ((5, depth), (depth,)))
    rows = np.array([[-1, 0, 4], [0, 1, 2], [3, -1, -1]])
    offsets = np.where(rows < 0, -1, rows * depth * form.bytes).astype(np.int32)
    w = rng.integers(-128, 128, (taps, depth, n))
    grouped = w.reshape(taps, depth // form.group, form.group, n).transpose(0, 1, 3, 2)
    panel = aligned(np.ascontiguousarray(grouped.astype("int8" if form.narrow else "int16")))
    sides = rng.integers(-9, 9, (2, n)).astype(np.int32)
    terms = rng.integers(-9, 9, (mr, 2)).astype(np.int32)
    y = np.full((mr, n + 3), -7, np.int32)
    words = np.array([taps, depth // form.group, x.ctypes.data, zero.ctypes.data, offsets.ctypes.data, panel.ctypes.data,
                      panel.ctypes.data, sides[0].ctypes.data, sides[1].ctypes.data, 5, terms.ctypes.data, y.ctypes.data,
                      4 * (n + 3), 2, n - 1], np.int64)
    engine, address = _taps(target, form, mr, nv)
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(words.ctypes.data, 0, 1)
    del engine
    read = np.where((rows < 0)[..., None], zero, x[rows]).astype(int)
    want = np.einsum("tid,tdj->ij", read, w) + 5 * sides[0] + terms @ sides
    np.testing.assert_array_equal(y[:2, : n - 1], want[:2, : n - 1])
    assert (y[2] == -7).all() and (y[:, n - 1 :] == -7).all()


def loop_of(spec: KernelSpec, target: Target, instruction: str) -> list[str]:
    """The lines of the innermost loop around an instruction, from its label to its jump."""
    lines = assembly(spec, target).splitlines()
    places = [i for i, line in enumerate(lines) if instruction in line]
    first = max(i for i in range(places[0]) if lines[i].startswith((".L", "LBB")))
    last = next(i for i in range(places[0], len(lines)) if lines[i].strip().startswith(("j", "b.")))
    return lines[first:last]


X86, V4 = "x86_64-unknown-linux-gnu", "+avx512f,+avx512vl,+avx512dq,+avx512bw"


@pytest.mark.parametrize(("target", "instruction", "mr", "nv"), [
    (Target("avx512", X86, "x86-64", f"{V4},+avx512vnni", 512, 32, True), "vpdpbusd", 14, 2),
    (Target("avx512", X86, "x86-64", f"{V4},+avx512vnni", 512, 32, True), "vpdpbusd", 1, 4),
    (Target("avx512", X86, "x86-64", V4, 512, 32, True), "vpmaddwd", 6, 4),
    (replace(targets.avx2(), features=targets.avx2().features + ",+avxvnni"), "vpdpbusd", 6, 2),
    (targets.avx2(), "vpmaddwd", 6, 2), (targets.baseline(), "pmaddwd", 6, 2),
    (Target("neon", "aarch64-unknown-linux-gnu", "generic", "+neon", 128, 32, True), "smlal", 6, 4),
], ids=["vnni", "vnni_row", "avx512", "avx_vnni", "avx2", "sse4", "neon"])  # fmt: skip
def test_sums_stay_in_registers(target: Target, instruction: str, mr: int, nv: int) -> None:
    spec = KernelSpec.of("gemm_integer", form=integer_form(target).name, mr=mr, nv=nv, signed=False)
    lines = loop_of(spec, target, instruction)
    count = sum(instruction in line for line in lines)
    assert count and count % (mr * nv) == 0  # small loops are unrolled
    assert not any(("mm" in line and "(%rsp" in line) or (" q" in line and "[sp" in line) for line in lines)


@settings(max_examples=30, deadline=None)
@given(products(), st.sampled_from(ROUTINES), st.sampled_from(sorted(TARGETS)), st.integers(1, 4))
def test_any_product(feeds: Feeds, routine: Routine, target: str, threads: int) -> None:
    compare(routine, feeds, TARGETS[target], (threads,))


def i8(*shape: int) -> TensorType:
    return TensorType(DType.I8, shape)


REFUSED = {
    "wide": ((TensorType(DType.I32, (2, 3)), i8(3, 4)), "found a left side of i32, needed i8 or u8"),
    "empty": ((i8(2, 0), i8(0, 4)), "found a left side of shape (2, 0), needed at least one element"),
    "mixed_types": ((i8(2, 3), i8(3, 4), TensorType(DType.U8, ())),
                    "found zero points of u8 for a left side of i8, needed the same type"),
    "along_the_depth": ((i8(2, 3), i8(3, 4), i8(1, 3)),
                        "found zero points of shape (1, 3) for the left side, needed one for each row"),
    "down_the_depth": ((i8(2, 3), i8(3, 4), None, i8(3, 1)),
                       "found zero points of shape (3, 1) for the right side, needed one for each column"),
    "other_rows": ((i8(2, 3), i8(3, 4), i8(3)),
                   "found zero points of shape (3, 1) for the left side, needed one for each row"),
    "columns_of_a_vector": ((i8(2, 3), i8(3), None, i8(3)),
                            "found zero points of shape (3,) for the right side, needed one for each column"),
    "deep": ((i8(1, 1 << 24), i8(1 << 24, 1)), "found 1073741824 bytes of rows in a tile, needed less than 2^30"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals_say_found_and_needed(case: tuple[tuple[TensorType | None, ...], str]) -> None:
    inputs, reason = case
    problem = Problem.of(IntegerMatMul(), inputs, (False,) * len(inputs))
    assert INTEGER_MATMUL_BATCHED_I8_CHF.reject(problem, targets.host()) == reason


def test_computed_operands_are_not_packed_ahead() -> None:
    reason = "found a right side or zero points of it that are computed at run time, needed constants"
    inputs = (i8(2, 3), i8(3, 4), None, i8())
    for constant in ((False, False, False, True), (False, True, False, False)):
        problem = Problem.of(IntegerMatMul(), inputs, constant)
        assert INTEGER_MATMUL_PACKED_I8_PLAIN.reject(problem, targets.host()) == reason


def test_routines_are_candidates() -> None:
    problem = problem_of(FEEDS["many_tiles"])
    assert set(ROUTINES) == {c.routine for c in candidates(problem, targets.host())}


@pytest.mark.parametrize(("target", "form"), [
    (targets.avx2(), PAIRS), (targets.baseline(), PAIRS),
    (replace(targets.avx2(), features=targets.avx2().features + ",+avxvnni"), DOT),
    (Target("avx512", "x86_64-unknown-linux-gnu", "x86-64", "+avx512f,+avx512vnni", 512, 32, True), DOT),
    (Target("avx512", "x86_64-unknown-linux-gnu", "x86-64", "+avx512f,+avx512bw,-avx512vnni", 512, 32, True), PAIRS),
    (Target("avx512", "x86_64-unknown-linux-gnu", "x86-64", "+avx512f,+avx512dq", 512, 32, True), SINGLE),
    (Target("neon", "aarch64-unknown-linux-gnu", "generic", "+neon", 128, 32, True), SINGLE),
], ids=["avx2", "sse4", "avx_vnni", "avx512_vnni", "avx512_bytes", "avx512", "neon"])  # fmt: skip
def test_which_form(target: Target, form: object) -> None:
    assert integer_form(target) is form
