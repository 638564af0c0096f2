"""A mean or maximum over all spatial axes becomes a global pool, which has more routines.

    x ── ReduceMean(2, 3) ── y     →     x ── GlobalPool ── Squeeze(2, 3) ── y
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from softneuro.graph import Graph, Layer
from softneuro.ops.pool import GlobalPool
from softneuro.ops.reduce import Reduce
from softneuro.ops.view import Squeeze
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["reduction_to_global_pool"]

_KINDS: dict[str, Literal["max", "average"]] = {"mean": "average", "max": "max"}


def reduction_to_global_pool(graph: Graph) -> Graph:
    """Of float tensors of rank 3 and more."""
    return sweep(graph, _pool)


def _pool(draft: Draft, layer: Layer) -> Outcome:
    op = layer.op
    if not isinstance(op, Reduce) or op.kind not in _KINDS or any(layer.inputs[1:]):
        return False
    rank = draft.rank(layer.inputs[0])
    if rank is None or not draft.is_float(layer.inputs[0]):
        return "its input is not known to be a float tensor of some rank"
    spatial = tuple(range(2, rank))
    if not spatial or op.reduced(rank) != spatial:
        return False
    if op.keepdims:
        draft.replace(layer, replace(layer, op=GlobalPool(_KINDS[op.kind])))
        return True
    pooled = draft.fresh(f"{layer.outputs[0]}.pooled")
    pool = Layer(layer.name, GlobalPool(_KINDS[op.kind]), layer.inputs, (pooled,))
    draft.replace(layer, pool, Layer(f"{layer.name}.squeeze", Squeeze(spatial), (pooled,), layer.outputs))
    return True
