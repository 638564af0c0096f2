"""Plans tuned at one shape run at others without compiling: small graphs with free dimensions, and real models."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_build import normal

from softneuro import reference
from softneuro.codegen.jit import is_cached
from softneuro.codegen.target import host
from softneuro.importer.model import import_model
from softneuro.plan.defaults import choice_of
from softneuro.plan.lower import lower, problem_of
from softneuro.plan.outline import kernels_of
from softneuro.plan.plan import Plan
from softneuro.plan.program import NativeStep
from softneuro.routines.candidates import candidates
from softneuro.runtime import Session
from softneuro.specialise import specialise
from softneuro.tuning.tune import tune
from softneuro.types import Array, Shape
from tools.fetch_models import model_path

Dims = Sequence[int | str]
Shapes = Mapping[str, Shape]
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


class Sketch:
    """Collects nodes; a tensor is its name, and constants are made on the spot."""

    def __init__(self) -> None:
        self.inputs: dict[str, tuple[int, Dims]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def input(self, *dims: int | str, dtype: int = FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (dtype, dims)
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(normal(*shape, seed=len(self.constants)) / np.sqrt(np.prod(shape[1:]), dtype=np.float32))

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, getattr(value, "dtype", dtype))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        number = len(self.nodes)
        names = [f"t{number}", *(f"t{number}.{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"n{number}", **attributes))
        return names[0]

    def conv(self, x: str, filters: int, channels: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        w = self.weights(filters, channels // group, kernel, kernel)
        pads = [kernel // 2] * 4
        return self.add("Conv", x, w, self.weights(filters), pads=pads, strides=[stride] * 2, group=group)

    def linear(self, x: str, depth: int, columns: int) -> str:
        return self.add("Add", self.add("MatMul", x, self.weights(depth, columns)), self.weights(columns))

    def model(self, *outputs: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(name, dtype, dims) for name, (dtype, dims) in self.inputs.items()]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        initializers = [onnx.numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "sketch", inputs, results, initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def picture(s: Sketch, channels: int = 3) -> str:
    return s.input("n", channels, "h", "w")


def pyramid(mode: str) -> onnx.ModelProto:
    """Downwards by a pool, upwards to the size of what was before it, both side by side."""
    s = Sketch()
    fine = s.add("Relu", s.conv(picture(s), 8, 3, kernel=3))
    coarse = s.conv(s.add("MaxPool", fine, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), 12, 8)
    size = s.add("Slice", s.add("Shape", fine), s.ints(2), s.ints(4))
    sizes = s.add("Concat", s.add("Slice", s.add("Shape", coarse), s.ints(0), s.ints(2)), size, axis=0)
    up = s.add("Resize", coarse, "", "", sizes, mode=mode, coordinate_transformation_mode="half_pixel")
    return s.model(s.conv(s.add("Concat", up, fine, axis=1), 5, 20, kernel=3))


def doubled() -> onnx.ModelProto:
    s = Sketch()
    x = s.conv(picture(s), 16, 3, kernel=3, stride=2)
    y = s.add("Resize", x, "", s.constant([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")
    return s.model(s.add("Sigmoid", s.conv(y, 1, 16)), s.add("DepthToSpace", x, blocksize=2))


def cut_and_padded() -> onnx.ModelProto:
    s = Sketch()
    x = picture(s)
    padded = s.add("Pad", x, s.ints(0, 0, 1, 2, 0, 1, 0, 3), s.constant(1.5))
    even = s.add("Slice", padded, s.ints(0, 0), s.ints(1 << 40, 1 << 40), s.ints(2, 3), s.ints(2, 2))
    back = s.add("Slice", padded, s.ints(-1), s.ints(-(1 << 40)), s.ints(3), s.ints(-1))
    edge = s.add("Pad", s.conv(back, 4, 4), s.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="edge")
    return s.model(s.add("Transpose", even, perm=[0, 2, 3, 1]), s.add("Transpose", edge, perm=[3, 1, 0, 2]), padded)


def gates() -> onnx.ModelProto:
    """Squeeze and excite, masks and vectors: every way to broadcast over pictures."""
    s = Sketch()
    x, mask = picture(s), s.input("n", 1, "h", "w")
    y = s.conv(x, 24, 3)
    gate = s.add("HardSigmoid", s.conv(s.add("Relu", s.conv(s.add("GlobalAveragePool", y), 6, 24)), 24, 6))
    gated = s.add("Mul", y, gate)
    masked = s.add("Mul", gated, mask)
    rows = s.add("ReduceMax", masked, s.ints(3), keepdims=1)
    mixed = s.add("Add", s.add("Sub", s.add("Mul", masked, s.weights(24, 1, 1)), rows), s.add("Tanh", mask))
    return s.model(mixed, s.add("ReduceMean", mixed, s.ints(2, 3)), s.add("Softmax", mixed, axis=1))


def mobile() -> onnx.ModelProto:
    s = Sketch()
    x = s.add("Clip", s.conv(picture(s), 16, 3, kernel=3, stride=2), s.constant(0.0), s.constant(6.0))
    y = s.add("Clip", s.conv(x, 16, 16, kernel=3, group=16), s.constant(0.0), s.constant(6.0))
    same = s.add("Add", s.conv(y, 16, 16), x)
    up = s.add("ConvTranspose", same, s.weights(16, 5, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    pooled = s.add("AveragePool", up, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    return s.model(pooled, s.conv(same, 7, 16, kernel=3, stride=2))


def text_line() -> onnx.ModelProto:
    """Pictures whose height is pooled away: columns become a sequence that is classified."""
    s = Sketch()
    x = s.conv(s.input("n", 3, 4, "w"), 16, 3, kernel=3)
    flat = s.add("AveragePool", x, kernel_shape=[4, 1])
    line = s.add("Transpose", s.add("Squeeze", flat, s.ints(2)), perm=[0, 2, 1])
    return s.model(s.add("Softmax", s.linear(line, 16, 30), axis=-1))


def attention() -> onnx.ModelProto:
    s = Sketch()
    ids, mask = s.input("n", "t", dtype=INT), s.input("n", "t")
    x = s.add("Gather", s.weights(50, 16), ids)
    hidden = s.add("LayerNormalization", x, s.weights(16), s.weights(16), axis=-1)

    def heads(perm: Sequence[int]) -> str:
        split = s.add("Reshape", s.linear(hidden, 16, 16), s.ints(0, 0, 2, 8))
        return s.add("Transpose", split, perm=list(perm))

    scores = s.add("MatMul", heads((0, 2, 1, 3)), heads((0, 2, 3, 1)))
    scores = s.add("Div", scores, s.constant(np.float32(8**0.5)))
    scores = s.add("Add", scores, s.add("Unsqueeze", s.add("Mul", mask, s.constant(-100.0)), s.ints(1, 2)))
    mixed = s.add("MatMul", s.add("Softmax", scores, axis=-1), heads((0, 2, 1, 3)))
    joined = s.add("Reshape", s.add("Transpose", mixed, perm=[0, 2, 1, 3]), s.ints(0, 0, 16))
    y = s.add("Add", s.linear(joined, 16, 16), hidden)
    pooled = s.add("ReduceMean", y, s.ints(1), keepdims=0)
    first = s.add("Gather", y, s.constant(np.array(0, np.int64)), axis=1)
    return s.model(y, s.linear(pooled, 16, 3), s.add("Tanh", s.linear(first, 16, 16)))


def sequence_pieces() -> onnx.ModelProto:
    s = Sketch()
    x = s.input("n", "t", 6)
    a = s.add("Split", x, s.ints(3, 2, 1), outputs=3, axis=2)
    turned = s.add("Concat", f"{a}.2", a, f"{a}.1", axis=2)
    twice = s.add("Tile", turned, s.ints(1, 2, 1))
    wide = s.add("Expand", s.add("Unsqueeze", f"{a}.2", s.ints(1)), s.ints(1, 3, 1, 5))
    norm = s.add("ReduceL2", x, s.ints(-1), keepdims=1)
    return s.model(twice, wide, s.add("Div", x, norm), s.add("Transpose", twice, perm=[2, 0, 1]))


def fully_connected() -> onnx.ModelProto:
    s = Sketch()
    x = s.input("n", 20)
    y = s.add("Relu", s.add("Gemm", x, s.weights(20, 40), s.weights(40)))
    return s.model(s.add("Softmax", s.add("Gemm", y, s.weights(9, 40), s.weights(9), transB=1), axis=-1))


SKETCHES = {
    "pyramid_linear": pyramid("linear"),
    "pyramid_nearest": pyramid("nearest"),
    "pyramid_cubic": pyramid("cubic"),
    "doubled": doubled(),
    "cut_and_padded": cut_and_padded(),
    "gates": gates(),
    "mobile": mobile(),
    "text_line": text_line(),
    "attention": attention(),
    "sequence_pieces": sequence_pieces(),
    "fully_connected": fully_connected(),
}
SIZES = [(1, 1, 1), (1, 1, 7), (1, 7, 1), (2, 1, 1), (1, 2, 3), (3, 5, 4), (1, 16, 16), (2, 33, 17), (1, 8, 64), (4, 4, 4),
         (1, 25, 31), (9, 2, 2)]
TUNED = {"middling": (1, 9, 10), "several": (3, 12, 12), "ones": (1, 1, 1)}


def shapes_of(model: onnx.ModelProto, sizes: tuple[int, int, int]) -> dict[str, Shape]:
    """Input shapes with n, h and w (t is h) of these sizes."""
    n, h, w = sizes
    symbols = {"n": n, "h": h, "t": h, "w": w}
    return {
        value.name: tuple(symbols[d.dim_param] if d.dim_param else d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in model.graph.input
    }


def feeds_of(model: onnx.ModelProto, shapes: Shapes) -> dict[str, Array]:
    """Normal floats, zeros and ones as tokens or masks."""
    rng = np.random.default_rng(3)
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        shape = shapes[value.name]
        whole = value.type.tensor_type.elem_type == INT
        feeds[value.name] = rng.integers(0, 2, shape) if whole else rng.standard_normal(shape).astype(np.float32)
    return feeds


def kernels_at(plan: Plan, shapes: Shapes) -> set[object]:
    """The kernels that a session launches at these shapes."""
    program = lower(specialise(plan.graph, shapes), plan.choices, host(), 2, None)
    return {step.kernel for step in program.steps if isinstance(step, NativeStep)}


def kernels_for_all(plan: Plan) -> set[object]:
    """The kernels that tuning promises to have compiled."""
    program = lower(specialise(plan.graph, plan.provenance.shapes), plan.choices, host(), plan.provenance.threads, None)
    return set(kernels_of(program, host()))


def check_without_compiling(model: onnx.ModelProto, tuned: Shapes, others: Sequence[Shapes],
                            monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of a plan tuned at one shape gives what the reference does at others, and compiles nothing for them."""
    plan = tune(model, shapes=tuned, threads=2, time_limit=0)
    assert all(is_cached(kernel, host()) for kernel in kernels_for_all(plan))
    session, graph = Session(plan), import_model(model)
    session.run(feeds_of(model, tuned))
    monkeypatch.setitem(sys.modules, "softneuro.codegen.compile", None)  # importing it now would fail
    for shapes in others:
        feeds = feeds_of(model, shapes)
        found, expected = session.run(feeds), reference.run(graph, feeds)
        for name, want in expected.items():
            scale = float(np.max(np.abs(want), initial=1e-30))
            np.testing.assert_allclose(found[name], want, rtol=0, atol=1e-4 * scale, err_msg=f"{name} at {shapes}")


@pytest.mark.parametrize("tuned", TUNED.values(), ids=TUNED)
@pytest.mark.parametrize("model", SKETCHES.values(), ids=SKETCHES)
def test_other_shapes_need_no_other_kernels(model: onnx.ModelProto, tuned: tuple[int, int, int]) -> None:
    plan = tune(model, shapes=shapes_of(model, tuned), threads=1, time_limit=0)
    compiled = kernels_for_all(plan)
    for sizes in SIZES:
        assert kernels_at(plan, shapes_of(model, sizes)) <= compiled, sizes


@pytest.mark.parametrize("tuned", TUNED.values(), ids=TUNED)
@pytest.mark.parametrize("model", SKETCHES.values(), ids=SKETCHES)
def test_so_it_is_whatever_was_chosen(model: onnx.ModelProto, tuned: tuple[int, int, int]) -> None:
    """As before, with plans that took any candidate of each layer."""
    default = tune(model, shapes=shapes_of(model, tuned), threads=2, time_limit=0)
    concrete = specialise(default.graph, default.provenance.shapes)
    rng = np.random.default_rng(5)
    for _ in range(12):
        choices = {}
        for layer in concrete.layers:
            problem = problem_of(layer, concrete, 2)
            assert problem is not None
            found = candidates(problem, host())
            choices[layer.name] = choice_of(found[rng.integers(len(found))])
        plan = replace(default, choices=choices)
        compiled = kernels_for_all(plan)
        for sizes in SIZES:
            assert kernels_at(plan, shapes_of(model, sizes)) <= compiled, sizes


@pytest.mark.parametrize("model", SKETCHES.values(), ids=SKETCHES)
def test_other_shapes_run_without_compiling(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_compiling(model, shapes_of(model, TUNED["middling"]), [shapes_of(model, s) for s in SIZES], monkeypatch)


REAL: dict[str, Sequence[Shapes]] = {
    "ppocr-det": [{"x": (1, 3, h, w)} for h, w in ((320, 320), (96, 64), (32, 32), (64, 480))],
    "ppocr-rec": [{"x": (n, 3, 48, w)} for n, w in ((1, 320), (2, 160), (1, 97), (3, 8))],
    "minilm-l3": [{"input_ids": (n, t), "attention_mask": (n, t)} for n, t in ((1, 128), (2, 16), (1, 7), (5, 1), (1, 300))],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_models_run_without_compiling(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned, *others = REAL[name]
    check_without_compiling(onnx.load(model_path(name)), tuned, others, monkeypatch)
