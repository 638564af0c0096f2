"""What a run is given: converted where nothing is lost, refused with found and needed otherwise."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softneuro.errors import InputError
from softneuro.feeds import random_of_kind
from softneuro.graph import GraphInput
from softneuro.importer.kind import kind_of
from softneuro.runtime.feed import checked, shape_of
from softneuro.types import DType

F32, STR = GraphInput(DType.F32, None), GraphInput(DType.STR, None)
FLOAT8 = GraphInput(DType.OTHER, (2,), "float8_e4m3fn")
SEQUENCE = GraphInput(DType.OTHER, None, "sequence(float32)")
OPTIONAL = GraphInput(DType.OTHER, None, "optional(sequence(float32))")
MAP = GraphInput(DType.OTHER, None, "map(int64,float32)")
UNKNOWN = GraphInput(DType.OTHER, None)
ONES = np.ones(2, np.float32)

TAKEN: dict[str, tuple[GraphInput, Any, Any]] = {
    "array": (F32, ONES, ONES),
    "list_of_numbers": (F32, [1, 1.0], ONES),
    "scalar_keeps_rank_0": (F32, np.float32(2), np.array(2, np.float32)),
    "bfloat16": (GraphInput(DType.BF16, None), ONES.astype(ml_dtypes.bfloat16), ONES.astype(ml_dtypes.bfloat16)),
    "texts": (STR, ["a", "bc"], np.array(["a", "bc"], object)),
    "bytes_are_utf8": (STR, np.array(["é".encode()]), np.array(["é"], object)),
    "no_texts": (STR, np.zeros((0, 2), object), np.zeros((0, 2), object)),
    "float8": (FLOAT8, ONES.astype(ml_dtypes.float8_e4m3fn), ONES.astype(ml_dtypes.float8_e4m3fn)),
    "rows_of_several_lengths": (SEQUENCE, [ONES, np.ones((3, 1), np.float32)], [ONES, np.ones((3, 1), np.float32)]),
    "empty_sequence": (SEQUENCE, (), []),
    "absent": (OPTIONAL, None, None),
    "present": (OPTIONAL, [ONES], [ONES]),
    "map": (MAP, {1: 2.0}, {1: 2.0}),
    "unknown_list": (UNKNOWN, [ONES], [ONES]),
    "unknown_array": (UNKNOWN, ONES, ONES),
}
REFUSED: dict[str, tuple[GraphInput, Any, str]] = {
    "float64": (F32, np.ones(2), "input 'x': found data type float64, needed float32"),
    "texts_for_numbers": (F32, ["a"], "input 'x': found data type <U1, needed float32"),
    "ragged": (F32, [[1], [2, 3]], "input 'x': found a list that makes no array, needed rows of one length"),
    "none": (F32, None, "input 'x': found nothing, needed an array of float32"),
    "a_dict": (F32, {}, "input 'x': found a dict, needed an array of float32"),
    "numbers_for_texts": (STR, ONES, "input 'x': found data type float32, needed texts"),
    "no_float8": (FLOAT8, ONES, "input 'x': found data type float32, needed float8_e4m3fn"),
    "array_for_sequence": (SEQUENCE, ONES, "input 'x': found an array of float32, needed a list: sequence(float32)"),
    "element": (SEQUENCE, [ONES, np.ones(2)], "input 'x'[1]: found data type float64, needed float32"),
    "none_in_sequence": (SEQUENCE, [None], "input 'x'[0]: found nothing, needed an array of float32"),
    "list_for_map": (MAP, [1], "input 'x': found a list, needed a dict: map(int64,float32)"),
}


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if not isinstance(wanted, np.ndarray):
        return bool(found == wanted)
    return (found.dtype, found.shape) == (wanted.dtype, wanted.shape) and found.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    declared, value, wanted = TAKEN[name]
    assert same(checked("x", value, declared), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    declared, value, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        checked("x", value, declared)
    assert str(caught.value) == message


def test_other_order_is_copied() -> None:
    assert checked("x", np.ones((2, 3), np.float32).T, F32).flags.c_contiguous


def test_only_arrays_have_a_shape() -> None:
    assert [shape_of(value) for value in (ONES, [ONES], None, {})] == [(2,), (), (), ()]


KINDS = {
    "float8_e4m3fn": helper.make_tensor_type_proto(TensorProto.FLOAT8E4M3FN, [2]),
    "sequence(string)": helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.STRING, None)),
    "optional(sequence(float32))": helper.make_optional_type_proto(
        helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))),
    "map(int64,float32)": helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_an_onnx_type(kind: str) -> None:
    assert kind_of(KINDS[kind]) == kind


def test_unknown_element_has_no_kind() -> None:
    assert kind_of(helper.make_sequence_type_proto(onnx.TypeProto())) == ""


@pytest.mark.parametrize("kind", [*KINDS, "optional(int4)", "map(string,int64)", "string", "sequence(optional(float8_e5m2))"])
def test_made_up_inputs_are_taken(kind: str) -> None:
    value = random_of_kind(kind, (2,), np.random.default_rng(0), least=1)
    assert checked("x", value, GraphInput(DType.OTHER, None, kind)) is not None
