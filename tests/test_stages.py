"""Graphs with sizes that depend on the data: what comes later runs by kernels too, and gives what the reference gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from onnx_build import normal
from test_specialisation import INT, Sketch

from softneuro import reference
from softneuro.importer.model import import_model
from softneuro.plan.program import HostStep
from softneuro.reference import computed
from softneuro.runtime import Session, bodies
from softneuro.specialise import specialise
from softneuro.stages import Later, staged
from softneuro.tuning.tune import tune
from softneuro.types import Array

Rows = Sequence[dict[str, Array]]


def picked_rows() -> onnx.ModelProto:
    """Rows whose first number is positive, then a small net over them."""
    s = Sketch()
    x = s.add("Relu", s.linear(s.input("n", 6), 6, 6))
    positive = s.add("Greater", s.add("Gather", x, s.constant(np.array(0, np.int64)), axis=1), s.constant(0.0))
    rows = s.add("Squeeze", s.add("NonZero", positive), s.ints(0))
    y = s.add("Tanh", s.linear(s.add("Gather", x, rows, axis=0), 6, 5))
    return s.model(s.add("Softmax", s.linear(y, 5, 4), axis=-1), x)


def computed_sizes() -> onnx.ModelProto:
    """A resize, a reshape and a slice, each by numbers that only the run knows, one after the other."""
    s = Sketch()
    x, size, rows = s.input("n", 3, "h", "w"), s.input(4, dtype=INT), s.input(2, dtype=INT)
    up = s.add("Resize", s.conv(x, 4, 3), "", "", size, mode="linear", coordinate_transformation_mode="half_pixel")
    y = s.conv(up, 5, 4, kernel=3)
    flat = s.add("Reshape", y, s.add("Concat", s.ints(-1), s.add("Gather", rows, s.ints(1)), axis=0))
    end = s.add("Gather", rows, s.ints(0))
    return s.model(s.add("Relu", s.add("Slice", flat, s.ints(0), end, s.ints(1))), y)


def counted_range() -> onnx.ModelProto:
    s = Sketch()
    x, count = s.input("n", 1), s.input(dtype=INT)
    steps = s.add("Cast", s.add("Range", s.constant(np.array(0, np.int64)), count, s.constant(np.array(1, np.int64))),
                  to=onnx.TensorProto.FLOAT)  # fmt: skip
    table = s.add("Sin", s.add("Mul", x, steps))
    return s.model(s.add("ReduceSum", table, s.ints(1), keepdims=0), s.add("Expand", x, s.add("Concat", s.ints(1), s.add(
        "Reshape", count, s.ints(1)), axis=0)))


def twice() -> onnx.ModelProto:
    """What is picked is picked from again."""
    s = Sketch()
    x = s.input("n", dtype=1)
    zero = s.constant(0.0)

    def pick(y: str) -> str:
        return s.add("Compress", y, s.add("Greater", y, zero), axis=0)

    first = pick(s.add("Mul", x, s.constant(2.0)))
    second = pick(s.add("Sub", s.add("Exp", first), s.constant(3.0)))
    return s.model(s.add("Sqrt", second), s.add("Neg", first))


def feeds(*shapes: tuple[int, ...], seed: int = 0) -> dict[str, Array]:
    return {f"x{i}": normal(*shape, seed=seed + i) for i, shape in enumerate(shapes)}


def sized(n: int, h: int, w: int, rows: int, columns: int) -> dict[str, Array]:
    return feeds((1, 3, 4, 5)) | {"x1": np.array([n, 4, h, w]), "x2": np.array([rows, columns])}


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], Rows]] = {
    "picked_rows": (picked_rows, [feeds((n, 6), seed=n) for n in (9, 9, 2, 30)] + [{"x0": np.full((3, 6), -9, np.float32)}]),
    "computed_sizes": (computed_sizes, [sized(1, 8, 6, 3, 16), sized(1, 8, 6, 2, 16), sized(1, 4, 5, 9, 25)]),
    "counted_range": (counted_range, [feeds((2, 1)) | {"x1": np.array(n)} for n in (5, 1, 0, 40)]),
    "twice": (twice, [feeds((n,), seed=n) for n in (40, 41, 3)] + [{"x0": np.full(4, -1, np.float32)}]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("sketch", "cases"), CASES.values(), ids=CASES)
def test_later_layers_give_what_the_reference_gives(sketch: Callable[[], onnx.ModelProto], cases: Rows, threads: int) -> None:
    proto = sketch()
    shapes = {name: array.shape for name, array in cases[0].items()}
    session, graph = Session(tune(proto, shapes=shapes, threads=threads, effort=0)), import_model(proto)
    for each in [*cases, *cases]:
        found, expected = session.run(each), reference.run(graph, each)
        assert found.keys() == expected.keys()
        for name, want in expected.items():
            assert found[name].shape == want.shape and found[name].dtype == want.dtype
            np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("sketch", "cases"), CASES.values(), ids=CASES)
def test_what_the_host_is_left_with(sketch: Callable[[], onnx.ModelProto], cases: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the layers that decide the sizes, and the steps that hold the later ones."""
    names: list[str] = []
    original = bodies.Bodies.compute

    def noted(self: bodies.Bodies, op: object, inputs: object) -> tuple[Array, ...]:
        names.append(op.name)  # type: ignore[attr-defined]
        return original(self, op, inputs)  # type: ignore[arg-type]

    monkeypatch.setattr(bodies.Bodies, "compute", noted)
    proto = sketch()
    session = Session(tune(proto, shapes={name: array.shape for name, array in cases[0].items()}, threads=1, effort=0))
    session.run(cases[0])
    assert "later" in names or session.control_inputs
    assert set(names) <= {"later", "onnx_op", "range"}, names


def test_a_graph_with_known_sizes_stays_as_it_is() -> None:
    s = Sketch()
    graph = specialise(import_model(s.model(s.add("Relu", s.input("n", 6)))), {"x0": (2, 6)})
    assert staged(graph) is graph


def test_later_layers_are_one_step() -> None:
    graph = staged(specialise(import_model(picked_rows()), {"x0": (9, 6)}))
    *_, last = graph.layers
    assert isinstance(last.op, Later) and not any(isinstance(layer.op, Later) for layer in graph.layers[:-1])
    assert set(last.outputs) < set(graph.outputs)
    last.op.body.verify()
    (values,) = computed(last.op, [normal(9, 6) if name in graph.types else np.array([[0, 3]]) for name in last.inputs])
    assert values.shape == (2, 4)


def test_programs_have_no_step_on_the_host_that_need_not_be_there() -> None:
    session = Session(tune(picked_rows(), shapes={"x0": (9, 6)}, threads=1, effort=0))
    steps = session.linked({"x0": (9, 6)}).program.steps
    assert [step.layer.op.name for step in steps if isinstance(step, HostStep)][-1] == "later"
