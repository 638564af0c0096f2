"""Batch norms become pointwise programs, and affine programs in a row become one.

    x ── BatchNorm ── mul(x0,s) ── add(x0,t)     →     x ── mul(x0,s');add(t0,t')
"""

from __future__ import annotations

from softneuro.graph import Graph, Layer
from softneuro.ops.norm import BatchNorm
from softneuro.passes.affine import Affine, affine_form, affine_layer
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import DType

__all__ = ["affine_chain"]


def affine_chain(graph: Graph) -> Graph:
    """What no neighbour's weights could take (see affine_into_producer) is left as a multiplication and an addition."""
    return sweep(graph, _join)


def _join(draft: Draft, layer: Layer) -> Outcome:
    form = affine_form(draft, layer)
    if form is None:
        return "its statistics are not constants" if isinstance(layer.op, BatchNorm) else False
    maker = draft.fusible(form.source)
    inner = affine_form(draft, maker) if maker else None
    joined = form if inner is None else form.after(inner)
    if inner is not None and _grows(joined, form, inner):
        joined, inner = form, None
    if inner is None and not isinstance(layer.op, BatchNorm):
        return False
    dtype = draft.dtype(joined.source)
    draft.replace(layer, affine_layer(draft, layer, joined, dtype or DType.F32))
    return True


def _grows(joined: Affine, *parts: Affine) -> bool:
    """Whether joining made constants that are larger than those of any part."""
    largest = max(max(part.scale.size, part.shift.size) for part in parts)
    return max(joined.scale.size, joined.shift.size) > largest
