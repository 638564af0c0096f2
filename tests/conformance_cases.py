"""The backend tests that come with onnx: models with inputs, the outputs to expect and tolerances."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

__all__ = ["KINDS", "RANDOM", "UNSUPPORTED", "Case", "DataSet", "assert_same", "assert_same_type", "cases_of", "node_cases"]

KINDS = ("simple", "pytorch-converted", "pytorch-operator")
"""The collections of whole models, beside the node tests."""

RANDOM = {
    "test_bernoulli", "test_bernoulli_double", "test_bernoulli_double_expanded", "test_bernoulli_expanded",
    "test_bernoulli_seed", "test_bernoulli_seed_expanded",
}  # fmt: skip
"""Node tests of random numbers: only types and shapes can be compared. (onnx leaves out the other generators' outputs.)"""

UNSUPPORTED = {
    "test_gradient_of_add": "Gradient is for training: an operator of ai.onnx.preview.training without a definition to run",
    "test_gradient_of_add_and_mul": "likewise",
}
"""Tests that do not pass, and why: the whole list, beside those of `RANDOM`."""

_COARSE = ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2")


@dataclass(frozen=True)
class DataSet:
    """Inputs by name and outputs in the model's order, as onnx keeps them: arrays, numbers, lists, None, messages."""

    feeds: dict[str, Any]
    outputs: tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A model with data. rtol, atol: how far outputs may be from what is expected."""

    name: str
    model: onnx.ModelProto
    data_sets: tuple[DataSet, ...]
    rtol: float
    atol: float

    @property
    def output_names(self) -> list[str]:
        """The model's outputs in order."""
        return [info.name for info in self.model.graph.output]


@functools.cache
def node_cases() -> dict[str, Case]:
    """Node tests by name, sorted."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            Case(case.name, case.model, tuple(_data_set(case.model, *data) for data in case.data_sets), case.rtol, case.atol)
            for case in load_model_tests(kind="node")
        ]
    return {case.name: case for case in sorted(found, key=lambda case: case.name)}


@functools.cache
def cases_of(kind: str) -> dict[str, Case]:
    """The models of one of `KINDS` by name, sorted."""
    from onnx.backend.test.loader import load_model_tests

    found = sorted(load_model_tests(kind=kind), key=lambda case: case.name)
    return {case.name: _read_case(case.name, Path(case.model_dir), case.rtol, case.atol) for case in found}


def _read_case(name: str, folder: Path, rtol: float, atol: float) -> Case:
    model = onnx.load(folder / "model.onnx")
    data_sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        inputs, outputs = ([_read(path, info) for path, info in zip(_numbered(data, what), infos, strict=False)]
                           for what, infos in (("input", _fed(model)), ("output", model.graph.output)))  # fmt: skip
        data_sets.append(_data_set(model, inputs, outputs))
    return Case(name, model, tuple(data_sets), rtol, atol)


def _numbered(folder: Path, what: str) -> list[Path]:
    return sorted(folder.glob(f"{what}_*.pb"), key=lambda path: int(re.findall(r"\d+", path.name)[0]))


def _read(path: Path, info: onnx.ValueInfoProto) -> Any:
    messages = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    return messages[info.type.WhichOneof("value")].FromString(path.read_bytes())


def _fed(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that have no value in the model."""
    constant = {tensor.name for tensor in model.graph.initializer}
    return [info for info in model.graph.input if info.name not in constant]


def _data_set(model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any]) -> DataSet:
    names = [info.name for info in _fed(model)]
    return DataSet({name: value(item) for name, item in zip(names, inputs, strict=False)}, tuple(map(value, outputs)))


def value(proto: Any) -> Any:
    """A test's input or output as what a run takes: an array, a list, or None."""
    if isinstance(proto, onnx.TensorProto):
        return onnx.numpy_helper.to_array(proto)
    if isinstance(proto, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(proto)
    if isinstance(proto, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(proto)
    if isinstance(proto, (list, tuple)):
        return [value(item) for item in proto]
    return proto if proto is None else np.asarray(proto)


def assert_same_type(got: Any, want: Any) -> None:
    """Data type and shape."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)


def assert_same(got: Any, want: Any, rtol: float, atol: float) -> None:
    """Types and shapes exactly, numbers up to the tolerances; those of few bits up to two units in the last place."""
    if want is None:
        assert got is None
    elif isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other, rtol, atol)
    elif want.dtype.kind in "OUS":
        assert np.asarray(got).shape == want.shape
        assert np.asarray(got).astype(str).tolist() == want.astype(str).tolist()
    else:
        assert_same_type(got, want)
        if want.dtype.name.startswith(_COARSE):
            got, want, rtol = got.astype(np.float32), want.astype(np.float32), max(rtol, 2**-6)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=max(atol, 1e-7))
