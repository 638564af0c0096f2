"""Passes that remove layers: constants, no-ops, duplicates, chains of movements; and outputs that must stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from graph_building import Builder, assert_same, hinted, kinds

from softneuro.control import Call, If
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.movement import Expand, Tile, Transpose
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.padding import Pad
from softneuro.ops.pool import Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.same_padding import SameConv
from softneuro.ops.slicing import Concat, Slice, Split
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze
from softneuro.passes.bind_parameters import bind_parameters
from softneuro.passes.cheaper_instructions import cheaper_instructions
from softneuro.passes.fold_constants import fold_constants
from softneuro.passes.global_pool import reduction_to_global_pool
from softneuro.passes.inline_branch import inline_branch
from softneuro.passes.literals import write_literals
from softneuro.passes.movement_chain import movement_chain
from softneuro.passes.pipeline import optimise
from softneuro.passes.remove_noops import remove_noops
from softneuro.passes.share import share_layers
from softneuro.types import DType

F32 = np.float32
I64 = np.int64

NOOPS: dict[str, Callable[[Builder, str], str]] = {
    "identity": lambda b, x: b.layer(Identity(), x),
    "times_one": lambda b, x: b.pointwise("mul(x0,1.0)", x),
    "one_times_constant": lambda b, x: b.pointwise("mul(x1,x0)", x, b.constant(F32([[1]]))),
    "plus_zero_times_one": lambda b, x: b.pointwise("add(x0,0.0);mul(t0,1.0)", x),
    "cast_to_same_type": lambda b, x: b.pointwise("cast_f32(x0)", x),
    "clip_to_everything": lambda b, x: b.pointwise("clip(x0,-inf,inf)", x),
    "transpose_in_order": lambda b, x: b.layer(Transpose((0, 1, 2, 3)), x),
    "concat_of_one": lambda b, x: b.layer(Concat(1), x),
    "split_in_one": lambda b, x: b.layer(Split(1, (3,)), x),
    "pad_by_nothing": lambda b, x: b.layer(Pad("constant", (0,) * 8), x),
    "tile_once": lambda b, x: b.layer(Tile((1, 1, 1, 1)), x),
    "reduce_no_axes": lambda b, x: b.layer(Reduce("sum", (), True, True), x),
    "pool_of_one": lambda b, x: b.layer(Pool("max", (1, 1), (1, 1), (0,) * 4, (1, 1)), x),
    "slice_of_everything": lambda b, x: b.layer(
        Slice(), x, b.constant(I64([0])), b.constant(I64([2**31 - 1])), b.constant(I64([1]))
    ),
    "expand_to_ones": lambda b, x: b.layer(Expand(), x, b.constant(I64([1, 1]))),
}

KEPT: dict[str, Callable[[Builder, str], str]] = {
    "one_with_more_axes": lambda b, x: b.pointwise("mul(x0,x1)", x, b.constant(np.ones((1,) * 5, F32))),
    "ones_that_may_broadcast": lambda b, x: b.pointwise("mul(x0,x1)", x, b.constant(np.ones((1, 3, 1, 1), F32))),
    "slice_of_some": lambda b, x: b.layer(Slice(), x, b.constant(I64([0])), b.constant(I64([2])), b.constant(I64([1]))),
    "slice_backwards": lambda b, x: b.layer(
        Slice(), x, b.constant(I64([0])), b.constant(I64([2**31 - 1])), b.constant(I64([1])), b.constant(I64([2]))
    ),
    "pool_with_stride": lambda b, x: b.layer(Pool("max", (1, 1), (2, 1), (0,) * 4, (1, 1)), x),
    "reduce_of_everything": lambda b, x: b.layer(Reduce("sum", (), True, False), x),
}


def between(make: Callable[[Builder, str], str]) -> Graph:
    """The layer between two others, with free sizes."""
    b = Builder()
    x = b.pointwise("relu(x0)", b.input(None, 3, "h", None))
    return hinted(b.graph(b.pointwise("neg(x0)", make(b, x))))


@pytest.mark.parametrize("make", NOOPS.values(), ids=NOOPS)
def test_layer_that_changes_nothing_leaves(make: Callable[[Builder, str], str]) -> None:
    before = between(make)
    after = remove_noops(before)
    assert kinds(after) == ["relu(x0)", "neg(x0)"]
    assert_same(before, after)


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_layer_that_changes_something_stays(make: Callable[[Builder, str], str]) -> None:
    before = between(make)
    assert remove_noops(before) is before


def test_noop_that_makes_an_output_gives_its_name_to_the_layer_before() -> None:
    b = Builder()
    x = b.pointwise("relu(x0)", b.input(2, 3))
    other = b.pointwise("neg(x0)", x)
    before = hinted(b.graph(b.layer(Identity(), x), other))
    after = remove_noops(before)
    assert kinds(after) == ["relu(x0)", "neg(x0)"]
    assert_same(before, after)


@pytest.mark.parametrize("outputs", ["of_an_input", "of_another_output", "of_a_constant"])
def test_noop_that_alone_can_make_an_output_stays(outputs: str) -> None:
    b = Builder()
    x = b.input(2, 3)
    source = {
        "of_an_input": lambda: x,
        "of_another_output": lambda: b.pointwise("relu(x0)", x),
        "of_a_constant": lambda: b.weights(2, 3),
    }[outputs]()
    others = [source] if outputs == "of_another_output" else []
    before = hinted(b.graph(b.layer(Identity(), source), *others))
    after = remove_noops(before)
    assert after is before


def test_constants_fold_through_several_layers_and_unused_ones_leave() -> None:
    b = Builder()
    w = b.layer(Transpose((1, 0)), b.weights(4, 3))
    scale = b.pointwise("add(x0,x1);sqrt(t0)", b.positive(4), b.constant(F32(0.5)))
    before = b.graph(b.pointwise("mul(x0,x1);mul(t0,x2)", b.input("n", 4), w, scale))
    before = Graph({"input0": GraphInput(DType.F32, (3, 4))}, before.outputs, before.layers, before.constants)
    after = fold_constants(before)
    assert len(after.layers) == 1
    assert set(after.constants) == {w, scale}
    assert_same(before, after)


def test_constant_that_would_grow_too_much_is_not_folded() -> None:
    b = Builder()
    big = b.layer(Expand(), b.weights(1, 1024), b.constant(I64([1024, 1024])))
    before = b.graph(b.pointwise("add(x0,x1)", b.input(1024, 1024), big))
    assert fold_constants(before) is before


def test_constant_graph_output_stays_an_output() -> None:
    b = Builder()
    before = b.graph(b.pointwise("neg(x0)", b.weights(3)))
    after = fold_constants(before)
    assert not after.layers
    assert set(after.constants) == set(before.outputs)
    assert_same(before, after)


def test_layer_that_cannot_be_computed_is_left_to_the_run() -> None:
    b = Builder()
    before = b.graph(b.pointwise("add(x0,x1)", b.weights(2), b.weights(3)))
    assert fold_constants(before) is before


def test_what_may_draw_random_numbers_is_not_folded() -> None:
    node = onnx.helper.make_node("RandomNormal", [], ["y"], shape=[3]).SerializeToString()
    b = Builder()
    drawn = b.layer(OnnxOp(node, (("", 20),)))
    again = b.layer(OnnxOp(node, (("", 20),)))
    before = b.graph(b.pointwise("sub(x0,x1)", drawn, again), b.layer(Call(branch("add(x0,x1)")), b.weights(2)))
    assert fold_constants(before) is before
    assert share_layers(before) is before


def test_equal_layers_are_computed_once() -> None:
    b = Builder()
    x = b.input(2, 3)
    first, second = (
        b.pointwise("mul(x0,x1)", x, b.constant(F32([3]))),
        b.pointwise("mul(x0,x1)", x, b.constant(F32([3]))),
    )
    third = b.pointwise("mul(x0,x1)", x, b.constant(F32([4])))
    joined = b.pointwise("add(x0,x1);add(t0,x2)", b.pointwise("neg(x0)", first), b.pointwise("neg(x0)", second), third)
    before = b.graph(joined)
    after = share_layers(before)
    assert len(after.layers) == 4
    assert_same(before, after)


def test_equal_layers_that_make_outputs_both_stay() -> None:
    b = Builder()
    x = b.input(2)
    before = b.graph(b.pointwise("neg(x0)", x), b.pointwise("neg(x0)", x))
    assert share_layers(before) is before


LITERALS = {
    "scalar": ("add(x0,x1)", F32(3), "add(x0,3.0)"),
    "one_element": ("mul(x1,x0)", F32([[2.5]]), "mul(2.5,x0)"),
    "renumbered": ("add(x1,x0);mul(t0,x2)", F32(2), "add(2.0,x0);mul(t0,x1)"),
    "more_axes": ("add(x0,x1)", np.ones((1, 1, 1), F32), "add(x0,x1)"),
    "float_exponent": ("pow(x0,x1)", F32(2), "pow(x0,2.0)"),
}


@pytest.mark.parametrize(("program", "value", "wanted"), LITERALS.values(), ids=LITERALS)
def test_single_numbers_are_written_into_programs(program: str, value: np.ndarray, wanted: str) -> None:
    b = Builder()
    others = [b.input(2, 3)] if "x2" in program else []
    before = hinted(b.graph(b.pointwise(program, b.input(2, 3), b.constant(value), *others)))
    after = write_literals(before)
    assert kinds(after) == [wanted]
    assert_same(before, after)


def test_exponent_of_another_type_than_the_base_stays() -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("pow(x0,x1)", b.input(3, dtype=DType.I64), b.constant(F32(0.5)))))
    assert write_literals(before) is before


def test_where_of_two_numbers_keeps_one_that_has_the_type() -> None:
    b = Builder()
    condition = b.input(3, dtype=DType.BOOL)
    before = hinted(b.graph(b.pointwise("where(x0,x1,x2)", condition, b.constant(I64(1)), b.constant(I64(2)))))
    assert write_literals(before) is before


CHEAPER = {
    "division": ("div(x0,4.0)", "mul(x0,0.25)"),
    "square": ("add(x0,x1);pow(t0,2.0)", "add(x0,x1);mul(t0,t0)"),
    "root": ("pow(x0,0.5)", "sqrt(x0)"),
    "inverse": ("pow(x0,-1.0)", "reciprocal(x0)"),
    "cube_between_others": (
        "neg(x0);pow(t0,3.0);add(t1,t0)",
        "neg(x0);mul(t0,t0);mul(t1,t0);add(t2,t0)",
    ),
    "local_response_normalisation": (
        "pow(x0,-0.75);mul(x0,t0)",
        "sqrt(x0);sqrt(t0);mul(t0,t1);reciprocal(t2);mul(x0,t3)",
    ),
    "other_power": ("pow(x0,2.5)", "pow(x0,2.5)"),
    "by_a_tensor": ("div(x0,x1)", "div(x0,x1)"),
    "by_zero": ("div(x0,0.0)", "div(x0,0.0)"),
}


@pytest.mark.parametrize(("program", "wanted"), CHEAPER.values(), ids=CHEAPER)
def test_expensive_instructions_become_cheaper(program: str, wanted: str) -> None:
    b = Builder()
    x = b.pointwise("abs(x0)", b.input(2, 3))
    before = hinted(b.graph(b.pointwise(program, *([x, b.input(2, 3)] if "x1" in program else [x]))))
    after = cheaper_instructions(before)
    assert kinds(after)[1] == wanted
    assert_same(before, after)


def test_division_of_integers_stays() -> None:
    b = Builder()
    before = hinted(b.graph(b.pointwise("div(x0,4.0)", b.input(3, dtype=DType.I64))))
    assert cheaper_instructions(before) is before


def test_parameters_move_from_constants_into_ops() -> None:
    b = Builder()
    x = b.input(None, 3, "h", "h")
    padded = b.layer(Pad("constant"), x, b.constant(I64([1, 2, 1, 0])), b.constant(F32(7)), b.constant(I64([2, -1])))
    summed = b.layer(Reduce("sum"), padded, b.constant(I64([-1])))
    tiled = b.layer(Tile(), summed, b.constant(I64([1, 2, 1, 1])))
    before = hinted(b.graph(b.layer(Squeeze(), tiled, b.constant(I64([3])))))
    after = bind_parameters(before)
    assert [layer.op for layer in after.layers] == [
        Pad("constant", (0, 0, 1, 2, 0, 0, 1, 0), 7.0),
        Reduce("sum", (-1,)),
        Tile((1, 2, 1, 1)),
        Squeeze((3,)),
    ]
    assert not after.constants
    assert_same(before, after)


def test_same_padding_is_static_only_where_it_does_not_depend_on_sizes() -> None:
    b = Builder()
    x = b.input(1, 3, "h", "w")
    y = b.layer(SameConv((1, 1), (1, 2)), x, b.weights(3, 3, 3, 2))
    before = hinted(b.graph(b.layer(SameConv((2, 2), (1, 1)), y, b.weights(3, 3, 3, 3))), {x: (1, 3, 9, 8)})
    after = bind_parameters(before)
    assert kinds(after) == ["conv", "same_conv"]
    assert_same(before, after, {x: (1, 3, 6, 11)})


CHAINS: dict[str, tuple[Callable[[Builder, str], str], list[str]]] = {
    "transposes": (lambda b, x: b.layer(Transpose((1, 2, 0)), b.layer(Transpose((2, 1, 0)), x)), ["transpose"]),
    "transposes_that_cancel": (lambda b, x: b.layer(Transpose((1, 2, 0)), b.layer(Transpose((2, 0, 1)), x)), []),
    "reshapes": (lambda b, x: b.layer(Reshape(), b.layer(Flatten(1), x), b.constant(I64([-1, 2]))), ["reshape"]),
    "reshape_that_copies_a_size": (
        lambda b, x: b.layer(Reshape(), b.layer(Flatten(1), x), b.constant(I64([0, 2, -1]))),
        ["flatten", "reshape"],
    ),
    "unsqueeze_and_squeeze": (lambda b, x: b.layer(Squeeze((1,)), b.layer(Unsqueeze((-3,)), x)), []),
    "squeeze_of_another_axis": (
        lambda b, x: b.layer(Squeeze((0,)), b.layer(Unsqueeze((0,)), b.layer(Unsqueeze((-1,)), x))),
        ["unsqueeze"],
    ),
}


@pytest.mark.parametrize(("make", "wanted"), CHAINS.values(), ids=CHAINS)
def test_movements_in_a_row_become_one(make: Callable[[Builder, str], str], wanted: list[str]) -> None:
    b = Builder()
    x = b.pointwise("relu(x0)", b.input(None, 4, "w"))
    before = hinted(b.graph(b.pointwise("neg(x0)", make(b, x))))
    after = movement_chain(before)
    assert kinds(after) == ["relu(x0)", *wanted, "neg(x0)"]
    assert_same(before, after)


def test_first_transpose_stays_for_its_other_reader() -> None:
    b = Builder()
    first = b.layer(Transpose((1, 0)), b.input(2, 3))
    second = b.layer(Transpose((1, 0)), first)
    before = hinted(b.graph(b.pointwise("neg(x0)", second), b.pointwise("abs(x0)", first)))
    after = movement_chain(before)
    assert kinds(after) == ["transpose", "neg(x0)", "abs(x0)"]
    assert_same(before, after)


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (Reduce("mean", (2, -1)), ["global_pool"]),
        (Reduce("max", (2, 3), False), ["global_pool", "squeeze"]),
        (Reduce("mean", (1, 2, 3)), ["reduce"]),
        (Reduce("sum", (2, 3)), ["reduce"]),
    ],
    ids=["mean", "max_without_axes", "channels_too", "sum"],
)
def test_reductions_over_all_spatial_axes_become_global_pools(op: Reduce, wanted: list[str]) -> None:
    b = Builder()
    before = hinted(b.graph(b.layer(op, b.input(None, 4, "h", "w"))))
    after = reduction_to_global_pool(before)
    assert kinds(after) == wanted
    assert_same(before, after)


def branch(program: str) -> Graph:
    b = Builder()
    x = b.input(2)
    return b.graph(b.pointwise(program, x, b.weights(2)))


def test_branch_of_a_known_condition_becomes_part_of_the_graph() -> None:
    b = Builder()
    x = b.pointwise("abs(x0)", b.input(2))
    op = If(branch("add(x0,x1);relu(t0)"), branch("sub(x0,x1)"), ("input0",))
    y = b.layer(op, b.constant(np.array(False)), x)
    before = b.graph(b.pointwise("neg(x0)", y), y)
    after = inline_branch(before)
    assert kinds(after) == ["abs(x0)", "sub(x0,x1)", "neg(x0)"]
    assert_same(before, after)


def test_call_that_passes_an_input_through() -> None:
    body = Graph(
        {"a": GraphInput(DType.F32, (2,))},
        ("a", "b"),
        (Layer("neg", branch("mul(x0,x1)").layers[0].op, ("a", "w"), ("b",)),),
        {"w": np.full(2, 3, F32)},
    )
    b = Builder()
    y = b.layer(Call(body), b.input(2), outputs=2)
    before = b.graph(y, f"{y}.1")
    after = inline_branch(before)
    assert kinds(after) == ["mul(x0,x1)", "identity"]
    assert_same(before, after)


def test_sizes_that_are_all_fixed_leave_no_shape_arithmetic() -> None:
    from softneuro.ops.shape import Shape

    b = Builder()
    x = b.input(2, 3, 4)
    shape = b.layer(Concat(0), b.layer(Shape(0, 1), x), b.constant(I64([-1])))
    before = b.graph(b.pointwise("neg(x0)", b.layer(Reshape(), x, shape)))
    after = optimise(before)
    assert kinds(after) == ["view", "neg(x0)"]
    assert_same(before, after)
