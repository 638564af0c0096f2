"""What the tests of the command line share: small models with plans, an input, and the form of a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import softneuro
from softneuro.cli.main import main

Capture = pytest.CaptureFixture[str]


def write_model(path: Path, *, batch: int | str = 1, seed: int = 0) -> Path:
    """conv, relu, conv, relu, flatten, gemm: ``x`` batch x 3 x 6 x 5 to ``y`` batch x 12."""
    rng = np.random.default_rng(seed)
    weights = {
        "w0": rng.standard_normal((8, 3, 3, 3)), "b0": rng.standard_normal(8),
        "w1": rng.standard_normal((4, 8, 1, 1)), "w2": rng.standard_normal((12, 120)), "b2": rng.standard_normal(12),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Flatten", ["r1"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["y"], transB=1),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 3, 6, 5])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, 12])]
    initializers = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def write_identity(path: Path, shapes: dict[str, list[int | str]], element: int = onnx.TensorProto.FLOAT) -> Path:
    """A model that gives each input ``name`` out as ``name_out``."""
    inputs = [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_out", element, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in shapes]
    graph = helper.make_graph(nodes, "identity", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@dataclass(frozen=True)
class Bench:
    """Models and the plans made of them: free has a free batch, other the same layers with other weights."""

    model: Path
    plan: Path
    free: Path
    free_plan: Path
    other_plan: Path


def make_bench(folder: Path) -> Bench:
    """The models in the folder, each with a plan of default routines beside it."""
    model, free = write_model(folder / "model.onnx"), write_model(folder / "free.onnx", batch="n")
    other = write_model(folder / "other.onnx", seed=1)
    plans = []
    for path in (model, free, other):
        plan = path.with_suffix(".plan")
        softneuro.tune(path, threads=1, time_limit=0).save(plan)
        plans.append(plan)
    return Bench(model, plans[0], free, plans[1], plans[2])


def picture(batch: int = 1) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((batch, 3, 6, 5)).astype(np.float32)


def refused(capsys: Capture, arguments: Sequence[object], message: str, code: int = 3) -> None:
    """The command fails with the code and, after remarks, one line on standard error that holds the message."""
    assert main([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr().err
    line = printed.splitlines()[-1]
    assert line.startswith(f"softneuro {arguments[0]}: ") and message in line
    assert printed.endswith("\n") and "Traceback" not in printed
