"""Choose a routine for every layer so that layers and conversions together cost least, exactly.

The state of a layer is its signature, with the fastest candidate for it. For every tensor that can exist in more
than one format there is a variable: the set of formats in which it is made to exist. One factor ties it to its
producer and charges each conversion once, however many consumers want it; one factor for each consumer forbids
formats that are not there. `minsum` minimises the sum and knows nothing of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.tuning.minsum import Factor, Solution, k_best
from softneuro.types import Format

__all__ = ["AdaptCost", "Selection", "select"]

AdaptCost = Callable[[str, Format, Format], float]
"""adapt_cost(tensor, from, to): nanoseconds."""
_MOST_TABLE = 1 << 20


@dataclass(frozen=True)
class Selection:
    """A choice for every layer, the sum of measured times it stands for, and what is proved of it.

    optimal: no other assignment of the candidates has a smaller sum; otherwise lower_bound_ns bounds it.
    """

    choices: Mapping[str, Choice]
    predicted_ns: float
    optimal: bool
    lower_bound_ns: float


@dataclass(frozen=True)
class _State:
    choice: Choice
    ns: float


class _Model:
    """Variables and factors for a graph."""

    def __init__(self, graph: Graph, times: Mapping[str, Sequence[tuple[Choice, float]]], adapt_cost: AdaptCost) -> None:
        self.graph = graph
        self.adapt_cost = adapt_cost
        self.domains: list[int] = []
        self.factors: list[Factor] = []
        self.states: dict[str, list[_State]] = {}
        self.layer_variable: dict[str, int] = {}
        for layer in graph.layers:
            if layer.name in times:
                self._add_layer(layer, times[layer.name])
        self._add_tensors()

    def _variable(self, size: int) -> int:
        self.domains.append(size)
        return len(self.domains) - 1

    def _add_layer(self, layer: Layer, measured: Sequence[tuple[Choice, float]]) -> None:
        fastest: dict[Signature, _State] = {}
        for choice, ns in measured:
            known = fastest.get(choice.signature)
            if known is None or ns < known.ns:
                fastest[choice.signature] = _State(choice, ns)
        states = list(fastest.values())
        self.states[layer.name] = states
        variable = self.layer_variable[layer.name] = self._variable(len(states))
        self.factors.append(Factor((variable,), np.array([state.ns for state in states])))

    def _formats_made(self, layer: Layer | None, tensor: str) -> list[Format]:
        """The format of a tensor in each state of its producer (one state when that is fixed)."""
        if layer is None or layer.name not in self.states:
            return [Format.row_major(self.graph.types[tensor])]
        position = [name for name in layer.outputs if name].index(tensor)
        return [state.choice.signature.outputs[position] for state in self.states[layer.name]]

    def _formats_read(self, layer: Layer, position: int, tensor: str) -> list[Format | None]:
        if layer.name not in self.states:
            return [Format.row_major(self.graph.types[tensor])]
        return [state.choice.signature.inputs[position] for state in self.states[layer.name]]

    def _add_tensors(self) -> None:
        producers = self.graph.producers()
        readers: dict[str, list[tuple[Layer, int]]] = {}
        for layer in self.graph.layers:
            for position, name in enumerate(layer.inputs):
                if name and name in self.graph.types and name not in self.graph.constants:
                    readers.setdefault(name, []).append((layer, position))
        for name in dict.fromkeys([*readers, *self.graph.outputs]):
            if name in self.graph.types and name not in self.graph.constants:
                self._add_tensor(name, producers.get(name), readers.get(name, []))

    def _add_tensor(self, name: str, producer: Layer | None, readers: Sequence[tuple[Layer, int]]) -> None:
        made = self._formats_made(producer, name)
        read = [self._formats_read(layer, position, name) for layer, position in readers]
        wanted = {f for formats in read for f in formats if f is not None}
        is_output = name in self.graph.outputs
        row_major = Format.row_major(self.graph.types[name])
        every = sorted(set(made) | wanted | ({row_major} if is_output else set()))
        if len(every) == 1:
            return
        sets = [frozenset(c) for size in range(1, len(every) + 1) for c in combinations(every, size)]
        variable = self._variable(len(sets))
        table = np.array([[self._conversion(name, origin, present) for present in sets] for origin in made])
        if producer is not None and producer.name in self.layer_variable:
            self.factors.append(Factor((self.layer_variable[producer.name], variable), table))
        else:
            self.factors.append(Factor((variable,), table[0]))
        if is_output:
            self.factors.append(Factor((variable,), np.array([0.0 if row_major in s else math.inf for s in sets])))
        for (layer, _), formats in zip(readers, read, strict=True):
            allowed = np.array([[0.0 if f is None or f in s else math.inf for f in formats] for s in sets])
            if layer.name in self.layer_variable:
                self.factors.append(Factor((variable, self.layer_variable[layer.name]), allowed))
            else:
                self.factors.append(Factor((variable,), allowed[:, 0]))

    def _conversion(self, name: str, origin: Format, present: frozenset[Format]) -> float:
        if origin not in present:
            return math.inf
        return sum(self.adapt_cost(name, origin, wanted) for wanted in present if wanted != origin)

    def selection(self, solution: Solution) -> Selection:
        choices = {
            name: self.states[name][solution.assignment[variable]].choice for name, variable in self.layer_variable.items()
        }
        return Selection(choices, solution.value, solution.optimal, solution.lower_bound)


def select(graph: Graph, times: Mapping[str, Sequence[tuple[Choice, float]]], adapt_cost: AdaptCost,
           count: int = 1) -> list[Selection]:
    """The ``count`` best selections, the best first.

    times: layer name to its measured choices with nanoseconds. Layers that are not in it (they run on the host,
    outside of the search) read and write row-major tensors.
    """
    model = _Model(graph, times, adapt_cost)
    if not model.domains:
        return [Selection({}, 0.0, True, 0.0)]
    return [model.selection(s) for s in k_best(model.domains, model.factors, count, max_table=_MOST_TABLE)]
