"""Ops that move elements: the ops against onnx.reference, the routines against the ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from oracle import cases, check, execute, runnable_targets

from softneuro.codegen.target import host
from softneuro.errors import InputError
from softneuro.ops.base import Op
from softneuro.ops.movement import BroadcastTo, DepthToSpace, Expand, SpaceToDepth, Tile, Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.slicing import Concat, Slice, Split, StridedSlice
from softneuro.ops.text import format_op, parse_op
from softneuro.ops.view import View
from softneuro.problem import Problem
from softneuro.routines.broadcast_to import BROADCAST_TO_STRIDED_ANY, TILE_STRIDED_ANY
from softneuro.routines.concat import CONCAT_STRIDED_ANY, SPLIT_STRIDED_ANY
from softneuro.routines.pad import PAD_ROWS_ANY
from softneuro.routines.routine import Routine
from softneuro.routines.slice import SLICE_STRIDED_ANY
from softneuro.routines.transpose import (
    DEPTH_TO_SPACE_STRIDED_ANY,
    SPACE_TO_DEPTH_STRIDED_ANY,
    TRANSPOSE_BLOCKED_ANY,
)
from softneuro.routines.view import VIEW_ALIAS_ANY
from softneuro.types import Array, DType, TensorType

X = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)
LINE = np.arange(7, dtype=np.int64)
BIG = 2**63 - 1


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def by_onnx(node: str, feeds: list[Array | None], outputs: int, attributes: dict[str, Any]) -> list[Array]:
    names = ["" if v is None else f"i{k}" for k, v in enumerate(feeds)]
    made = helper.make_node(node, names, [f"o{k}" for k in range(outputs)], **attributes)
    graph = helper.make_graph(
        [made], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
         for n, v in zip(names, feeds, strict=True) if v is not None],
        [helper.make_tensor_value_info(o, 1, None) for o in made.output])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return ReferenceEvaluator(model).run(None, {n: v for n, v in zip(names, feeds, strict=True) if v is not None})


def by_op(op: Op, feeds: list[Array | None]) -> tuple[Array, ...]:
    """The op bound, its types checked against its values."""
    bound = op.bind([None if v is None else TensorType.of(v) for v in feeds], feeds)
    if bound is not None:
        op, feeds = bound.op, [feeds[i] for i in bound.inputs]
    types = [None if v is None else TensorType.of(v) for v in feeds]
    assert op.bind(types, feeds) is None
    assert parse_op(format_op(op)) == op
    outputs = op.reference(feeds)
    assert op.infer(types) == tuple(TensorType.of(o) for o in outputs)
    return outputs


EQUAL = {
    "transpose": (Transpose((2, 0, 3, 1)), "Transpose", [X], {"perm": [2, 0, 3, 1]}),
    "depth_to_space_dcr": (DepthToSpace(2), "DepthToSpace", [X], {"blocksize": 2}),
    "depth_to_space_crd": (DepthToSpace(2, "CRD"), "DepthToSpace", [X], {"blocksize": 2, "mode": "CRD"}),
    "space_to_depth": (SpaceToDepth(2), "SpaceToDepth", [X], {"blocksize": 2}),
    "expand_both_ways": (Expand(), "Expand", [X[:, :1], ints(3, 1, 8, 1, 6)], {}),
    "tile": (Tile(), "Tile", [X, ints(1, 2, 1, 3)], {}),
    "tile_to_nothing": (Tile(), "Tile", [LINE, ints(0)], {}),
    "concat": (Concat(1), "Concat", [X, X[:, :3], X[:, 2:]], {"axis": 1}),
    "concat_last": (Concat(-1), "Concat", [X, X], {"axis": -1}),
    "slice_axes": (Slice(), "Slice", [X, ints(1, -3), ints(3, BIG), ints(2, -1)], {}),
    "slice_backwards": (Slice(), "Slice", [X, ints(-1), ints(-BIG), ints(3), ints(-2)], {}),
    "slice_past_the_end": (Slice(), "Slice", [LINE, ints(5), ints(1000)], {}),
    "slice_to_nothing": (Slice(), "Slice", [LINE, ints(5), ints(2)], {}),
    "pad_some_axes": (Pad(), "Pad", [X, ints(1, 2, 3, 0), np.float32(5.5), ints(3, 1)], {}),
    "pad_reflect": (Pad("reflect"), "Pad", [X, ints(0, 1, 3, 2, 1, 0, 2, 5)], {"mode": "reflect"}),
    "pad_edge": (Pad("edge"), "Pad", [X, ints(0, 1, 3, 2, 1, 0, 9, 5)], {"mode": "edge"}),
    "pad_wrap": (Pad("wrap"), "Pad", [X, ints(0, 1, 3, 2, 1, 0, 9, 5)], {"mode": "wrap"}),
    "pad_integers": (Pad(), "Pad", [LINE, ints(1, 1), np.int64(2**60 + 1)], {}),
}


@pytest.mark.parametrize("name", EQUAL)
def test_op_equals_onnx(name: str) -> None:
    op, node, feeds, attributes = EQUAL[name]
    (want,) = by_onnx(node, feeds, 1, attributes)
    (got,) = by_op(op, feeds)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("op", "feeds", "attributes"), [
    (Split(1, parts=2), [X], {"axis": 1, "num_outputs": 2}),
    (Split(-1, parts=4), [X], {"axis": -1, "num_outputs": 4}),
    (Split(1), [X, ints(1, 0, 5, 2)], {"axis": 1}),
], ids=["even", "last_part_empty", "given_sizes"])  # fmt: skip
def test_split_equals_onnx(op: Split, feeds: list[Array], attributes: dict[str, Any]) -> None:
    parts = op.parts or len(feeds[1])
    for got, want in zip(by_op(op, feeds), by_onnx("Split", feeds, parts, attributes), strict=True):
        np.testing.assert_array_equal(got, want)


def test_pad_crops_with_negative_pads() -> None:
    (got,) = by_op(Pad(), [X, ints(0, -1, 1, 0, 0, -2, 0, -1)])
    np.testing.assert_array_equal(got[:, :, 1:], X[:, 1:6, :, :-1])
    assert not got[:, :, 0].any()


TYPE = TensorType(DType.F32, (2, 8, 4, 6))


@pytest.mark.parametrize(("op", "reason"), [
    (Transpose((0, 1, 2)), "needed each of the 4 axes"),
    (DepthToSpace(3), "multiple of 9 channels"),
    (SpaceToDepth(4), "multiples of 4"),
    (BroadcastTo((2, 8, 4, 5)), "needed a shape that broadcasts"),
    (Tile((1, 2)), "needed 4 counts"),
    (Split(1, (3, 4)), "needed 8 elements of axis 1 in all"),
    (StridedSlice((0, 0, 0, 5), (1, 1, 1, 1), (2, 8, 4, 2)), "needed them in the 6 of axis 3"),
    (Pad("reflects", (0,) * 8), "found pad mode 'reflects'"),
    (Concat(4), "axis is 4"),
])  # fmt: skip
def test_refusals_say_found_and_needed(op: Op, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        op.infer([TYPE])


@pytest.mark.parametrize("op", [Expand(), Tile(), Slice(), Pad(), Split(1)])
def test_parameters_of_the_run_cannot_be_bound(op: Op) -> None:
    with pytest.raises(InputError, match="computed at run time"):
        op.bind([TYPE, TensorType(DType.I64, (4,)), TensorType(DType.I64, (4,))], [None, None, None])


def problem(op: Op, *shapes: tuple[int, ...], dtype: DType = DType.F32) -> Problem:
    types = tuple(TensorType(dtype, shape) for shape in shapes)
    return Problem.of(op, types, (False,) * len(types))


MOVES: dict[str, tuple[Routine, Problem]] = {
    "transpose_matrix": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((1, 0)), (37, 45))),
    "transpose_attention_heads": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 2, 1, 3)), (2, 5, 3, 24))),
    "transpose_keys": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 2, 3, 1)), (2, 19, 3, 24))),
    "transpose_reversed_axes": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((3, 2, 1, 0)), (5, 6, 7, 8))),
    "transpose_short_axes": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((2, 1, 0)), (3, 5, 3))),
    "transpose_shuffled_channels": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 2, 1, 3, 4)), (2, 2, 9, 3, 5))),
    "transpose_bytes": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((1, 0)), (33, 70), dtype=DType.U8)),
    "transpose_longs": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 2, 1)), (2, 9, 11), dtype=DType.I64)),
    "depth_to_space_dcr": (DEPTH_TO_SPACE_STRIDED_ANY, problem(DepthToSpace(2), (2, 12, 3, 5))),
    "depth_to_space_crd_by_three": (DEPTH_TO_SPACE_STRIDED_ANY, problem(DepthToSpace(3, "CRD"), (1, 18, 4, 5))),
    "space_to_depth": (SPACE_TO_DEPTH_STRIDED_ANY, problem(SpaceToDepth(2), (2, 3, 6, 10))),
    "concat_channels": (CONCAT_STRIDED_ANY, problem(Concat(1), (2, 3, 4, 5), (2, 24, 4, 5), (2, 1, 4, 5))),
    "concat_batch": (CONCAT_STRIDED_ANY, problem(Concat(0), (2, 3, 4, 5), (1, 3, 4, 5))),
    "concat_width": (CONCAT_STRIDED_ANY, problem(Concat(-1), (2, 3, 4, 5), (2, 3, 4, 0), (2, 3, 4, 70))),
    "concat_vectors": (CONCAT_STRIDED_ANY, problem(Concat(0), (7,), (300,), dtype=DType.I64)),
    "concat_long_rows": (CONCAT_STRIDED_ANY, problem(Concat(1), (2, 1000), (2, 37))),
    "split_channels": (SPLIT_STRIDED_ANY, problem(Split(1, (3, 0, 5)), (2, 8, 3, 4))),
    "split_height": (SPLIT_STRIDED_ANY, problem(Split(-2, (2, 1)), (2, 8, 3, 4), dtype=DType.F16)),
    "slice_inner": (SLICE_STRIDED_ANY, problem(StridedSlice((0, 1, 2, 1), (1, 1, 1, 1), (2, 6, 2, 3)), (2, 8, 4, 5))),
    "slice_steps": (SLICE_STRIDED_ANY, problem(StridedSlice((1, 0, 0, 1), (1, 3, 2, 2), (1, 3, 2, 2)), (2, 8, 4, 5))),
    "slice_even_columns": (SLICE_STRIDED_ANY, problem(StridedSlice((0, 0, 1), (1, 2, 2), (2, 2, 35)), (2, 3, 71))),
    "slice_every_third": (SLICE_STRIDED_ANY, problem(StridedSlice((1,), (3,), (70,)), (209,), dtype=DType.U8)),
    "slice_every_fourth": (SLICE_STRIDED_ANY, problem(StridedSlice((0,), (4,), (17,)), (65,), dtype=DType.I64)),
    "slice_backwards": (SLICE_STRIDED_ANY,
                        problem(StridedSlice((1, 7, 3, 4), (-1, -2, 1, -1), (2, 4, 1, 5)), (2, 8, 4, 5))),
    "slice_one_element": (SLICE_STRIDED_ANY, problem(StridedSlice((5,), (1,), (1,)), (8,))),
    "slice_scalar": (SLICE_STRIDED_ANY, problem(StridedSlice((), (), ()), ())),
    "slice_to_nothing": (SLICE_STRIDED_ANY, problem(StridedSlice((0, 0), (1, 1), (0, 5)), (3, 5))),
    "broadcast_channels": (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((2, 6, 5, 7)), (1, 6, 1, 1))),
    "broadcast_rows": (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((4, 3, 40)), (1, 3, 40))),
    "broadcast_new_axes": (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((3, 2, 5, 9)), (5, 1), dtype=DType.U8)),
    "broadcast_scalar": (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((3, 31)), (), dtype=DType.I64)),
    "broadcast_booleans": (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((3, 131)), (3, 1), dtype=DType.BOOL)),
    "tile_all_axes": (TILE_STRIDED_ANY, problem(Tile((2, 3, 1, 2)), (2, 3, 4, 5))),
    "tile_single_elements": (TILE_STRIDED_ANY, problem(Tile((1, 70)), (5, 1), dtype=DType.I16)),
    "pad_spatial": (PAD_ROWS_ANY, problem(Pad(pads=(0, 0, 1, 2, 0, 0, 3, 1), value=-7.0), (2, 3, 4, 5))),
    "pad_every_axis": (PAD_ROWS_ANY, problem(Pad(pads=(1, 2, 1, 0, 0, 1, 0, 3), value=2.5), (2, 3, 4, 5))),
    "pad_channels": (PAD_ROWS_ANY, problem(Pad(pads=(0, 0, 0, 0, 0, 21, 0, 0)), (2, 3, 4, 5))),
    "pad_batch": (PAD_ROWS_ANY, problem(Pad(pads=(2, 0, 0, 0, 1, 0, 0, 0)), (2, 3, 4, 5))),
    "pad_crops": (PAD_ROWS_ANY, problem(Pad(pads=(0, -1, 1, -2, 0, 0, -2, -1)), (2, 3, 4, 5))),
    "pad_crops_more_than_all": (PAD_ROWS_ANY, problem(Pad(pads=(-5, 4)), (3,))),
    "pad_nothing": (PAD_ROWS_ANY, problem(Pad(pads=(0, 0)), (3,))),
    "pad_empty": (PAD_ROWS_ANY, problem(Pad(pads=(2, 0, 1, 0), value=3.0), (0, 4))),
    "pad_reflect": (PAD_ROWS_ANY, problem(Pad("reflect", (0, 0, 1, 2, 0, 0, 2, 6)), (2, 3, 4, 5))),
    "pad_edge": (PAD_ROWS_ANY, problem(Pad("edge", (0, 1, 0, 3, 0, 0, 9, 0)), (2, 3, 4, 5), dtype=DType.U8)),
    "pad_wrap": (PAD_ROWS_ANY, problem(Pad("wrap", (0, 0, 0, 7, 0, 0, 1, 2)), (2, 3, 4, 5), dtype=DType.F64)),
    "pad_integers": (PAD_ROWS_ANY, problem(Pad(pads=(2, 40), value=2**60 + 1), (9,), dtype=DType.I64)),
    "transpose_to_channels_last": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 2, 3, 1)), (2, 3, 4, 5))),
    "transpose_from_channels_last": (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 3, 1, 2)), (2, 4, 5, 3))),
    "view_flattens_one_pixel": (VIEW_ALIAS_ANY, problem(View((2, 7)), (2, 7, 1, 1))),
    "view_adds_pixel_axes": (VIEW_ALIAS_ANY, problem(View((2, 7, 1, 1)), (2, 7))),
    "view_flattens_pixels": (VIEW_ALIAS_ANY, problem(View((2, 7, 12)), (2, 7, 3, 4))),
    "view_flattens_all": (VIEW_ALIAS_ANY, problem(View((2, 84)), (2, 7, 3, 4))),
    "view_splits_channels": (VIEW_ALIAS_ANY, problem(View((2, 2, 4, 3, 4)), (2, 8, 3, 4))),
    "view_of_one_channel": (VIEW_ALIAS_ANY, problem(View((2, 12, 1, 1)), (2, 1, 3, 4))),
    "view_of_scalar": (VIEW_ALIAS_ANY, problem(View((1, 1, 1)), ())),
}
CASES = [(routine, *case) for name, (routine, moved) in MOVES.items()
         for case in cases(routine, {name: moved}, runnable_targets())]


@pytest.mark.parametrize("case", CASES, ids=[c[1] for c in CASES])
def test_routine_equals_op(case: tuple) -> None:
    routine, _, moved, signature, schedule, target = case
    check(routine, moved, signature, schedule, target)


@pytest.mark.parametrize("name", MOVES)
def test_work_is_shared_by_threads(name: str) -> None:
    routine, moved = MOVES[name]
    for signature in routine.signatures(moved):
        check(routine, moved, signature, {}, host(), threads=3)


@pytest.mark.parametrize("name", MOVES)
def test_problem_text_round_trip(name: str) -> None:
    moved = MOVES[name][1]
    assert Problem.parse(moved.key()) == moved


def test_pad_with_infinity() -> None:
    padded = problem(Pad(pads=(2, 0, 1, 0), value=float("-inf")), (3, 4))
    assert Problem.parse(padded.key()) == padded
    x = np.ones((3, 4), np.float32)
    (y,) = execute(PAD_ROWS_ANY, padded, PAD_ROWS_ANY.signatures(padded)[0], {}, host(), [x])
    np.testing.assert_array_equal(y, padded.op.reference([x])[0])


SIGNATURES = {
    "transpose_to_channels_last": 2,
    "transpose_from_channels_last": 2,
    "view_flattens_one_pixel": 2,
    "view_adds_pixel_axes": 2,
    "view_flattens_pixels": 2,
    "view_flattens_all": 1,
    "view_splits_channels": 1,
    "view_of_one_channel": 4,
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_layouts_that_need_no_adapt_are_offered(name: str) -> None:
    routine, moved = MOVES[name]
    own = [s for s in routine.signatures(moved) if s.outputs[0].dtype is moved.outputs[0].dtype]
    assert len(own) == SIGNATURES[name]


@pytest.mark.parametrize(("routine", "unmoved"), [
    (TRANSPOSE_BLOCKED_ANY, problem(Transpose((1, 0, 2)), (1, 3, 4))),
    (TRANSPOSE_BLOCKED_ANY, problem(Transpose((0, 3, 1, 2)), (2, 8, 1, 1))),
    (SLICE_STRIDED_ANY, problem(StridedSlice((0, 0), (1, 1), (3, 4)), (3, 4))),
    (BROADCAST_TO_STRIDED_ANY, problem(BroadcastTo((3, 4)), (3, 4))),
])  # fmt: skip
def test_unmoved_memory_is_not_copied(routine: Routine, unmoved: Problem) -> None:
    for signature in routine.signatures(unmoved):
        assert routine.build(unmoved, signature, {}, host()).alias == 0
        check(routine, unmoved, signature, {}, host())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_transpose_of_any_size(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 17, 33]), min_size=1, max_size=4)))
    dtype = data.draw(st.sampled_from([DType.U8, DType.F16, DType.F32, DType.F64]))
    moved = problem(Transpose(tuple(data.draw(st.permutations(range(len(shape)))))), shape, dtype=dtype)
    for signature in TRANSPOSE_BLOCKED_ANY.signatures(moved):
        check(TRANSPOSE_BLOCKED_ANY, moved, signature, {}, host(), threads=data.draw(st.integers(1, 3)))
