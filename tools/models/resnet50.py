"""ResNet50 v1.5 (He et al. 2015, stride in the 3x3 convolution), as torchvision's `resnet50` is exported."""
from __future__ import annotations

import onnx

from tools.models.weights import AFTER_LINEAR, AFTER_RELU
from tools.models.writer import IMAGE, NetWriter

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # (width, blocks, stride of the first block)
EXPANSION = 4
BRANCH_AMPLITUDE = 0.5  # scale of the last normalisation of a branch, so that the sums do not grow


def resnet50(batch: int | str) -> onnx.ModelProto:
    net = NetWriter(seed=50)
    x = _normalised(net, IMAGE, "conv1", "bn1", (3, 64), kernel=7, stride=2, gain=AFTER_LINEAR)
    x = net.max_pool(net.node("Relu", [x], "relu"), "maxpool", kernel=3, stride=2, pad=1)
    channels = 64
    for stage, (width, blocks, first_stride) in enumerate(STAGES, start=1):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _bottleneck(net, x, f"layer{stage}.{block}", channels, width, stride)
            channels = width * EXPANSION
    return net.classifier_model("resnet50", net.linear(net.pooled_features(x), "fc", (channels, 1000)), batch)


def _bottleneck(net: NetWriter, x: str, scope: str, channels: int, width: int, stride: int) -> str:
    wide = width * EXPANSION
    y = _normalised(net, x, f"{scope}.conv1", f"{scope}.bn1", (channels, width))
    y = net.node("Relu", [y], f"{scope}.relu")
    y = _normalised(net, y, f"{scope}.conv2", f"{scope}.bn2", (width, width), kernel=3, stride=stride)
    y = net.node("Relu", [y], f"{scope}.relu")
    y = _normalised(net, y, f"{scope}.conv3", f"{scope}.bn3", (width, wide), amplitude=BRANCH_AMPLITUDE)
    if channels != wide:
        shortcut = f"{scope}.downsample"
        x = _normalised(net, x, f"{shortcut}.0", f"{shortcut}.1", (channels, wide), stride=stride)
    return net.node("Relu", [net.node("Add", [y, x], scope)], f"{scope}.relu")


def _normalised(net: NetWriter, x: str, conv: str, norm: str, channels: tuple[int, int], kernel: int = 1,
                stride: int = 1, amplitude: float = 1.0, gain: float = AFTER_RELU) -> str:
    y = net.conv(x, conv, channels, kernel, stride, gain=gain)
    return net.batch_norm(y, norm, channels[1], amplitude)
