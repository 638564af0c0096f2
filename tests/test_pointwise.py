"""Pointwise programs: their text, their numpy meaning, and the fused routines against it."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import cases, check, execute, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.pointwise import (
    OPCODES,
    Pointwise,
    format_program,
    inline,
    input_count,
    parse_program,
    renumber,
)
from softneuro.problem import Problem
from softneuro.routines.pointwise import POINTWISE_FUSED_F32_CHF, POINTWISE_FUSED_F32_CHL
from softneuro.types import DType, TensorType


def pointwise(program: str, *inputs: str) -> Problem:
    types = tuple(TensorType.parse(text) for text in inputs)
    return Problem.of(Pointwise(program), types, (False,) * len(types))


BROADCASTS = {
    "same_shape": pointwise("add(x0,x1);relu(t0)", "f32[2,5,7,9]", "f32[2,5,7,9]"),
    "unaligned_vector": pointwise("mul(x0,2.0)", "f32[37]"),
    "one_element": pointwise("sub(1.0,x0)", "f32[]"),
    "fewer_than_a_vector": pointwise("hard_swish(x0)", "f32[1,3,1,1]"),
    "scalar_operand": pointwise("clip(x0,-1.0,1.0);add(t0,x1)", "f32[3,50]", "f32[]"),
    "channel_vector": pointwise("mul(x0,x1);add(t0,x2);leaky_relu(t1,0.1)",
                                "f32[2,19,5,6]", "f32[1,19,1,1]", "f32[19,1,1]"),
    "gate_per_image": pointwise("mul(x0,x1)", "f32[2,17,4,5]", "f32[2,17,1,1]"),
    "spatial_mask": pointwise("add(x0,x1)", "f32[2,17,4,5]", "f32[4,5]"),
    "last_axis_vector": pointwise("add(x0,x1)", "f32[3,4,70]", "f32[70]"),
    "outer_product": pointwise("sub(x0,x1)", "f32[21,1]", "f32[1,35]"),
    "both_sides_broadcast": pointwise("sub(x0,x1)", "f32[2,1,4,1]", "f32[1,3,1,5]"),
    "four_axes_alternate": pointwise("sub(x0,x1)", "f32[3,4,5,6]", "f32[3,1,5,1]"),
    "many_short_rows": pointwise("add(x0,x1)", "f32[100,3]", "f32[3]"),
    "empty": pointwise("add(x0,x1)", "f32[0,3]", "f32[3]"),
    "rank_three": pointwise("sub(x0,x1)", "f32[2,16,33]", "f32[2,1,33]"),
    "five_inputs_of_three_shapes": pointwise("mul(x0,x1);add(t0,x2);sub(t1,x3);max(t2,x4)", "f32[2,9,4,7]", "f32[9,1,1]",
                                            "f32[2,9,4,7]", "f32[2,1,4,7]", "f32[1,9,1,1]"),
    "five_inputs_of_one_shape": pointwise("mul(x0,x1);add(t0,x2);sub(t1,x3);max(t2,x4)", *["f32[2,45]"] * 5),
    "three_inputs_long_program": pointwise(
        "sub(x0,x1);mul(t0,x2);neg(t1);abs(t2);sqrt(t3);add(t4,1.0);reciprocal(t5);min(t6,x0)",
        "f32[1,24,3,3]", "f32[24,1,1]", "f32[1,24,3,3]"),
}  # fmt: skip
TYPES = {
    "whole_exponents": pointwise("pow(x0,x1)", "f32[45]", "i64[45]"),
    "bool_result": pointwise("less(x0,x1)", "f32[3,21]", "f32[3,21]"),
    "bool_condition": pointwise("where(x0,x1,x2)", "bool[3,1,21]", "f32[3,4,21]", "f32[]"),
    "bool_logic": pointwise("not(x0);and(t0,x1);xor(t1,x0);or(t2,x1)", "bool[77]", "bool[77]"),
    "attention_mask": pointwise("cast_f32(x0);sub(1.0,t0);mul(t1,-10000.0)", "i64[2,1,1,19]"),
    "integer_compare": pointwise("equal(x0,x1);not(t0);cast_f32(t1)", "i64[5,9]", "i64[9]"),
    "integer_where": pointwise("greater(x0,0.0);where(t0,x1,2.0)", "f32[40]", "i32[40]"),
    "integer_arithmetic": pointwise("add(x0,x1);mul(t0,3.0);neg(t1);abs(t2);max(t3,x0);clip(t4,1.0,20.0)",
                                    "i64[23]", "i64[23]"),
    "image_bytes": pointwise("cast_f32(x0);mul(t0,0.00392156862745098);sub(t1,x1)", "u8[1,3,9,11]", "f32[3,1,1]"),
    "float_to_bytes": pointwise("abs(x0);cast_u8(t0)", "f32[45]"),
    "float_to_i64": pointwise("mul(x0,10.0);cast_i64(t0)", "f32[45]"),
    "float_to_bool": pointwise("cast_bool(x0);cast_i32(t0)", "f32[45]"),
    "integer_divisions": pointwise("sub(x0,x1);div(t0,x2);mod(t0,x2);fmod(t0,x2);mul(t1,t2);add(t4,t3)",
                                   "i32[45]", "i32[45]", "i32[45]"),
    "narrow_division": pointwise("sub(x0,x1);div(t0,x2);mod(t0,x2);add(t1,t2)", "i8[45]", "i8[45]", "i8[45]"),
    "unsigned_division": pointwise("div(x0,x1);mod(x0,x1);add(t0,t1)", "u64[45]", "u64[45]"),
    "integer_shapes": pointwise("sub(x0,x1);sign(t0);prelu(t0,x1);relu(t2);add(t1,t3);pow(t4,3.0)", "i64[45]", "i64[45]"),
    "bits": pointwise("bit_and(x0,x1);bit_or(t0,3.0);bit_xor(t1,x1);bit_not(t2)", "i16[45]", "i16[45]"),
    "shifts": pointwise("shift_left(x0,x1);shift_right(t0,2.0);add(t0,t1)", "u8[45]", "u8[45]"),
    "shifts_past_the_width": pointwise("mul(x1,3.0);shift_left(x0,t0);add(t1,7.0);shift_right(t2,t0)", "u8[45]", "u8[45]"),
    "float64": pointwise("mul(x0,x1);abs(t0);sqrt(t1);max(t2,x0);floor(t3);add(t4,9.0);div(x1,t5);where(x2,t6,t0)",
                         "f64[3,45]", "f64[45]", "bool[3,1]"),
    "float64_functions": pointwise("exp(x0);log(t0);sigmoid(t1);pow(t2,2.0);sign(x0);clip(t4,0.0,0.5);add(t3,t5)", "f64[45]"),
    "float64_compare": pointwise("less(x0,x1);isnan(x0);or(t0,t1)", "f64[45]", "f64[45]"),
    "widths": pointwise("cast_f64(x0);mul(t0,3.0);cast_f32(t1);cast_i64(t1);cast_f64(t3);cast_f32(t4);add(t2,t5)", "f32[45]"),
    "wide_to_narrow_integers": pointwise("mul(x0,100.0);cast_i8(t0);cast_u16(t1)", "i64[45]"),
    "unsigned_compare": pointwise("less(x0,200.0);where(t0,x0,7.0)", "u8[45]"),
}  # fmt: skip
PARAMETERS = {"clip": (-0.5, 0.75), "leaky_relu": (0.1,), "hard_sigmoid": (0.2, 0.5), "elu": (1.5,), "celu": (0.7,),
              "selu": (1.6732632, 1.0507009), "thresholded_relu": (0.5,)}  # fmt: skip


def opcode_problem(name: str) -> Problem:
    opcode = OPCODES[name]
    kind = {"bool": "bool", "integer": "i32"}.get(opcode.takes, "f32")
    inputs = ["bool[43]" if name == "where" and i == 0 else f"{kind}[43]" for i in range(opcode.operands)]
    operands = [f"x{i}" for i in range(opcode.operands)] + [str(p) for p in PARAMETERS.get(name, ())]
    return pointwise(f"{name}({','.join(operands)})", *inputs)


ON_F32 = {name: opcode_problem(name) for name in OPCODES
          if not name.startswith("cast_") or name in ("cast_f32", "cast_bool", "cast_i8")}
TARGETS = runnable_targets()
WIDEST_AND_NARROWEST = dict([next(iter(TARGETS.items())), [*TARGETS.items()][-1]])
CASES = [
    (routine, case)
    for routine, problems in (
        (POINTWISE_FUSED_F32_CHF, BROADCASTS | TYPES),
        (POINTWISE_FUSED_F32_CHL, BROADCASTS),
    )
    for case in cases(routine, problems, TARGETS)
]


@pytest.mark.parametrize(("routine", "case"), CASES, ids=[f"{r.name}-{c[0]}" for r, c in CASES])
def test_equals_reference(routine, case) -> None:
    _, problem, signature, schedule, target = case
    for threads in (1, 3):
        check(routine, problem, signature, schedule, target, threads=threads)


@pytest.mark.parametrize("target", WIDEST_AND_NARROWEST.values(), ids=WIDEST_AND_NARROWEST)
@pytest.mark.parametrize("name", ON_F32)
def test_every_opcode_is_native(name: str, target) -> None:
    problem = ON_F32[name]
    assert POINTWISE_FUSED_F32_CHF.reject(problem, target) is None
    (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
    rng = np.random.default_rng(3)
    values = [rng.integers(0, 2, t.shape).astype(bool) if t.dtype is DType.BOOL
              else np.trunc(np.abs(rng.standard_normal(t.shape)) * 9).astype(np.int32) if t.dtype is DType.I32
              else (rng.standard_normal(t.shape) * 3).astype(np.float32) for t in problem.inputs]
    (got,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, target, values)
    with np.errstate(all="ignore"):
        (want,) = problem.op.reference([v.astype(np.float64) if v.dtype == np.float32 else v for v in values])
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("target", WIDEST_AND_NARROWEST.values(), ids=WIDEST_AND_NARROWEST)
@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"])
def test_rare_functions_are_exact_to_the_last_place(name: str, target) -> None:
    """Of numbers of every size: angles of up to 1e38 have a sine. The tangent of such is coarser near its poles."""
    rng = np.random.default_rng(8)
    sizes = (10.0 ** rng.uniform(-38, 38, 3000) * rng.choice([-1, 1], 3000)).astype(np.float32)
    x = np.concatenate([sizes, rng.uniform(-8, 8, 3000), rng.uniform(-1, 1, 3000), [1, -1, 0, np.inf]]).astype(np.float32)
    problem = pointwise(f"{name}(x0)", f"f32[{x.size}]")
    (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
    (got,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, target, [x])
    with np.errstate(all="ignore"):
        want = problem.op.reference([x.astype(np.float64)])[0].astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-5 if name == "tan" else 1.3e-7, atol=4e-8 if name in ("sin", "cos") else 1e-40)


@pytest.mark.parametrize("program", ["mod(x0,x1)", "fmod(x0,x1)"])
def test_remainders_are_exact(program: str) -> None:
    rng = np.random.default_rng(9)
    x, y = ((10.0 ** rng.uniform(-30, 30, 4000) * rng.choice([-1, 1], 4000)).astype(np.float32) for _ in range(2))
    problem = pointwise(program, "f32[4000]", "f32[4000]")
    (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
    (got,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, host(), [x, y])
    np.testing.assert_array_equal(got, problem.op.reference([x, y])[0])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_divisions_that_trap_elsewhere(dtype: type) -> None:
    """By 0 gives 0, and the smallest number over -1 is itself."""
    ends = np.iinfo(dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(*[np.array([ends.min, ends.max, 0, 1, 7, ends.max - 5], dtype)] * 2))
    y = np.concatenate([y, np.full(6, -1).astype(dtype)])
    x = np.concatenate([x, x[:6]])
    for program in ("div(x0,x1)", "mod(x0,x1)", "fmod(x0,x1)"):
        problem = Problem.of(Pointwise(program), (TensorType.of(x), TensorType.of(y)), (False, False))
        (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
        (got,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, host(), [x, y])
        np.testing.assert_array_equal(got, problem.op.reference([x, y])[0])


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, 2.5, -2.5, 3e38, 1e-40], np.float32)


@pytest.mark.parametrize("target", WIDEST_AND_NARROWEST.values(), ids=WIDEST_AND_NARROWEST)
@pytest.mark.parametrize("program", [
    "max(x0,x1)", "min(x0,x1)", "max(x0,1.0)", "min(1.0,x0)", "relu(x0)", "clip(x0,-1.0,1.0)", "sign(x0)", "isnan(x0)",
    "isinf(x0)", "equal(x0,x1)", "less(x0,x1)", "greater_equal(x0,x1)", "round(x0)", "floor(x0)", "ceil(x0)",
    "abs(x0)", "neg(x0)", "sqrt(x0)", "reciprocal(x0)", "leaky_relu(x0,0.5)", "cast_bool(x0)", "div(x0,x1)",
    "pow(x0,x1)", "pow(x0,0.5)", "pow(x0,-0.5)", "pow(x0,2.0)", "pow(x0,-1.0)", "pow(x0,3.0)", "pow(x0,1.7)",
    "pow(x0,0.0)", "pow(2.0,x0)", "pow(x0,12.0)", "mod(x0,x1)", "fmod(x0,x1)", "sin(x0)", "atan(x0)", "asinh(x0)",
    "atanh(x0)", "cosh(x0)",
])  # fmt: skip
def test_special_values_as_numpy(program: str, target) -> None:
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    values = [a, b][: input_count(program)]
    problem = pointwise(program, *(f"f32[{a.size}]" for _ in values))
    (signature,) = POINTWISE_FUSED_F32_CHF.signatures(problem)
    (got,) = execute(POINTWISE_FUSED_F32_CHF, problem, signature, {}, target, values)
    (want,) = problem.op.reference(values)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    if program.startswith(("pow", "round", "floor", "ceil", "div", "neg")):
        np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("text", ["add(x0,x1);relu(t0)", "clip(x0,0.0,6.0)", "where(x0,x1,x2)", "cast_f32(x0)",
                                  "max(x0,-inf)"])
def test_program_text_round_trip(text: str) -> None:
    assert format_program(parse_program(text)) == text


@pytest.mark.parametrize(("text", "reason"), [
    ("plus(x0,x1)", "needed opcode"),
    ("add(x0)", "found 1 operands, needed 2"),
    ("add(x0,x2)", "needed at least x0 and no gaps"),
    ("add(x0,t0)", "needed results of earlier instructions"),
    ("clip(x0,x1,1.0)", "needed numbers for its last 2 operands"),
    ("add(x0,y)", "needed operands"),
    ("add(1.0,2.0)", "needed at least x0"),
    ("", "needed opcode"),
])  # fmt: skip
def test_bad_programs_say_what_is_needed(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Pointwise(text)


def test_inline_splices_inputs_in_place() -> None:
    assert inline("add(x0,x1);relu(t0)", 1, "mul(x0,x1);tanh(t0)") == "mul(x1,x2);tanh(t0);add(x0,t1);relu(t2)"
    assert inline("sub(x0,x1)", 0, "exp(x0)") == "exp(x0);sub(t0,x1)"
    assert renumber("add(x0,x1);mul(t0,x2)", [0, 1, 0]) == "add(x0,x1);mul(t0,x0)"


def test_inlined_program_computes_the_chain() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 4, 5))
    (inner,) = Pointwise("mul(x0,x1);tanh(t0)").reference([b, c])
    (chained,) = Pointwise("sub(x0,x1);abs(t0)").reference([a, inner])
    (merged,) = Pointwise(inline("sub(x0,x1);abs(t0)", 1, "mul(x0,x1);tanh(t0)")).reference([a, b, c])
    np.testing.assert_array_equal(merged, chained)


@pytest.mark.parametrize(("program", "values", "expected"), [
    ("div(x0,x1)", [[7, -7, 7, 5], [2, 2, -2, 0]], [3, -3, -3, 0]),
    ("mod(x0,x1)", [[7, -7, 7], [3, 3, -3]], [1, 2, -2]),
    ("fmod(x0,x1)", [[7, -7, 7], [3, 3, -3]], [1, -1, 1]),
    ("pow(x0,2.0)", [[3, -4]], [9, 16]),
    ("pow(x0,x1)", [[2, 2], [3, -1]], [8, 0]),
    ("relu(x0)", [[2**60 + 1, -5]], [2**60 + 1, 0]),
    ("clip(x0,-inf,6.0)", [[-9, 9]], [-9, 6]),
])  # fmt: skip
def test_integer_meaning(program: str, values: list, expected: list) -> None:
    (got,) = Pointwise(program).reference([np.array(v, np.int64) for v in values])
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, expected)


def test_casts_truncate_and_test_for_zero() -> None:
    x = np.array([-1.9, -0.5, 0.0, 0.5, 1.9, np.nan], np.float32)
    np.testing.assert_array_equal(Pointwise("cast_i32(x0)").reference([x[:5]])[0], [-1, 0, 0, 0, 1])
    np.testing.assert_array_equal(Pointwise("cast_bool(x0)").reference([x])[0], [1, 1, 0, 1, 1, 1])


@pytest.mark.parametrize(("program", "types", "reason"), [
    ("add(x0,x1)", ("f32[2]", "f32[3]"), r"shapes \(2,\), \(3,\)"),
    ("add(x0,x1)", ("f32[2]",), "has 1 inputs, needed 2"),
    ("add(x0,x1)", ("f32[2]", "i64[2]"), "values of f32, i64, needed one data type"),
    ("exp(x0)", ("i64[2]",), "values of i64, needed float"),
    ("where(x0,x1,x1)", ("f32[2]", "f32[2]"), "condition of f32, needed bool"),
])  # fmt: skip
def test_wrong_inputs_say_found_and_needed(program: str, types: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Pointwise(program).infer([TensorType.parse(t) for t in types])


@pytest.mark.parametrize(("routine", "problem", "reason"), [
    (POINTWISE_FUSED_F32_CHF, pointwise("add(x0,x1)", "f16[2]", "f16[2]"), "found a tensor of f16"),
    (POINTWISE_FUSED_F32_CHF, pointwise("erf(x0)", "f64[2]"), "needed an opcode with native code"),
    (POINTWISE_FUSED_F32_CHF, pointwise("pow(x0,x1)", "i32[2]", "i64[2]"), "found a computed exponent of a base of i32"),
    (POINTWISE_FUSED_F32_CHF, pointwise("pow(x0,-1.0)", "i32[2]"), "found the exponent -1.0 for a base of i32"),
    (POINTWISE_FUSED_F32_CHL, pointwise("relu(x0)", "f32[2,3]"), "found an output of rank 2, needed 3 or more"),
    (POINTWISE_FUSED_F32_CHL, pointwise("add(x0,x1)", "f32[2,3,4,5]", "f32[3,4,5]"), "found an input of lower rank"),
    (POINTWISE_FUSED_F32_CHF, pointwise("add(x0,x1)", "f32[2,2,2,2,2,2]", "f32[2,1,2,1,2,1]"), "6 axes that cannot"),
])  # fmt: skip
def test_refusals_say_found_and_needed(routine, problem: Problem, reason: str) -> None:
    found = routine.reject(problem, host())
    assert found is not None
    assert reason in found


def test_problem_text_round_trip() -> None:
    for problem in (BROADCASTS | TYPES).values():
        assert Problem.parse(problem.key()) == problem
