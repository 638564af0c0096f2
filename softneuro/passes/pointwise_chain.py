"""Pointwise programs in a row become one program.

    x ── mul(x0,s) ── add(x0,x1) ── tanh(x0)     →     x ── mul(x0,x1);add(t0,x2);tanh(t1)
    z ────────────────┘                                z ───┘
"""

from __future__ import annotations

from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Pointwise, inline, parse_program
from softneuro.passes.join_inputs import joined_inputs
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import DType

__all__ = ["pointwise_chain"]

_MAX_INPUTS = 8
_MAX_INSTRUCTIONS = 32


def pointwise_chain(graph: Graph) -> Graph:
    """A program moves into its only reader when their results have one shape: broadcasting would compute it again.

    All inputs and the result have one data type.
    """
    return sweep(graph, _merge)


def _merge(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise):
        return False
    refusal: Outcome = False
    for position, name in enumerate(layer.inputs):
        maker = draft.fusible(name)
        if maker is None or not isinstance(maker.op, Pointwise):
            continue
        merged = _merged(layer, layer.op.program, position, maker, maker.op.program)
        refusal = _refusal(draft, layer, name, merged)
        if not refusal:
            draft.replace(layer, merged)
            return True
    return refusal


def _merged(outer: Layer, program: str, position: int, inner: Layer, inner_program: str) -> Layer:
    inputs = (*outer.inputs[:position], *inner.inputs, *outer.inputs[position + 1 :])
    text = inline(program, position, inner_program)
    return joined_inputs(Layer(outer.name, Pointwise(text), inputs, outer.outputs), text)


def _refusal(draft: Draft, outer: Layer, inner: str, merged: Layer) -> str:
    assert isinstance(merged.op, Pointwise)
    instructions = len(parse_program(merged.op.program))
    if len(merged.inputs) > _MAX_INPUTS or instructions > _MAX_INSTRUCTIONS:
        return f"with {inner!r} it would have {len(merged.inputs)} inputs and {instructions} instructions"
    result, part = draft.hint(outer.outputs[0]), draft.hint(inner)
    if result is None or part is None or result.shape != part.shape:
        return f"{inner!r} is not known to have the shape of the result"
    dtypes: set[DType | None] = {draft.dtype(name) for name in (*merged.inputs, *merged.outputs)}
    return "" if len(dtypes) == 1 else f"with {inner!r} it would mix data types"
