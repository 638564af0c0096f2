"""MobileNetV3-Large (Howard et al. 2019), as torchvision's `mobilenet_v3_large` is exported."""
from __future__ import annotations

from typing import NamedTuple

import onnx

from tools.models.weights import AFTER_HARD_SWISH, AFTER_LINEAR, AFTER_RELU, SQUEEZE_EXCITE_GAIN
from tools.models.writer import IMAGE, NetWriter

GAIN = {"Relu": AFTER_RELU, "HardSwish": AFTER_HARD_SWISH}
RESIDUAL_AMPLITUDE = 0.5


class Block(NamedTuple):
    kernel: int
    expanded: int
    out: int
    squeeze: bool
    activation: str
    stride: int


BLOCKS = (
    Block(3, 16, 16, False, "Relu", 1),
    Block(3, 64, 24, False, "Relu", 2),
    Block(3, 72, 24, False, "Relu", 1),
    Block(5, 72, 40, True, "Relu", 2),
    Block(5, 120, 40, True, "Relu", 1),
    Block(5, 120, 40, True, "Relu", 1),
    Block(3, 240, 80, False, "HardSwish", 2),
    Block(3, 200, 80, False, "HardSwish", 1),
    Block(3, 184, 80, False, "HardSwish", 1),
    Block(3, 184, 80, False, "HardSwish", 1),
    Block(3, 480, 112, True, "HardSwish", 1),
    Block(3, 672, 112, True, "HardSwish", 1),
    Block(5, 672, 160, True, "HardSwish", 2),
    Block(5, 960, 160, True, "HardSwish", 1),
    Block(5, 960, 160, True, "HardSwish", 1),
)


def mobilenet_v3_large(batch: int | str) -> onnx.ModelProto:
    net = NetWriter(seed=3)
    x = _conv_norm(net, IMAGE, "features.0", (3, 16), kernel=3, stride=2, gain=AFTER_LINEAR)
    x, channels = net.node("HardSwish", [x], "features.0.2"), 16
    for index, block in enumerate(BLOCKS, start=1):
        gain = AFTER_HARD_SWISH if index == 1 else AFTER_LINEAR
        x = _bottleneck(net, x, f"features.{index}.block", channels, block, gain)
        channels = block.out
    x = _conv_norm(net, x, "features.16", (channels, 960), gain=AFTER_LINEAR)
    x = net.pooled_features(net.node("HardSwish", [x], "features.16.2"))
    x = net.node("HardSwish", [net.linear(x, "classifier.0", (960, 1280), AFTER_HARD_SWISH)], "classifier.1")
    logits = net.linear(x, "classifier.3", (1280, 1000), AFTER_HARD_SWISH)
    return net.classifier_model("mobilenet_v3_large", logits, batch)


def _bottleneck(net: NetWriter, x: str, scope: str, channels: int, block: Block, gain: float) -> str:
    residual = block.stride == 1 and channels == block.out
    y, index = x, 0
    if block.expanded != channels:
        y = _conv_norm(net, y, f"{scope}.0", (channels, block.expanded), gain=gain)
        y, index, gain = net.node(block.activation, [y], f"{scope}.0.2"), 1, GAIN[block.activation]
    y = _conv_norm(net, y, f"{scope}.{index}", (block.expanded, block.expanded), block.kernel, block.stride,
                   groups=block.expanded, gain=gain)
    y, index, gain = net.node(block.activation, [y], f"{scope}.{index}.2"), index + 1, GAIN[block.activation]
    if block.squeeze:
        y = _squeeze_excite(net, y, f"{scope}.{index}", block.expanded)
        index, gain = index + 1, gain * SQUEEZE_EXCITE_GAIN
    y = _conv_norm(net, y, f"{scope}.{index}", (block.expanded, block.out), gain=gain,
                   amplitude=RESIDUAL_AMPLITUDE if residual else 1.0)
    return net.node("Add", [y, x], scope.removesuffix(".block")) if residual else y


def _squeeze_excite(net: NetWriter, x: str, scope: str, channels: int) -> str:
    squeezed = _multiple_of_8(channels / 4)
    y = net.node("GlobalAveragePool", [x], f"{scope}.avgpool")
    y = net.conv(y, f"{scope}.fc1", (channels, squeezed), bias=True)
    y = net.node("Relu", [y], f"{scope}.activation")
    y = net.conv(y, f"{scope}.fc2", (squeezed, channels), bias=True)
    gate = net.node("HardSigmoid", [y], f"{scope}.scale_activation", alpha=1 / 6)
    return net.node("Mul", [gate, x], scope)


def _conv_norm(net: NetWriter, x: str, scope: str, channels: tuple[int, int], kernel: int = 1,
               stride: int = 1, groups: int = 1, gain: float = AFTER_RELU, amplitude: float = 1.0) -> str:
    y = net.conv(x, f"{scope}.0", channels, kernel, stride, groups, gain=gain)
    return net.batch_norm(y, f"{scope}.1", channels[1], amplitude, epsilon=1e-3, momentum=0.99)


def _multiple_of_8(channels: float) -> int:
    """The nearest multiple of 8, at least 8 and not more than a tenth below `channels`."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
