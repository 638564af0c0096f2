"""A transposition that swaps the last two axes becomes a flag of the matrix product that reads it.

    k ── Transpose(0, 2, 3, 1) ─┐          k ── Transpose(0, 2, 1, 3) ─┐
    q ───────────────────────── MatMul  →  q ────────────────────────── MatMul(transpose_b)

What is left of it moves whole rows, or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["matmul_transpose"]


def matmul_transpose(graph: Graph) -> Graph:
    """Takes the swap when it leaves the innermost axis in place, so that no product reads single elements apart."""
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, MatMul):
        return False
    for position in (0, 1):
        maker = draft.producer(layer.inputs[position])
        if maker is None or not isinstance(maker.op, Transpose) or len(maker.op.perm) < 2:
            continue
        perm = maker.op.perm
        if perm[-2] != len(perm) - 1:
            continue
        swapped = (*perm[:-2], perm[-1], perm[-2])
        source, before = maker.inputs[0], []
        if swapped != tuple(range(len(perm))):
            if not draft.read_once(layer.inputs[position]):
                return f"{layer.inputs[position]!r} is read elsewhere too"
            source = draft.fresh(f"{layer.inputs[position]}.rows")
            before = [Layer(maker.name, Transpose(swapped), maker.inputs, (source,))]
        inputs = tuple(source if i == position else name for i, name in enumerate(layer.inputs))
        op = _flipped(layer.op, position)
        draft.replace(layer, *before, replace(layer, op=op, inputs=inputs))
        return True
    return False


def _flipped(op: MatMul, position: int) -> MatMul:
    """The product with one operand read the other way round."""
    if position == 0:
        return replace(op, transpose_a=not op.transpose_a)
    return replace(op, transpose_b=not op.transpose_b)
