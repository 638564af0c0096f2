"""A scale and shift per input channel moves into the convolution or matrix product after it.

    x ── mul(x0,s);add(t0,t) ── Conv(w, b)     →     x ── Conv(w·s, b + Σ w·t)

A shift changes what padding means, so it moves into convolutions without pads only.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.ops.conv import Conv
from softneuro.ops.matmul import MatMul
from softneuro.passes.affine import Affine, affine_form, along_axis
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import Array

__all__ = ["affine_into_conv"]


def affine_into_conv(graph: Graph) -> Graph:
    """Needs constant weights, and an affine layer whose result nobody else reads."""
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    op = layer.op
    maker = draft.fusible(layer.inputs[0]) if isinstance(op, (Conv, MatMul)) else None
    form = affine_form(draft, maker) if maker else None
    if form is None or not isinstance(op, (Conv, MatMul)):
        return False
    weights = draft.constant(layer.inputs[1])
    bias = draft.constant(layer.inputs[2]) if op.bias else np.zeros(())
    if weights is None or bias is None:
        return "weights or bias are computed at run time"
    if max(form.scale.size, form.shift.size) > 1 and draft.hint(form.source) != draft.hint(layer.inputs[0]):
        return "scale or shift may broadcast its input"
    parts = _conv_parts(op, weights, form) if isinstance(op, Conv) else _matmul_parts(draft, op, weights, form)
    if isinstance(parts, str):
        return parts
    scaled, shift = parts
    inputs = [form.source, draft.add_constant(f"{layer.name}.weights", scaled.astype(weights.dtype))]
    has_bias = op.bias or bool(shift.any())
    if has_bias:
        inputs.append(draft.add_constant(f"{layer.name}.bias", (bias + shift).astype(weights.dtype)))
    draft.replace(layer, replace(layer, op=replace(op, bias=has_bias), inputs=(*inputs, *layer.inputs[2 + op.bias :])))
    return True


def _conv_parts(op: Conv, weights: Array, form: Affine) -> tuple[Array, Array] | str:
    """The scaled weights, and what the shift adds to the bias."""
    filters, per_group, *kernel = weights.shape
    channels = per_group * op.groups
    scale = along_axis(form.scale, weights.ndim, 1, channels)
    shift = along_axis(form.shift, weights.ndim, 1, channels)
    if scale is None or shift is None:
        return "scale or shift is not one number per input channel"
    if any(op.pads) and shift.any():
        return "a shift before a convolution with pads would shift the padding too"
    grouped = weights.astype(np.float64).reshape(op.groups, filters // op.groups, per_group, math.prod(kernel))
    scaled = grouped * scale.reshape(op.groups, 1, per_group, 1)
    added = (grouped * shift.reshape(op.groups, 1, per_group, 1)).sum(axis=(2, 3))
    return scaled.reshape(weights.shape), added.reshape(filters)


def _matmul_parts(draft: Draft, op: MatMul, weights: Array, form: Affine) -> tuple[Array, Array] | str:
    """The scaled matrix, and what the shift adds to the bias."""
    rank = draft.rank(form.source)
    if weights.ndim != 2 or rank is None or rank < 2 or op.transpose_a:
        return "operands of the product are not known to be a matrix and a constant matrix"
    matrix = weights.astype(np.float64).T if op.transpose_b else weights.astype(np.float64)
    scale = along_axis(form.scale, rank, rank - 1, matrix.shape[0])
    shift = along_axis(form.shift, rank, rank - 1, matrix.shape[0])
    if scale is None or shift is None:
        return "scale or shift is not one number per element of the rows"
    scaled = matrix * scale[:, None]
    return (scaled.T if op.transpose_b else scaled), shift @ matrix
