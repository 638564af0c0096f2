"""Quantised tensors: QuantizeLinear and DequantizeLinear, and the programs that other operators build on.

A quantised tensor x stands for ``(x - zero) * scale``; quantising rounds ``y / scale`` to nearest, ties to even, adds
``zero`` and saturates, all in float32. Scale and zero point are scalars, or one number for each element of an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node, tensor_dtype
from softneuro.ops.pointwise import Pointwise, inline, input_count
from softneuro.ops.view import Unsqueeze
from softneuro.types import Array, DType

__all__ = ["CONVERTERS", "Affine", "affine_of", "dequantised", "pointwise_between", "quantised"]

_INTEGERS = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32)


@dataclass(frozen=True)
class Affine:
    """What a quantised tensor's numbers mean: float32 tensors ``scale`` and ``zero`` ("" for 0), and the layers that
    make them. dtype: the integer type."""

    scale: str
    zero: str
    dtype: DType
    layers: tuple[Layer, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that `dequantising` and `quantising` programs read after the first."""
        return (self.scale, self.zero) if self.zero else (self.scale,)

    def dequantising(self) -> str:
        """The program from an integer tensor to float32."""
        return "cast_f32(x0);sub(t0,x2);mul(t1,x1)" if self.zero else "cast_f32(x0);mul(t0,x1)"

    def quantising(self) -> str:
        """The program from a float32 tensor to integers."""
        limits = np.iinfo(self.dtype.numpy)
        shifted = "div(x0,x1);round(t0);add(t1,x2)" if self.zero else "div(x0,x1);round(t0)"
        last = shifted.count(";")
        return f"{shifted};clip(t{last},{float(limits.min)},{float(limits.max)});cast_{self.dtype}(t{last + 1})"


def affine_of(node: Node, scale: int, zero: int, *, trailing: int = 0, dtype: DType | None = None) -> Affine:
    """The meaning that the inputs at two positions give a tensor. trailing: axes of the tensor after the one that has
    numbers of its own. dtype: the integer type, by default the zero point's, or u8.

    Raises UnsupportedOp for a scale that is no float and for integers of other widths.
    """
    found = dtype or (node.dtype(zero) if node.has(zero) else DType.U8)
    if found not in _INTEGERS:
        raise node.unsupported(f"found quantised elements of {found}, needed {', '.join(_INTEGERS)}")
    scale_layers, scale_name = _parameter(node, scale, "scale", trailing)
    zero_layers, zero_name = _parameter(node, zero, "zero", trailing) if node.has(zero) else ((), "")
    return Affine(scale_name, zero_name, found, (*scale_layers, *zero_layers))


def _parameter(node: Node, position: int, what: str, trailing: int) -> tuple[tuple[Layer, ...], str]:
    """An input as float32 that broadcasts against the tensor; the empty name for zeros."""
    value = node.constant(position)
    if value is not None:
        if what == "zero" and not np.any(value.astype(np.float32)):
            return (), ""
        return (), node.add_constant(what, _spread(value.astype(np.float32), trailing))
    layers, name = [], node.inputs[position]
    if node.dtype(position) is not DType.F32:
        cast = node.tensor(what)
        layers.append(node.layer(Pointwise("cast_f32(x0)"), (name,), (cast,)))
        name = cast
    if trailing and node.rank(position):
        spread = node.tensor(what)
        layers.append(node.layer(Unsqueeze(tuple(range(-trailing, 0))), (name,), (spread,)))
        name = spread
    return tuple(layers), name


def _spread(value: Array, trailing: int) -> Array:
    if value.size == 1:
        return value.reshape(())
    return value.reshape(*value.shape, *(1,) * trailing)


def dequantised(node: Node, tensor: str, affine: Affine, result: str = "") -> tuple[tuple[Layer, ...], str]:
    """The layers from integers to float32, and the tensor that they make: ``result`` or a fresh one."""
    made = result or node.tensor("real")
    layer = node.layer(Pointwise(affine.dequantising()), (tensor, *affine.inputs), (made,))
    return (*affine.layers, layer), made


def quantised(node: Node, tensor: str, affine: Affine, result: str = "") -> tuple[Layer, ...]:
    """The layers from float32 to integers, by default the node's output."""
    made = result or node.outputs[0]
    return (*affine.layers, node.layer(Pointwise(affine.quantising()), (tensor, *affine.inputs), (made,)))


def pointwise_between(node: Node, program: str, operands: Sequence[tuple[str, Affine | None]], result: Affine
                      ) -> tuple[Layer, ...]:
    """A float32 program between quantised tensors as one layer; operands without a meaning are passed on."""
    text, layers = program, list(result.layers)
    inputs: list[str] = []
    for position, (tensor, affine) in reversed(list(enumerate(operands))):
        inputs[:0] = [tensor] if affine is None else [tensor, *affine.inputs]
        if affine is not None:
            text = inline(text, position, affine.dequantising())
            layers += affine.layers
    assert input_count(text) == len(inputs)
    text = inline(result.quantising(), 0, text)
    return (*layers, node.layer(Pointwise(text), (*inputs, *result.inputs)))


# QuantizeLinear and DequantizeLinear ------------------------------------------------------------------------------------


def _trailing(node: Node) -> int | None:
    """Axes after the quantised one; None when that is not known, or when blocks of an axis share a scale."""
    scale = node.rank(1)
    if scale == 0 or node.shape(1) == (1,):
        return 0
    rank = node.rank(0)
    if scale != 1 or rank is None or node.get("block_size", 0):
        return None
    axis = int(node.get("axis", 1))
    if not -rank <= axis < rank:
        raise node.error(f"found axis {axis} for an input of rank {rank}, needed one of its axes")
    return rank - 1 - axis % rank


def _element(node: Node, attribute: str) -> DType | None:
    element = int(node.get(attribute, 0))
    return tensor_dtype(element) if element else None


def _quantize(node: Node) -> tuple[Layer, ...] | None:
    trailing, wanted = _trailing(node), node.dtype(2) if node.has(2) else _element(node, "output_dtype") or DType.U8
    if trailing is None or wanted not in _INTEGERS:
        return None
    affine = affine_of(node, 1, 2, trailing=trailing, dtype=wanted)
    if node.dtype(0) is DType.F32:
        return quantised(node, node.inputs[0], affine)
    program = inline(affine.quantising(), 0, "cast_f32(x0)")
    return (*affine.layers, node.layer(Pointwise(program), (node.inputs[0], *affine.inputs)))


def _dequantize(node: Node) -> tuple[Layer, ...] | None:
    trailing, source, dtype = _trailing(node), node.inputs[0], node.dtype(0)
    if dtype is DType.OTHER and node.scope.tensor_type(source)[0]:
        value = node.constant(0)  # stored weights of 4 bits and the like
        if value is None or trailing is None or value.dtype.name not in ("int4", "uint4", "int2", "uint2"):
            return None
        dtype = DType.I8
        source = node.add_constant("bytes", value.astype(np.int8))
    if trailing is None:
        return None
    affine = affine_of(node, 1, 2, trailing=trailing, dtype=dtype if dtype in _INTEGERS else DType.U8)
    wanted = _element(node, "output_dtype") or node.dtype(1)
    if wanted in (DType.F32, DType.OTHER):
        return dequantised(node, source, affine, node.outputs[0])[0]
    text = inline(f"cast_{wanted}(x0)", 0, affine.dequantising())
    return (*affine.layers, node.layer(Pointwise(text), (source, *affine.inputs)))


CONVERTERS: Converters = {"QuantizeLinear": _quantize, "DequantizeLinear": _dequantize}
