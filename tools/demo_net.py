"""The small CNN that `softneuro demo` tunes: its layers, and its ONNX form made from trained weights."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Weights = Mapping[str, np.ndarray[Any, Any]]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Conv:
    """A convolution without a bias, "same" padding, and the batch normalisation after it."""

    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    groups: int = 1


CONVS: Mapping[str, Conv] = {
    "stem": Conv(1, 16, 3),
    "widen": Conv(16, 32, 3),
    "first.0": Conv(32, 32, 3),
    "first.1": Conv(32, 32, 3),
    "shrink.depthwise": Conv(32, 32, 3, stride=2, groups=32),
    "shrink.pointwise": Conv(32, 64, 1),
    "second": Conv(64, 64, 3),
    "features": Conv(64, 96, 1),
}
CLASSES, FEATURES, SIDE = 10, 96, 28
NORM_PARTS = ("weight", "bias", "running_mean", "running_var")
EPSILON = 1e-5


class Engine(Protocol[Value]):
    """What the network is made of; values are tensors when it is trained and names when it is written down."""

    def conv(self, x: Value, name: str) -> Value: ...
    def relu(self, x: Value) -> Value: ...
    def add(self, x: Value, y: Value) -> Value: ...
    def max_pool(self, x: Value) -> Value: ...
    def classifier(self, x: Value) -> Value: ...


def network(engine: Engine[Value], x: Value) -> Value:
    """Logits of pictures N x 1 x 28 x 28 with values 0 to 1."""
    x = engine.max_pool(engine.relu(engine.conv(x, "stem")))
    x = engine.relu(engine.conv(x, "widen"))
    y = engine.conv(engine.relu(engine.conv(x, "first.0")), "first.1")
    x = engine.relu(engine.add(y, x))
    x = engine.relu(engine.conv(x, "shrink.depthwise"))
    x = engine.relu(engine.conv(x, "shrink.pointwise"))
    x = engine.relu(engine.add(engine.conv(x, "second"), x))
    x = engine.relu(engine.conv(x, "features"))
    return engine.classifier(x)


class OnnxWriter:
    """The engine that writes the network down as ONNX nodes."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []

    def conv(self, x: str, name: str) -> str:
        conv = CONVS[name]
        pads = [conv.kernel // 2] * 4
        x = self._node("Conv", [x, f"{name}.conv.weight"], f"{name}.conv", kernel_shape=[conv.kernel] * 2, pads=pads,
                       strides=[conv.stride] * 2, group=conv.groups)  # fmt: skip
        norm = [f"{name}.norm.{part}" for part in NORM_PARTS]
        return self._node("BatchNormalization", [x, *norm], f"{name}.norm", epsilon=EPSILON)

    def relu(self, x: str) -> str:
        return self._node("Relu", [x], f"{x.removesuffix('.norm')}.relu")

    def add(self, x: str, y: str) -> str:
        return self._node("Add", [x, y], f"{x.removesuffix('.norm')}.add")

    def max_pool(self, x: str) -> str:
        return self._node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])

    def classifier(self, x: str) -> str:
        x = self._node("GlobalAveragePool", [x], "mean")
        x = self._node("Flatten", [x], "flat")
        return self._node("Gemm", [x, "classifier.weight", "classifier.bias"], "logits", transB=1)

    def model(self, doc: str) -> onnx.ModelProto:
        """The checked model, for any number of pictures."""
        inputs = [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["N", 1, SIDE, SIDE])]
        outputs = [helper.make_tensor_value_info(network(self, "pictures"), TensorProto.FLOAT, ["N", CLASSES])]
        read = list(dict.fromkeys(name for node in self._nodes for name in node.input if name in self._weights))
        weights = [numpy_helper.from_array(self._weights[name], name) for name in read]
        graph = helper.make_graph(self._nodes, "fashion_mnist", inputs, outputs, weights)
        model = helper.make_model(graph, doc_string=doc, producer_name="softneuro tools/train_demo.py", ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
        onnx.checker.check_model(model, full_check=True)
        return model

    def _node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output
