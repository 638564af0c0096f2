"""Movement, Resize, shape operators, and what only the reference runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.importer_cases import Case, F, check, ints, x
from tests.onnx_build import normal

CASES: dict[str, Case] = {
    # movement
    "transpose": Case("Transpose", x(2, 3, 4), ("transpose",), attributes={"perm": [2, 0, 1]}),
    "transpose_reverses": Case("Transpose", x(2, 3, 4), ("transpose",)),
    "concat": Case("Concat", {"a": normal(2, 3), "b": normal(2, 1)}, ("concat",), attributes={"axis": -1}),
    "split_attribute": Case("Split", x(6, 2), ("split",), 11, outputs=2, attributes={"split": [2, 4]}),
    "split_constant": Case("Split", x(2, 6), ("split",), outputs=2, constants={"n": ints(1, 5)}, attributes={"axis": 1}),
    "split_even": Case("Split", x(6, 2), ("split",), 13, outputs=3),
    "split_uneven": Case("Split", x(7, 2), ("split",), outputs=3, attributes={"num_outputs": 3}),
    "slice_attributes": Case("Slice", x(5, 6), ("slice",), 9, attributes={"starts": [1, -4], "ends": [4, 100], "axes": [0, 1]}),
    "slice_attributes_no_axes": Case("Slice", x(5, 6), ("slice",), 9, attributes={"starts": [1], "ends": [4]}),
    "slice_negative_step": Case(
        "Slice", x(5, 6), ("slice",), constants={"s": ints(-1), "e": ints(-100), "a": ints(1), "t": ints(-2)}
    ),
    "slice_steps_without_axes": Case(
        "Slice",
        x(5, 6),
        ("slice",),
        constants={"s": ints(0, 1), "e": ints(5, 6), "t": ints(2, 3)},
        order=("x", "s", "e", "", "t"),
    ),
    "pad_attributes": Case("Pad", x(2, 3), ("pad",), 9, attributes={"pads": [0, 1, 2, 1], "value": 1.5}),
    "pad_constant": Case("Pad", x(2, 3), ("pad",), constants={"p": ints(0, 1, 2, 1), "v": np.array(2, F)}),
    "pad_axes": Case("Pad", x(2, 3), ("pad",), constants={"p": ints(1, 2), "a": ints(-1)}, order=("x", "p", "", "a")),
    "pad_reflect": Case("Pad", x(4, 5), ("pad",), constants={"p": ints(1, 2, 2, 1)}, attributes={"mode": "reflect"}),
    "pad_computed": Case("Pad", {**x(2, 3), "p": ints(0, 1, 2, 1)}, ("pad",)),
    "expand": Case("Expand", x(3, 1), ("expand",), constants={"s": ints(2, 1, 4)}),
    "tile": Case("Tile", x(2, 3), ("tile",), constants={"r": ints(2, 1)}),
    "gather_negative": Case("Gather", x(5, 3), ("gather",), constants={"i": np.array([[0, -1], [2, 1]])}),
    "depth_to_space_crd": Case("DepthToSpace", x(1, 8, 2, 3), ("depth_to_space",), attributes={"blocksize": 2, "mode": "CRD"}),
    "space_to_depth": Case("SpaceToDepth", x(1, 2, 4, 6), ("space_to_depth",), attributes={"blocksize": 2}),
    # resize
    "resize_scales": Case(
        "Resize", x(1, 2, 3, 4), ("resize",), constants={"s": np.array([1, 1, 2, 1.5], F)}, order=("x", "", "s")
    ),
    "resize_sizes_linear": Case(
        "Resize",
        x(1, 2, 3, 4),
        ("resize",),
        constants={"n": ints(1, 2, 5, 7)},
        order=("x", "", "", "n"),
        attributes={"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "resize_cubic": Case(
        "Resize",
        x(1, 1, 4, 4),
        ("resize",),
        constants={"s": np.array([1, 1, 2, 2], F)},
        order=("x", "", "s"),
        attributes={"mode": "cubic"},
    ),
    "resize_opset_10_down": Case("Resize", x(1, 1, 6, 8), ("resize",), 10, constants={"s": np.array([1, 1, 0.5, 0.75], F)}),
    "resize_opset_10_up": Case("Resize", x(1, 1, 3, 4), ("resize",), 10, constants={"s": np.array([1, 1, 2, 1.6], F)}),
    "resize_opset_11_empty_roi": Case(
        "Resize",
        x(1, 1, 3, 4),
        ("resize",),
        11,
        order=("x", "r", "s"),
        constants={"r": np.zeros(0, F), "s": np.array([1, 1, 2, 2], F)},
    ),
    "upsample_opset_7": Case("Upsample", x(1, 1, 3, 4), ("resize",), 7, attributes={"scales": [1.0, 1.0, 2.0, 3.0]}),
    "upsample_opset_9_linear": Case(
        "Upsample",
        x(1, 1, 3, 4),
        ("resize",),
        9,
        constants={"s": np.array([1, 1, 2, 2], F)},
        attributes={"mode": "linear"},
    ),
    # shapes
    "reshape_zero_and_rest": Case("Reshape", x(2, 3, 4), ("reshape",), constants={"s": ints(0, -1)}),
    "reshape_computed": Case("Reshape", {**x(2, 6), "s": ints(3, 4)}, ("reshape",)),
    "flatten_axis_0": Case("Flatten", x(2, 3, 4), ("flatten",), attributes={"axis": 0}),
    "squeeze_attribute": Case("Squeeze", x(1, 3, 1), ("squeeze",), 11, attributes={"axes": [0]}),
    "squeeze_constant": Case("Squeeze", x(1, 3, 1), ("squeeze",), constants={"a": ints(-1)}),
    "squeeze_all": Case("Squeeze", x(1, 3, 1), ("squeeze",)),
    "unsqueeze_attribute": Case("Unsqueeze", x(3), ("unsqueeze",), 11, attributes={"axes": [0, 2]}),
    "unsqueeze_constant": Case("Unsqueeze", x(3), ("unsqueeze",), constants={"a": ints(-1, 0)}),
    "identity": Case("Identity", x(3), ("identity",)),
    "dropout": Case("Dropout", x(3), ("identity",)),
    "dropout_opset_7_ratio": Case("Dropout", x(3), ("identity",), 7, attributes={"ratio": 0.3}),
    "shape": Case("Shape", x(2, 3), ("shape",)),
    "shape_part": Case("Shape", x(2, 3, 4), ("shape",), attributes={"start": -2, "end": 10}),
    "size": Case("Size", x(2, 3), ("size",)),
    "constant_of_shape": Case("ConstantOfShape", {"x": ints(2, 3)}, ("constant_of_shape",)),
    "constant_of_shape_int": Case(
        "ConstantOfShape",
        {"x": ints(2)},
        ("constant_of_shape",),
        attributes={"value": onnx.numpy_helper.from_array(ints(7))},
    ),
    "range_down": Case("Range", {"a": np.array(5), "b": np.array(0), "c": np.array(-2)}, ("range",)),
    "range_float": Case("Range", {"a": np.array(0, F), "b": np.array(1, F), "c": np.array(0.3, F)}, ("range",)),
    "gather_elements_smaller": Case(
        "GatherElements",
        x(3, 4),
        ("gather_elements",),
        constants={"i": np.array([[0, -1], [2, 1]])},
        attributes={"axis": 1},
    ),
    # no class of their own
    "hardmax": Case("Hardmax", x(2, 3), ("onnx_op",)),
    "cum_sum": Case("CumSum", x(2, 3), ("cum_sum",), constants={"a": np.array(1)}),
    "top_k": Case("TopK", x(2, 5), ("top_k",), outputs=2, constants={"k": ints(2)}),
    "ml_scaler": Case(
        "Scaler",
        {"x": np.arange(6).reshape(2, 3)},
        ("pointwise",),
        domain="ai.onnx.ml",
        attributes={"offset": [1.0, 2.0, 3.0], "scale": [2.0, 3.0, 4.0]},
    ),
    "ml_label_encoder": Case(
        "LabelEncoder",
        {"x": ints(1, 2)},
        ("onnx_op",),
        domain="ai.onnx.ml",
        domain_version=2,
        attributes={"keys_int64s": [1, 2], "values_floats": [0.5, 1.5], "default_float": 0.0},
    ),
    "non_zero": Case("NonZero", x(2, 3), ("onnx_op",)),
    "scatter_opset_9": Case(
        "Scatter", {"x": normal(4, 3), "i": np.array([[1, 0, 2]]), "u": normal(1, 3)}, ("scatter_elements",), 9
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_ops_and_numbers(case: Case) -> None:
    check(case)
