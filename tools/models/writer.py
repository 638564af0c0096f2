"""Writes a net node by node, with the names and attributes PyTorch's ONNX exporter gives them."""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.models.weights import AFTER_RELU, Array, he_normal, scales, small, variances

OPSET, IR_VERSION = 17, 8
IMAGE = "input"


class NetWriter:
    """Collects nodes and initialisers; every method appends one layer and returns the name of its output.

    `scope` is the module path in PyTorch (`layer1.0.conv1`); parameters are named after it.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: list[TensorProto] = []
        self._seen: Counter[str] = Counter()

    def node(self, op: str, inputs: Sequence[str], scope: str = "", **attributes: Any) -> str:
        path = "/".join(["", *filter(None, scope.split(".")), op])
        name = f"{path}_{self._seen[path]}" if self._seen[path] else path
        self._seen[path] += 1
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_output_0"], name, **attributes))
        return f"{name}_output_0"

    def initialiser(self, name: str, values: Array) -> str:
        self.initialisers.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, scope: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1,
             groups: int = 1, bias: bool = False, gain: float = AFTER_RELU) -> str:
        """A square convolution, (channels in, channels out), padded by (kernel - 1) / 2."""
        shape = (channels[1], channels[0] // groups, kernel, kernel)
        weights = he_normal(self.rng, shape, shape[1] * kernel * kernel, gain)
        inputs = [x, self.initialiser(f"{scope}.weight", weights)]
        if bias:
            inputs.append(self.initialiser(f"{scope}.bias", small(self.rng, (channels[1],))))
        return self.node("Conv", inputs, scope, dilations=[1, 1], group=groups, kernel_shape=[kernel, kernel],
                         pads=[(kernel - 1) // 2] * 4, strides=[stride, stride])

    def batch_norm(self, x: str, scope: str, channels: int, amplitude: float = 1.0,
                   epsilon: float = 1e-5, momentum: float = 0.9) -> str:
        shape = (channels,)
        inputs = [x, self.initialiser(f"{scope}.weight", scales(self.rng, shape, amplitude)),
                  self.initialiser(f"{scope}.bias", small(self.rng, shape)),
                  self.initialiser(f"{scope}.running_mean", small(self.rng, shape)),
                  self.initialiser(f"{scope}.running_var", variances(self.rng, shape))]
        return self.node("BatchNormalization", inputs, scope, epsilon=epsilon, momentum=momentum)

    def max_pool(self, x: str, scope: str, kernel: int, stride: int, pad: int = 0) -> str:
        return self.node("MaxPool", [x], scope, ceil_mode=0, kernel_shape=[kernel, kernel], pads=[pad] * 4,
                         strides=[stride, stride])

    def linear(self, x: str, scope: str, features: tuple[int, int], gain: float = AFTER_RELU) -> str:
        """A fully connected layer, (features in, features out), as a Gemm with transposed weights."""
        weights = he_normal(self.rng, (features[1], features[0]), features[0], gain)
        inputs = [x, self.initialiser(f"{scope}.weight", weights),
                  self.initialiser(f"{scope}.bias", small(self.rng, (features[1],)))]
        return self.node("Gemm", inputs, scope, alpha=1.0, beta=1.0, transB=1)

    def pooled_features(self, x: str, scope: str = "avgpool") -> str:
        """[n, c, h, w] to [n, c]: the mean of every channel."""
        return self.node("Flatten", [self.node("GlobalAveragePool", [x], scope)], axis=1)

    def classifier_model(self, name: str, logits: str, batch: int | str) -> onnx.ModelProto:
        """The finished model: `input` [batch, 3, 224, 224] to `output` [batch, 1000]."""
        last = next(node for node in self.nodes if logits in node.output)
        last.output[0] = "output"
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info(IMAGE, TensorProto.FLOAT, [batch, 3, 224, 224])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, 1000])],
            self.initialisers)
        return helper.make_model(graph, producer_name="softneuro make_models", ir_version=IR_VERSION,
                                 opset_imports=[helper.make_opsetid("", OPSET)])
