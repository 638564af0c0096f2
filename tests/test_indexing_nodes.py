"""ONNX's node tests of selecting, scattering and sampling operators, through a session on their native routines."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance_cases import assert_same, node_cases

from softneuro.importer.model import import_model
from softneuro.plan.plan import Plan, Provenance
from softneuro.runtime import Session

PARAMETERS: dict[str, tuple[int, ...]] = {
    "TopK": (1,),
    "ArgMax": (),
    "ArgMin": (),
    "CumSum": (1,),
    "GatherElements": (),
    "GridSample": (),
    "NonMaxSuppression": (2, 3, 4),
    "GatherND": (),
    "OneHot": (1, 2),
    "RoiAlign": (),
    "Scatter": (),
    "ScatterElements": (),
    "ScatterND": (),
    "Trilu": (1,),
}
"""Operators whose node tests run here, and their inputs that models have as constants."""

ON_THE_HOST = {
    "test_onehot_with_axis",
    "test_onehot_with_negative_axis",
    "test_gridsample_volumetric_bilinear_align_corners_0",
    "test_gridsample_volumetric_bilinear_align_corners_1",
    "test_gridsample_volumetric_nearest_align_corners_0",
    "test_gridsample_volumetric_nearest_align_corners_1",
}
"""Node tests with a layer that no native routine takes: indices that are floats, and volumes."""


def only_operator(model: onnx.ModelProto) -> str:
    return str(model.graph.node[0].op_type) if len(model.graph.node) == 1 else ""


CASES = {name: case for name, case in node_cases().items() if only_operator(case.model) in PARAMETERS}


def with_constants(model: onnx.ModelProto, feeds: dict[str, Any]) -> onnx.ModelProto:
    """The model with its parameter inputs as constants, which are taken out of the feeds."""
    (node,) = model.graph.node
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for position in PARAMETERS[node.op_type]:
        if position < len(node.input) and node.input[position]:
            name = node.input[position]
            result.graph.initializer.append(onnx.numpy_helper.from_array(feeds.pop(name), name))
    kept = [info for info in result.graph.input if info.name in feeds]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    return result


@pytest.mark.parametrize("name", CASES)
def test_node(name: str) -> None:
    case = CASES[name]
    for data in case.data_sets:
        feeds = {key: np.asarray(value) for key, value in data.feeds.items()}
        model = with_constants(case.model, feeds)
        shapes = {key: array.shape for key, array in feeds.items()}
        session = Session(Plan(import_model(model), {}, Provenance(threads=2, shapes=shapes)), 2)
        found = session.run(feeds)
        for output, want in zip(case.output_names, data.outputs, strict=True):
            assert_same(found[output], want, case.rtol, case.atol)
        placed = session.linked(shapes).program.placed
        hosted = {step.choice.routine for step in placed if step.choice.routine.endswith(".reference")} - {"trim.reference"}
        assert bool(hosted) == (name in ON_THE_HOST), hosted
