"""The `onnx` wheel's light models with random weights in the place of their constant ones.

A light model is a well-known net (opset 9, exported from Caffe2) whose weights are ConstantOfShape nodes, all
0.02, so that its output says nothing. Here each becomes an initialiser that fits the node that reads it.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import TensorProto, helper, numpy_helper

from tools.models.weights import AFTER_LINEAR, AFTER_RELU, Array, he_normal, scales, small, variances

FILES = {
    "light-alexnet": "light_bvlc_alexnet.onnx",
    "light-densenet121": "light_densenet121.onnx",
    "light-inception-v1": "light_inception_v1.onnx",
    "light-inception-v2": "light_inception_v2.onnx",
    "light-resnet50": "light_resnet50.onnx",
    "light-shufflenet": "light_shufflenet.onnx",
    "light-squeezenet": "light_squeezenet.onnx",
    "light-vgg19": "light_vgg19.onnx",
    "light-zfnet512": "light_zfnet512.onnx",
}


SUMMED_AMPLITUDE = 0.25  # scale of a batch norm that feeds a residual sum: larger ones amplify rounding more than trained nets do


def reweighted(name: str, batch: int | str) -> onnx.ModelProto:
    """The light model `name` with seeded weights; raises ValueError unless `batch` is 1, as in its file."""
    if batch != 1:
        raise ValueError(f"model {name!r}: batch is {batch}, but the light models are for one image")
    model = onnx.load(Path(onnx.backend.test.__file__).parent / "data" / "light" / FILES[name])
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    readers = {name: node for node in reversed(graph.node) for name in node.input}
    makers = {name: node.op_type for node in graph.node for name in node.output}
    rng = np.random.default_rng(9)
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        tensor, shape = node.output[0], tuple(int(size) for size in shapes[node.input[0]])
        graph.node.remove(node)
        values = _weights(rng, tensor, shape, readers, makers)
        graph.initializer.append(numpy_helper.from_array(values, tensor))
        graph.input.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, shape))
    _drop_unread(graph)
    return model


def _weights(rng: np.random.Generator, tensor: str, shape: tuple[int, ...],
             readers: Mapping[str, onnx.NodeProto], makers: Mapping[str, str]) -> Array:
    """Values that fit the first node that reads `tensor`; `makers` has the op that made each tensor."""
    reader = readers[tensor]
    while reader.op_type in ("Unsqueeze", "Reshape"):
        tensor = reader.output[0]
        reader = readers[tensor]
    match reader.op_type, list(reader.input).index(tensor):
        case ("Conv" | "Gemm"), 1:
            outputs = next(size for size in shape if size > 1)
            linear = makers.get(reader.input[0]) in (None, "BatchNormalization")
            return he_normal(rng, shape, math.prod(shape) // outputs, AFTER_LINEAR if linear else AFTER_RELU)
        case "BatchNormalization", 1:
            summed = readers[reader.output[0]].op_type == "Sum"
            return scales(rng, shape, SUMMED_AMPLITUDE if summed else 1.0)
        case "Mul", _:
            return scales(rng, shape)
        case "BatchNormalization", 4:
            return variances(rng, shape)
        case _:
            return small(rng, shape)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Remove the shape tensors that the ConstantOfShape nodes read, among initialisers and inputs."""
    read = {name for node in graph.node for name in node.input}
    for tensors in (graph.initializer, graph.input):
        for tensor in [tensor for tensor in tensors if tensor.name not in read]:
            tensors.remove(tensor)
