"""Plans of mixed data types, from calibration data to the file: within the budget, always; never without calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnx_build import model, normal

import softneuro
from softneuro.calibration.table import CalibrationTable
from softneuro.errors import InputError
from softneuro.quantisation import Quantisation
from softneuro.routines.routine import Signature
from softneuro.tuning.budget import relative_error
from softneuro.types import Array, DType


def small_net(seed: int) -> ModelProto:
    """A first layer, a residual block with a depthwise convolution, pooling and a classifier, with random numbers in all."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([8, 24, 40]))
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"]),
        helper.make_node("HardSwish" if seed % 2 else "Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=2 * channels),
        helper.make_node("Conv", ["c2", "w3"], ["c3"]),
        helper.make_node("Add", ["c3", "r0"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], transB=1),
    ]
    shapes = {"w0": (channels, 3, 3, 3), "b0": (channels,), "w1": (2 * channels, channels, 1, 1), "w2": (2 * channels, 1, 3, 3),
              "w3": (channels, 2 * channels, 1, 1), "w4": (10, channels), "b4": (10,)}  # fmt: skip
    constants = {
        name: normal(*shape, seed=seed + i) / np.sqrt(np.prod(shape[1:])).astype(np.float32)
        for i, (name, shape) in enumerate(shapes.items())
    }
    return model(nodes, {"x": normal(1, 3, 20, 20)}, ["y"], constants=constants, opset=17)


def samples(count: int, seed: int = 0) -> list[Mapping[str, Array]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((1, 3, 20, 20)).astype(np.float32)} for _ in range(count)]


def run(plan: softneuro.Plan, feeds: list[Mapping[str, Array]]) -> list[Mapping[str, Array]]:
    session = softneuro.Session(plan, 1)
    return [session.run(each) for each in feeds]


def tuned(of: ModelProto, **arguments: Any) -> softneuro.Plan:
    return softneuro.tune(of.SerializeToString(), threads=1, effort=1, **arguments)


@pytest.mark.parametrize("seed", range(4))
def test_the_plan_holds_its_budget_and_survives_its_file(seed: int, tmp_path: Path) -> None:
    net, feeds = small_net(seed), samples(6, seed)
    exact = run(softneuro.tune(net.SerializeToString(), threads=1, time_limit=0), feeds)
    for limit in (0.0, 0.004, 0.02, 1.0):
        plan = tuned(net, dtypes=("f32", "bf16", "qint8"), calibration=feeds, max_error=limit, profile=tmp_path / "times")
        plan.save(tmp_path / "mixed.plan")
        loaded = softneuro.Plan.load(tmp_path / "mixed.plan")
        loss = relative_error(run(loaded, feeds), exact)
        assert loss <= limit + 1e-5
        made = loaded.provenance
        assert made.frontier[0].loss <= 1e-5 and made.frontier == plan.provenance.frontier
        assert loaded.graph.quantisations == plan.graph.quantisations and "x" in loaded.graph.quantisations
        if made.kept == "mixed":
            assert made.loss == pytest.approx(loss, abs=1e-5) and "relative error" in made.budget


def test_with_any_loss_allowed_everything_may_be_bytes(tmp_path: Path) -> None:
    net, feeds = small_net(1), samples(6)
    for name in ("qint8", "bf16"):
        plan = tuned(net, dtypes=("f32", name), calibration=feeds, max_error=10.0, routines=[f"{name}@*"])
        kept = {f.dtype for c in plan.choices.values() for f in (*c.signature.inputs, *c.signature.outputs) if f is not None}
        assert DType(name) in kept
        exact = run(softneuro.tune(net.SerializeToString(), threads=1, time_limit=0), feeds)
        assert 1e-4 < relative_error(run(plan, feeds), exact) < 0.1


def test_bytes_need_calibration_and_others_do_not() -> None:
    net = small_net(0)
    with pytest.raises(InputError, match="found qint8 without calibration data"):
        tuned(net, dtypes=("f32", "qint8"))
    plan = tuned(net, dtypes=("f32", "bf16"), max_error=0.02)
    assert plan.provenance.frontier and not plan.graph.quantisations


def test_a_saved_table_takes_the_place_of_the_ranges(tmp_path: Path) -> None:
    net, feeds = small_net(2), samples(4)
    table = softneuro.calibrate(net.SerializeToString(), feeds, threads=1)
    table.save(tmp_path / "table.json")
    plan = tuned(net, dtypes=("f32", "qint8"), calibration=feeds[:1], calibration_table=tmp_path / "table.json")
    assert plan.graph.quantisations == CalibrationTable.load(tmp_path / "table.json").quantisations(plan.graph)


@pytest.mark.parametrize(("data", "message"), [
    ([{"x": np.full((1, 3, 20, 20), np.nan, np.float32)}], "NaN"),
    ([{"z": np.zeros((1, 3, 20, 20), np.float32)}], "'z'"),
    ([{"x": np.zeros((1, 3, 21, 20), np.float32)}], "shape"),
    ([], "no sample"),
])  # fmt: skip
def test_data_that_does_not_fit(data: list[Mapping[str, Array]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tuned(small_net(0), dtypes=("f32", "qint8"), calibration=data)


def test_one_constant_picture() -> None:
    net = small_net(3)
    feeds = [{"x": np.full((1, 3, 20, 20), 0.5, np.float32)}]
    plan = tuned(net, dtypes=("f32", "qint8"), calibration=feeds, max_error=0.05)
    exact = run(softneuro.tune(net.SerializeToString(), threads=1, time_limit=0), feeds)
    assert relative_error(run(plan, feeds), exact) <= 0.05


def test_a_constant_may_be_kept_in_bytes() -> None:
    """No calibration gives constants a quantisation, but a plan's file may: it used to end in an assertion."""
    nodes = [helper.make_node("Concat", ["x", "k"], ["y"], axis=1)]
    given, constant = normal(1, 4, 3, 3), normal(1, 4, 3, 3, seed=1)
    plan = softneuro.tune(model(nodes, {"x": given}, ["y"], constants={"k": constant}).SerializeToString(), threads=1, effort=0)
    name = plan.graph.layers[0].name
    shared = Quantisation.of_range(-4, 4)
    choice = replace(plan.choices[name], signature=Signature.parse("qint8:chf,qint8:chf>qint8:chf"))
    graph = replace(plan.graph, quantisations=dict.fromkeys((*plan.graph.layers[0].inputs, "y"), shared))
    found = softneuro.Session(replace(plan, graph=graph, choices={name: choice})).run({"x": given})["y"]
    assert np.array_equal(found, shared.dequantised(shared.quantised(np.concatenate([given, constant], axis=1))))
