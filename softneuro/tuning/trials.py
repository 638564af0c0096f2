"""Runs of a model on given samples with one set of choices after another, weights packed once for each routine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from softneuro.codegen.target import Target
from softneuro.graph import Graph
from softneuro.plan.lower import lower
from softneuro.plan.plan import Choice
from softneuro.runtime.context import Context
from softneuro.runtime.inference import attach, gather
from softneuro.runtime.link import link
from softneuro.runtime.team import Team
from softneuro.runtime.weights import SharedWeights
from softneuro.specialise import specialise
from softneuro.stages import staged
from softneuro.types import Array, Shape

__all__ = ["Outputs", "Trials"]

Outputs = Sequence[Mapping[str, Array]]
"""The outputs of a model by name, for each sample."""


class Trials:
    """A model and samples to run it on. samples: input name to array, complete; they may differ in shape."""

    def __init__(self, graph: Graph, samples: Sequence[Mapping[str, Array]], target: Target, threads: int) -> None:
        self._samples, self._target, self._threads = samples, target, threads
        self._weights = SharedWeights(graph, target)
        self._team = Team(threads, target)
        self._concretes: dict[tuple[Shape, ...], Graph] = {}
        for sample in samples:
            shapes = {name: sample[name].shape for name in graph.inputs}
            key = tuple(shapes.values())
            if key not in self._concretes:
                self._concretes[key] = staged(specialise(graph, shapes))

    def outputs(self, choices: Mapping[str, Choice]) -> Outputs:
        """What the model makes of every sample when its layers run with these choices."""
        contexts: dict[tuple[Shape, ...], Context] = {}
        found = []
        for sample in self._samples:
            key = tuple(sample[name].shape for name in next(iter(self._concretes.values())).inputs)
            if key not in contexts:
                program = lower(self._concretes[key], choices, self._target, self._threads, self._weights)
                contexts[key] = Context(link(program, self._target), self._target)
            found.append(self._run(contexts[key], sample))
        return found

    def _run(self, context: Context, sample: Mapping[str, Array]) -> Mapping[str, Array]:
        linked = context.linked
        dynamic, results = attach(context, linked, sample)
        return gather(context, linked, context.run(self._team, dynamic), results)
