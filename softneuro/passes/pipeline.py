"""The order of all passes, and the one function that runs them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, live_layers
from softneuro.passes.activation import activation_into_epilogue
from softneuro.passes.affine_chain import affine_chain
from softneuro.passes.affine_into_conv import affine_into_conv
from softneuro.passes.affine_into_producer import affine_into_producer
from softneuro.passes.bind_parameters import bind_parameters
from softneuro.passes.bodies import rewrite_bodies
from softneuro.passes.cheaper_instructions import cheaper_instructions
from softneuro.passes.fold_constants import fold_constants
from softneuro.passes.global_pool import reduction_to_global_pool
from softneuro.passes.inline_branch import inline_branch
from softneuro.passes.join_inputs import join_inputs
from softneuro.passes.literals import write_literals
from softneuro.passes.matmul_transpose import matmul_transpose
from softneuro.passes.movement_chain import movement_chain
from softneuro.passes.pad_into_window import pad_into_window
from softneuro.passes.pointwise_chain import pointwise_chain
from softneuro.passes.remove_noops import remove_noops
from softneuro.passes.residual import residual_into_epilogue
from softneuro.passes.rewrite import is_static
from softneuro.passes.share import share_layers
from softneuro.passes.spelled_activations import spelled_activations
from softneuro.passes.spelled_layer_norm import spelled_layer_norm
from softneuro.passes.spelled_softmax import spelled_softmax
from softneuro.passes.widen import widen
from softneuro.specialise import default_shapes, specialise
from softneuro.types import Shape, TensorType

__all__ = ["PIPELINE", "Pass", "optimise"]

Pass = Callable[[Graph], Graph]

_log = logging.getLogger(__name__)


def remove_dead(graph: Graph) -> Graph:
    """Layers that no graph output depends on leave."""
    return graph.with_layers(live_layers(graph))


PIPELINE: tuple[Pass, ...] = (
    remove_dead,
    fold_constants,
    inline_branch,
    fold_constants,  # again, for what the branches hold
    widen,
    bind_parameters,
    write_literals,
    remove_noops,
    movement_chain,
    share_layers,
    join_inputs,  # after the passes above, which make inputs equal
    spelled_activations,  # before affine passes, which would take its additions apart
    spelled_softmax,
    spelled_layer_norm,
    reduction_to_global_pool,  # after spelled_layer_norm, which looks for means
    affine_into_producer,
    affine_chain,
    pad_into_window,
    affine_into_conv,
    remove_noops,
    activation_into_epilogue,
    residual_into_epilogue,
    activation_into_epilogue,  # again, for activations of what just became one layer
    pad_into_window,  # again, for max pools of what is known to be not negative now
    matmul_transpose,
    movement_chain,
    cheaper_instructions,  # after all that look for divisions
    pointwise_chain,
)


def optimise(graph: Graph, hints: Mapping[str, TensorType] | None = None) -> Graph:
    """The graph after all passes: for every input shape it computes what it did before.

    hints: the types at the shapes that the model is tuned for, as `specialise` finds them; they decide where the
    rewritten form depends on which of two operands broadcasts. Types of the result are the hints of the tensors
    that are left, or facts when all inputs have fixed sizes. Raises InputError when the model does not fit its own
    fixed sizes.
    """
    static = is_static(graph)
    if static:
        current = specialise(graph, default_shapes(graph, {}))
    else:
        current = replace(graph, types=_generic_types(graph, hints or {}))
    current = rewrite_bodies(current, optimise)
    for step in PIPELINE:
        before, started = len(current.layers), time.perf_counter()
        current = step(current)
        _log.debug("%s: %d layers, were %d, in %.0f ms", step.__name__, len(current.layers), before,
                   1e3 * (time.perf_counter() - started))
    if static:
        return current
    left = {*current.inputs, *(name for layer in current.layers for name in layer.outputs)}
    return replace(current, types={name: type_ for name, type_ in (hints or {}).items() if name in left})


def _generic_types(graph: Graph, hints: Mapping[str, TensorType]) -> Mapping[str, TensorType]:
    """Types at shapes where no free dimension is 1, so that what broadcasts in some run broadcasts in this one.

    The given hints when the model refuses such shapes.
    """
    known = default_shapes(graph, {name: hints[name].shape for name in graph.inputs if name in hints})
    shapes: dict[str, Shape] = {}
    for name, sizes in known.items():
        declared = graph.inputs[name].shape or (None,) * len(sizes)
        shapes[name] = tuple(
            size if isinstance(dim, int) else max(size, 2) for size, dim in zip(sizes, declared, strict=True)
        )
    try:
        return specialise(graph, shapes).types
    except SoftneuroError:
        return hints
