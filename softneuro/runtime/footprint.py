"""How much memory one inference takes, against the limits in force, before it is given out."""

from __future__ import annotations

from softneuro.graph import Graph
from softneuro.limits import in_force
from softneuro.plan.program import BufferKind
from softneuro.runtime.link import Linked

__all__ = ["check_footprint", "check_graph"]


def check_graph(graph: Graph) -> None:
    """Raise ResourceLimitError when the constants of a specialised graph, or the tensors around one of its layers, need
    more memory than is allowed: what can be told before anything is packed."""
    limits = in_force()
    limits.check("weight_bytes", sum(a.nbytes for a in graph.constants.values()), "the constants need")
    for layer in graph.layers:
        names = {name for name in (*layer.inputs, *layer.outputs) if name in graph.types}
        needed = sum(graph.types[name].nbytes for name in names)
        limits.check("memory", needed, f"layer {layer.name!r} ({layer.op.name}): its inputs and outputs need")


def check_footprint(linked: Linked) -> None:
    """Raise ResourceLimitError when a program's constants, inputs, outputs and arena together need more memory than is
    allowed."""
    program = linked.program
    fixed = sum(array.nbytes for array in program.host_constants.values())
    fixed += sum(buffer.nbytes for buffer in program.buffers if buffer.kind is not BufferKind.ARENA)
    in_force().check("memory", fixed + linked.arena_bytes, "one inference needs")
