"""Layers that compute x * scale + shift with known scale and shift, and such layers written as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from softneuro.graph import Layer
from softneuro.ops.norm import BatchNorm
from softneuro.ops.pointwise import Instruction, Pointwise, Ref, parse_program
from softneuro.passes.rewrite import Draft
from softneuro.types import Array, DType

__all__ = ["Affine", "affine_form", "affine_layer", "along_axis"]


@dataclass(frozen=True)
class Affine:
    """``source * scale + shift`` in float64; the two broadcast against the source, whose shape is the result's."""

    source: str
    scale: Array
    shift: Array

    @property
    def is_shift(self) -> bool:
        """Whether the scale is 1 everywhere."""
        return bool((self.scale == 1).all())

    def after(self, inner: Affine) -> Affine:
        """This applied to the result of ``inner``, as one."""
        return Affine(inner.source, inner.scale * self.scale, inner.shift * self.scale + self.shift)


def affine_form(draft: Draft, layer: Layer) -> Affine | None:
    """What the layer computes, when it is a batch norm or pointwise program that is affine in one float tensor.

    None as well when a constant broadcasts the source to more axes, or when a value is not finite. A constant
    that broadcasts the source along an axis of size 1 is for the caller to rule out, who knows the axis.
    """
    if isinstance(layer.op, BatchNorm):
        found = _batch_norm(draft, layer, layer.op.epsilon)
    elif isinstance(layer.op, Pointwise):
        found = _pointwise(draft, layer, parse_program(layer.op.program))
    else:
        return None
    if found is None or not (np.isfinite(found.scale).all() and np.isfinite(found.shift).all()):
        return None
    rank = draft.rank(found.source)
    broadens = max(found.scale.ndim, found.shift.ndim) > (0 if rank is None else rank)
    return None if broadens else found


def _batch_norm(draft: Draft, layer: Layer, epsilon: float) -> Affine | None:
    x, *names = layer.inputs
    values = [draft.constant(name) for name in names]
    rank = draft.rank(x)
    known = [np.asarray(v, np.float64) for v in values if v is not None]
    if rank is None or rank < 2 or len(known) != 4 or draft.constant(x) is not None:
        return None
    scale, bias, mean, variance = (v.reshape(-1, *(1,) * (rank - 2)) for v in known)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
    return Affine(x, factor, bias - mean * factor)


_Term = tuple[Array | None, Array]  # scale (None where the source does not enter) and shift


def _pointwise(draft: Draft, layer: Layer, program: Sequence[Instruction]) -> Affine | None:
    values = [draft.constant(name) for name in layer.inputs]
    sources = {name for name, value in zip(layer.inputs, values, strict=True) if value is None}
    if len(sources) != 1 or not _all_float(draft, layer.inputs):
        return None
    one, zero = np.ones(()), np.zeros(())
    inputs: list[_Term] = [(one, zero) if v is None else (None, np.asarray(v, np.float64)) for v in values]
    results: list[_Term] = []
    for instruction in program:
        terms = [(None, np.asarray(o, np.float64)) if not isinstance(o, Ref)
                 else inputs[o.index] if o.kind == "x" else results[o.index] for o in instruction.operands]
        with np.errstate(all="ignore"):
            term = _combine(instruction.opcode, terms)
        if term is None:
            return None
        results.append(term)
    scale, shift = results[-1]
    return None if scale is None else Affine(sources.pop(), scale, shift)


def _all_float(draft: Draft, names: Sequence[str]) -> bool:
    return all(draft.is_float(name) for name in names)


def _combine(opcode: str, terms: Sequence[_Term]) -> _Term | None:
    """The affine result of one instruction on affine terms."""
    scale, shift = terms[0]
    if opcode == "neg":
        return (None if scale is None else -scale), -shift
    if len(terms) != 2:
        return None
    other, number = terms[1]
    if opcode in ("add", "sub"):
        sign = 1.0 if opcode == "add" else -1.0
        if other is None:
            return scale, shift + sign * number
        return (0.0 if scale is None else scale) + sign * other, shift + sign * number
    if opcode == "mul" and scale is None:
        scale, shift, other, number = other, number, None, shift
    if other is not None or opcode not in ("mul", "div"):
        return None
    factor = number if opcode == "mul" else 1.0 / number
    return (None if scale is None else scale * factor), shift * factor


def along_axis(values: Array, rank: int, axis: int, size: int) -> Array | None:
    """Values that broadcast against a tensor, as a vector along one of its axes.

    None when they vary along another axis or do not fit ``size``.
    """
    if values.ndim > rank:
        return None
    shape = (1,) * (rank - values.ndim) + values.shape
    if any(d != 1 for i, d in enumerate(shape) if i != axis) or shape[axis] not in (1, size):
        return None
    return np.broadcast_to(values.reshape(-1), (size,))


def affine_layer(draft: Draft, layer: Layer, form: Affine, dtype: DType) -> Layer:
    """A layer named as ``layer`` that computes the form: constants with one element are written as numbers."""
    inputs, instructions, value = [form.source], [], "x0"
    for opcode, operand, neutral in (("mul", form.scale, 1.0), ("add", form.shift, 0.0)):
        if (operand == neutral).all():
            continue
        if operand.size == 1:
            text = repr(float(operand.reshape(())))
        else:
            text = f"x{len(inputs)}"
            inputs.append(draft.add_constant(f"{layer.name}.{opcode}", operand.astype(dtype.numpy)))
        instructions.append(f"{opcode}({value},{text})")
        value = f"t{len(instructions) - 1}"
    program = ";".join(instructions) or "mul(x0,1.0)"
    return Layer(layer.name, Pointwise(program), tuple(inputs), layer.outputs)
