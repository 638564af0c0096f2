"""Specialised graphs made ready to run, with weights that all programs of a session share."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from softneuro.codegen.target import Target
from softneuro.graph import Graph
from softneuro.limits import ResourceLimits, enforced
from softneuro.plan.lower import lower
from softneuro.plan.plan import Choice
from softneuro.runtime.footprint import check_footprint, check_graph
from softneuro.runtime.forks import new_lock
from softneuro.runtime.link import Linked, link
from softneuro.runtime.weights import SharedWeights
from softneuro.stages import staged

__all__ = ["Programs"]


class Programs:
    """Makes programs; may be used by several threads at once.

    graph: the plan's, whose constants last. choices: by layer; layers without one, such as those of branches and loops, have
    their default routine.
    """

    def __init__(self, graph: Graph, choices: Mapping[str, Choice], target: Target, threads: int, limits: ResourceLimits) -> None:
        self._choices = choices
        self._target, self._threads, self._limits = target, threads, limits
        self._weights = SharedWeights(graph, target)
        self._made: list[weakref.ref[Linked]] = []
        self._lock = new_lock()

    def linked(self, graph: Graph) -> Linked:
        """The program of a specialised graph, in which what comes after sizes that only a run tells is one step.

        Packed weights that no program reads any more are forgotten.
        Raises ResourceLimitError when it needs more memory than is allowed.
        """
        with self._lock, enforced(self._limits):
            check_graph(graph)
            made = link(lower(staged(graph), self._choices, self._target, self._threads, self._weights), self._target)
            check_footprint(made)
            alive = [known for reference in self._made if (known := reference()) is not None]
            self._made = [weakref.ref(program) for program in (*alive, made)]
            self._weights.keep(packing for program in (*alive, made) for packing in program.program.packings)
            return made
