"""Choose a routine for every layer so that layers and conversions together cost least, exactly.

The state of a layer is its signature, with the fastest candidate for it. For every tensor that can exist in more
than one format there is a variable: the set of formats in which it is made to exist. One factor ties it to its
producer and charges each conversion once, however many consumers want it; one factor for each consumer forbids
formats that are not there. `minsum` minimises the sum and knows nothing of layers.

With several sets of input shapes there is a `Case` for each. They share the choices, and the mean of their costs is
minimised. A tensor that is made and read alike in several cases has one variable for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from softneuro.graph import Graph, Layer
from softneuro.plan.plan import Choice
from softneuro.routines.routine import Signature
from softneuro.tuning.elimination import Table
from softneuro.tuning.minsum import Factor, Solution, k_best
from softneuro.types import Format

__all__ = ["AdaptCost", "Case", "Selection", "select"]

AdaptCost = Callable[[str, Format, Format], float]
"""adapt_cost(tensor, from, to): nanoseconds."""
_MOST_TABLE = 1 << 20
_MOST_SOLUTIONS = 200


@dataclass(frozen=True)
class Case:
    """A graph at one set of input shapes: layer name to its choices with nanoseconds, and what conversions cost.

    Layers that are not in ``times`` (they run on the host, outside of the search) read and write row-major tensors. A
    layer that is in several cases has the same choices in the same order in each.
    """

    graph: Graph
    times: Mapping[str, Sequence[tuple[Choice, float]]]
    adapt_cost: AdaptCost


@dataclass(frozen=True)
class Selection:
    """A choice for every layer, the sum of measured times it stands for (the mean over the cases), and what is proved of it.

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


class _Tensor(NamedTuple):
    """How a tensor is made and read: the same value in another case means the same variable.

    maker: the layer variable of its producer, None when that has no choice; made: its format in each state of the producer;
    readers: the same of every consumer, None for one that takes no format; output: it must exist in row-major order.
    """

    name: str
    maker: int | None
    made: tuple[Format, ...]
    readers: tuple[tuple[int | None, tuple[Format | None, ...]], ...]
    row_major: Format
    output: bool


class _Model:
    """Variables and factors for all cases."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self.domains: list[int] = []
        self.factors: list[Factor] = []
        self._states: dict[str, list[_State]] = {}
        self._layer_variable: dict[str, int] = {}
        for name in dict.fromkeys(layer.name for case in cases for layer in case.graph.layers if layer.name in case.times):
            self._add_layer(name)
        tensors: dict[_Tensor, list[AdaptCost]] = {}
        for case in cases:
            for tensor in self._tensors(case):
                tensors.setdefault(tensor, []).append(case.adapt_cost)
        for tensor, adapt_costs in tensors.items():
            self._add_tensor(tensor, adapt_costs)

    def _variable(self, size: int) -> int:
        self.domains.append(size)
        return len(self.domains) - 1

    def _add_layer(self, name: str) -> None:
        tables = [case.times[name] for case in self._cases if name in case.times]
        fastest: dict[Signature, _State] = {}
        for places in zip(*tables, strict=True):
            choice, ns = places[0][0], sum(place[1] for place in places) / len(self._cases)
            known = fastest.get(choice.signature)
            if known is None or ns < known.ns:
                fastest[choice.signature] = _State(choice, ns)
        states = list(fastest.values())
        self._states[name] = states
        variable = self._layer_variable[name] = self._variable(len(states))
        self.factors.append(Factor((variable,), np.array([state.ns for state in states])))

    def _tensors(self, case: Case) -> Iterator[_Tensor]:
        """The tensors of a case that might exist in several formats."""
        graph = case.graph
        producers = graph.producers()
        readers: dict[str, list[tuple[Layer, int]]] = {}
        for layer in graph.layers:
            for position, name in enumerate(layer.inputs):
                if name and name in graph.types and name not in graph.constants:
                    readers.setdefault(name, []).append((layer, position))
        for name in dict.fromkeys([*readers, *graph.outputs]):
            if name in graph.types and name not in graph.constants:
                row_major = Format.row_major(graph.types[name])
                maker, made = self._made(case, producers.get(name), name, row_major)
                read = tuple(self._read(case, layer, position, row_major) for layer, position in readers.get(name, []))
                yield _Tensor(name, maker, made, read, row_major, name in graph.outputs)

    def _made(self, case: Case, layer: Layer | None, tensor: str, row_major: Format) -> tuple[int | None, tuple[Format, ...]]:
        if layer is None or layer.name not in case.times:
            return None, (row_major,)
        position = [name for name in layer.outputs if name].index(tensor)
        formats = tuple(state.choice.signature.outputs[position] for state in self._states[layer.name])
        return self._layer_variable[layer.name], formats

    def _read(self, case: Case, layer: Layer, position: int,
              row_major: Format) -> tuple[int | None, tuple[Format | None, ...]]:
        if layer.name not in case.times:
            return None, (row_major,)
        formats = tuple(state.choice.signature.inputs[position] for state in self._states[layer.name])
        return self._layer_variable[layer.name], formats

    def _add_tensor(self, tensor: _Tensor, adapt_costs: Sequence[AdaptCost]) -> None:
        wanted = {f for _, formats in tensor.readers for f in formats if f is not None}
        every = sorted(set(tensor.made) | wanted | ({tensor.row_major} if tensor.output else set()))
        if len(every) == 1:
            return
        most = min(len(every), 1 + len(tensor.readers) + tensor.output)  # the one it is made in, and one for each use
        sets = [frozenset(c) for size in range(1, most + 1) for c in combinations(every, size)]
        variable = self._variable(len(sets))
        table = np.array([[self._conversion(tensor.name, o, present, adapt_costs) for present in sets] for o in tensor.made])
        self._add_factor(tensor.maker, variable, table)
        if tensor.output:
            self.factors.append(Factor((variable,), np.array([0.0 if tensor.row_major in s else math.inf for s in sets])))
        for reader, formats in tensor.readers:
            allowed = [[0.0 if f is None or f in present else math.inf for present in sets] for f in formats]
            self._add_factor(reader, variable, np.array(allowed))

    def _add_factor(self, layer: int | None, tensor: int, table: Table) -> None:
        """A factor over a layer's states (one, where it has no choice) and a tensor's sets of formats."""
        self.factors.append(Factor((tensor,), table[0]) if layer is None else Factor((layer, tensor), table))

    def _conversion(self, name: str, origin: Format, present: frozenset[Format], adapt_costs: Sequence[AdaptCost]) -> float:
        if origin not in present:
            return math.inf
        total = sum(cost(name, origin, wanted) for wanted in present if wanted != origin for cost in adapt_costs)
        return total / len(self._cases)

    def timed_values(self, solution: Solution) -> tuple[int, ...]:
        """What a solution assigns to the layers that take time."""
        timed = (v for name, v in self._layer_variable.items() if any(state.ns for state in self._states[name]))
        return tuple(solution.assignment[variable] for variable in timed)

    def selection(self, solution: Solution) -> Selection:
        choices = {
            name: self._states[name][solution.assignment[variable]].choice for name, variable in self._layer_variable.items()
        }
        return Selection(choices, solution.value, solution.optimal, solution.lower_bound)


def select(cases: Sequence[Case], count: int = 1) -> list[Selection]:
    """The ``count`` best selections, the best first: those of least cost, the mean over all cases.

    They differ in the choice of a layer that takes time; there are fewer when not so many are near the best.
    """
    model = _Model(cases)
    if not model.domains:
        return [Selection({}, 0.0, True, 0.0)]
    wanted = count
    while True:  # most of the best assignments differ only in conversions and in views, which cost nothing
        solutions = k_best(model.domains, model.factors, wanted, max_table=_MOST_TABLE)
        found = {model.timed_values(solution): solution for solution in reversed(solutions)}
        if len(found) >= count or len(solutions) < wanted or wanted >= _MOST_SOLUTIONS:
            best = sorted(found.values(), key=solutions.index)[:count]
            return [model.selection(solution) for solution in best]
        wanted *= 8
