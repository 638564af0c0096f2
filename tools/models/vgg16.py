"""VGG16 (Simonyan and Zisserman 2014), as torchvision's `vgg16` is exported."""
from __future__ import annotations

import onnx

from tools.models.weights import AFTER_LINEAR, AFTER_RELU
from tools.models.writer import IMAGE, NetWriter

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(batch: int | str) -> onnx.ModelProto:
    net = NetWriter(seed=16)
    x, channels, index = IMAGE, 3, 0
    for stage in STAGES:
        for width in stage:
            gain = AFTER_LINEAR if x == IMAGE else AFTER_RELU
            x = net.conv(x, f"features.{index}", (channels, width), kernel=3, bias=True, gain=gain)
            x = net.node("Relu", [x], f"features.{index + 1}")
            channels, index = width, index + 2
        x = net.max_pool(x, f"features.{index}", kernel=2, stride=2)
        index += 1
    # The exporter writes AdaptiveAvgPool2d(7) on a 7x7 map as an average over 1x1 windows.
    x = net.node("AveragePool", [x], "avgpool", kernel_shape=[1, 1], strides=[1, 1])
    x = net.node("Flatten", [x], axis=1)
    x = net.node("Relu", [net.linear(x, "classifier.0", (512 * 7 * 7, 4096))], "classifier.1")
    x = net.node("Relu", [net.linear(x, "classifier.3", (4096, 4096))], "classifier.4")
    return net.classifier_model("vgg16", net.linear(x, "classifier.6", (4096, 1000)), batch)
