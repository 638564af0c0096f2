"""MobileNetV2 (Sandler et al. 2018), as torchvision's `mobilenet_v2` is exported."""
from __future__ import annotations

import numpy as np
import onnx

from tools.models.weights import AFTER_LINEAR, AFTER_RELU
from tools.models.writer import IMAGE, NetWriter

# (expansion, channels out, blocks, stride of the first block)
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
          (6, 320, 1, 1))
RESIDUAL_AMPLITUDE = 0.5


def mobilenet_v2(batch: int | str) -> onnx.ModelProto:
    net = NetWriter(seed=2)
    net.initialiser("relu6.min", np.array(0.0, np.float32))
    net.initialiser("relu6.max", np.array(6.0, np.float32))
    x = _conv_relu6(net, IMAGE, "features.0", (3, 32), kernel=3, stride=2, gain=AFTER_LINEAR)
    channels, index = 32, 1
    for expansion, width, blocks, first_stride in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _inverted_residual(net, x, f"features.{index}.conv", (channels, width), expansion, stride)
            channels, index = width, index + 1
    x = _conv_relu6(net, x, f"features.{index}", (channels, 1280), gain=AFTER_LINEAR)
    logits = net.linear(net.pooled_features(x, ""), "classifier.1", (1280, 1000))
    return net.classifier_model("mobilenet_v2", logits, batch)


def _inverted_residual(net: NetWriter, x: str, scope: str, channels: tuple[int, int], expansion: int,
                       stride: int) -> str:
    wide, residual = channels[0] * expansion, stride == 1 and channels[0] == channels[1]
    y, index = x, 0
    if expansion != 1:
        y, index = _conv_relu6(net, y, f"{scope}.0", (channels[0], wide), gain=AFTER_LINEAR), 1
    y = _conv_relu6(net, y, f"{scope}.{index}", (wide, wide), kernel=3, stride=stride, groups=wide)
    y = net.conv(y, f"{scope}.{index + 1}", (wide, channels[1]))
    y = net.batch_norm(y, f"{scope}.{index + 2}", channels[1], RESIDUAL_AMPLITUDE if residual else 1.0)
    return net.node("Add", [x, y], scope.removesuffix(".conv")) if residual else y


def _conv_relu6(net: NetWriter, x: str, scope: str, channels: tuple[int, int], kernel: int = 1,
                stride: int = 1, groups: int = 1, gain: float = AFTER_RELU) -> str:
    y = net.conv(x, f"{scope}.0", channels, kernel, stride, groups, gain=gain)
    y = net.batch_norm(y, f"{scope}.1", channels[1])
    return net.node("Clip", [y, "relu6.min", "relu6.max"], f"{scope}.2")
