"""A scale and shift per output channel moves into the weights and bias of the layer before: bias adds included.

    Conv(w, b) ── BatchNorm               Conv(w·s, b·s + t)
    MatMul(w) ── add(x0,x1)         →     MatMul(w, bias)
    LayerNorm(s) ── mul(x0,x1)            LayerNorm(s·x1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.epilogue import NO_EPILOGUE
from softneuro.ops.matmul import MatMul
from softneuro.ops.norm import LayerNorm
from softneuro.ops.same_padding import SameConv
from softneuro.passes.affine import Affine, affine_form, along_axis
from softneuro.passes.linear import LinearOp
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import Array

__all__ = ["affine_into_producer"]


@dataclass(frozen=True)
class _Channels:
    """Where a layer's output channels are: axis ``axis`` of ``rank``, ``count`` of them, and how weights scale."""

    rank: int
    axis: int
    count: int
    scaled: Callable[[Array, Array], Array]


def affine_into_producer(graph: Graph) -> Graph:
    """Needs constant weights, and a producer without an epilogue whose result nobody else reads.

    Weights are scaled in float64, in a copy: other layers may share them.
    """
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    form = affine_form(draft, layer)
    maker = draft.producer(form.source) if form else None
    if form is None or maker is None or not isinstance(maker.op, (Conv, SameConv, ConvTranspose, MatMul, LayerNorm)):
        return False
    if draft.fusible(form.source) is None:
        return f"{form.source!r} is read elsewhere too"
    if isinstance(maker.op, LayerNorm):
        return _into_layer_norm(draft, layer, maker, maker.op, form)
    return _into_linear(draft, layer, maker, maker.op, form)


def _into_linear(draft: Draft, layer: Layer, maker: Layer, op: LinearOp | SameConv, form: Affine) -> Outcome:
    weights = draft.constant(maker.inputs[1])
    bias = draft.constant(maker.inputs[2]) if op.bias else np.zeros(())
    if weights is None or bias is None:
        return f"weights or bias of {maker.name!r} are computed at run time"
    if not isinstance(op, SameConv) and op.epilogue != NO_EPILOGUE:
        return f"{maker.name!r} has an epilogue already"
    channels = _channels(draft, maker, op, weights)
    if isinstance(channels, str):
        return channels
    scale = along_axis(form.scale, channels.rank, channels.axis, channels.count)
    shift = along_axis(form.shift, channels.rank, channels.axis, channels.count)
    if scale is None or shift is None:
        return "scale or shift is not one number per output channel"
    inputs = list(maker.inputs[:2])
    if not form.is_shift:
        scaled = channels.scaled(weights.astype(np.float64), scale)
        inputs[1] = draft.add_constant(f"{layer.name}.weights", scaled.astype(weights.dtype))
    moved = bias.astype(np.float64) * scale + shift
    has_bias = op.bias or bool(moved.any())
    if has_bias:
        inputs.append(draft.add_constant(f"{layer.name}.bias", moved.astype(weights.dtype)))
    draft.replace(layer, Layer(maker.name, replace(op, bias=has_bias), tuple(inputs), layer.outputs))
    return True


def _channels(draft: Draft, maker: Layer, op: LinearOp | SameConv, weights: Array) -> _Channels | str:
    if isinstance(op, (Conv, SameConv)):
        count = weights.shape[0]
        return _Channels(weights.ndim, 1, count, lambda w, s: w * s.reshape(-1, *(1,) * (w.ndim - 1)))
    if isinstance(op, ConvTranspose):
        groups = op.groups
        return _Channels(weights.ndim, 1, weights.shape[1] * groups, lambda w, s: _scale_transposed(w, s, groups))
    rank = draft.rank(maker.inputs[0])
    if weights.ndim < 2 or rank is None or rank < 2:
        return "operands of the product are not known to be matrices"
    axis = -2 if op.transpose_b else -1
    count = weights.shape[axis]
    return _Channels(max(rank, weights.ndim), max(rank, weights.ndim) - 1, count,
                     lambda w, s: w * (s[:, None] if axis == -2 else s))


def _scale_transposed(weights: Array, scale: Array, groups: int) -> Array:
    """Weights (c, k / groups, *kernel) of a transposed convolution times a scale per output channel."""
    inputs, filters, *kernel = weights.shape
    grouped = weights.reshape(groups, inputs // groups, filters, *kernel)
    factors = scale.reshape(groups, 1, filters, *(1,) * len(kernel))
    return (grouped * factors).reshape(weights.shape)


def _into_layer_norm(draft: Draft, layer: Layer, maker: Layer, op: LayerNorm, form: Affine) -> Outcome:
    scale = draft.constant(maker.inputs[1])
    bias = draft.constant(maker.inputs[2]) if op.bias else np.zeros(())
    rank = draft.rank(form.source)
    if scale is None or bias is None or rank is None:
        return f"scale or bias of {maker.name!r} is computed at run time"
    moved = Affine(form.source, scale * form.scale, bias * form.scale + form.shift)
    normalised = rank - (op.axis % rank)
    if max(moved.scale.ndim, moved.shift.ndim) > normalised:
        return "scale or shift varies over axes that are not normalised"
    inputs = [maker.inputs[0], draft.add_constant(f"{layer.name}.scale", moved.scale.astype(scale.dtype))]
    has_bias = op.bias or bool(moved.shift.any())
    if has_bias:
        inputs.append(draft.add_constant(f"{layer.name}.bias", moved.shift.astype(scale.dtype)))
    draft.replace(layer, Layer(maker.name, replace(op, bias=has_bias), tuple(inputs), layer.outputs))
    return True
