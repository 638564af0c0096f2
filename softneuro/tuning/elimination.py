"""Bucket elimination: minimise variables out of a sum of table factors, one by one.

All factors that read a variable form its *bucket*; they are added up and the variable is minimised out,
which leaves one smaller table, its *message*, for a later bucket (Dechter, Bucket elimination: a unifying
framework for reasoning, 1999). The cost is that of the largest table, which depends on the order.

A bucket whose table would exceed a cap is split into mini-buckets that are minimised apart, so that the
result is a lower bound (Dechter and Rish, Mini-buckets: a general scheme for bounded inference, 2003).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]

_MESSAGE_CELLS = 1 << 26  # memory for messages: 512 MiB
_SMALL_CAP = 1 << 12


@dataclass(frozen=True, eq=False, slots=True)
class Factor:
    """A cost for every combination of values of `variables`; +inf forbids one.

    `table` has one axis per variable, as long as the variable has values.
    """

    variables: tuple[int, ...]
    table: Table


def restricted(factors: Sequence[Factor], allowed: Mapping[int, Sequence[int]]) -> list[Factor]:
    """`factors` over only the `allowed` values of some variables; an axis of one value goes away."""
    return [f if allowed.keys().isdisjoint(f.variables) else _restrict(f, allowed) for f in factors]


def _restrict(factor: Factor, allowed: Mapping[int, Sequence[int]]) -> Factor:
    table = factor.table
    for axis, variable in enumerate(factor.variables):
        if variable in allowed:
            table = table.take(allowed[variable], axis)
    kept = tuple(v for v, size in zip(factor.variables, table.shape, strict=True) if size > 1)
    return Factor(kept, table.reshape([size for size in table.shape if size > 1]))


Rank = Callable[[int, int], tuple[int, int]]


def least_fill(fill: int, cells: int) -> tuple[int, int]:
    """Eliminate first what adds the fewest edges, then what has the smallest table."""
    return fill, cells


def smallest_table(fill: int, cells: int) -> tuple[int, int]:
    """Eliminate first what has the smallest table, then what adds the fewest edges."""
    return cells, fill


def lowest_index(fill: int, cells: int) -> tuple[int, int]:
    """Eliminate in the order given, which for numbered layers sweeps through the graph."""
    return 0, 0


class Interactions:
    """Which variables share a factor, as a graph from which variables are removed one by one.

    `fill[v]` is the number of pairs of v's neighbours that are not adjacent and `cells[v]` the size of the
    table over v and its neighbours, both kept up to date; the heap holds (*rank(fill, cells), v), stale
    entries included. Variables of a single value are left out.
    """

    def __init__(self, sizes: Sequence[int], factors: Sequence[Factor], rank: Rank = least_fill) -> None:
        self.sizes, self.rank = sizes, rank
        self.adjacent: dict[int, set[int]] = {v: set() for v, size in enumerate(sizes) if size > 1}
        for factor in factors:
            for variable in factor.variables:
                self.adjacent[variable].update(factor.variables)
        for variable, near in self.adjacent.items():
            near.discard(variable)
        self.fill: dict[int, int] = {}
        self.cells: dict[int, int] = {}
        for variable, near in self.adjacent.items():
            linked = sum(len(near & self.adjacent[other]) for other in near)
            self.fill[variable] = (len(near) * (len(near) - 1) - linked) // 2
            self.cells[variable] = sizes[variable] * math.prod(sizes[other] for other in near)
        self.heap = [self._entry(v) for v in self.adjacent]
        heapq.heapify(self.heap)

    def _entry(self, variable: int) -> tuple[int, int, int]:
        return (*self.rank(self.fill[variable], self.cells[variable]), variable)

    def next(self) -> int | None:
        """The variable to eliminate next, the lowest of equals; None when none is left."""
        while self.heap:
            variable = self.heap[0][2]
            if variable in self.adjacent and self.heap[0] == self._entry(variable):
                return variable
            heapq.heappop(self.heap)
        return None

    def remove(self, variable: int) -> None:
        """Take a variable and its edges away."""
        near = self.adjacent.pop(variable)
        for other in near:
            around = self.adjacent[other]
            self.fill[other] -= len(around) - 1 - len(around & near)
            self.cells[other] //= self.sizes[variable]
            around.discard(variable)
            heapq.heappush(self.heap, self._entry(other))

    def eliminate(self, variable: int) -> None:
        """Connect the neighbours to each other, as the message will, and remove the variable."""
        if self.fill[variable]:
            for a, b in combinations(sorted(self.adjacent[variable]), 2):
                if b not in self.adjacent[a]:
                    self._connect(a, b)
        self.remove(variable)

    def _connect(self, a: int, b: int) -> None:
        common = self.adjacent[a] & self.adjacent[b]
        for variable in common:
            self.fill[variable] -= 1
        for one, other in ((a, b), (b, a)):
            self.fill[one] += len(self.adjacent[one]) - len(common)
            self.cells[one] *= self.sizes[other]
        self.adjacent[a].add(b)
        self.adjacent[b].add(a)
        for variable in (a, b, *common):
            heapq.heappush(self.heap, self._entry(variable))


@dataclass(frozen=True)
class Order:
    """The variables in order of elimination, the cells of the largest table it needs and of all messages."""

    variables: list[int]
    largest: int
    messages: int

    def fits(self, cap: int) -> bool:
        """Whether no bucket needs to be split and the messages, which are kept, fit in memory."""
        return self.largest <= cap and self.messages <= max(cap, _MESSAGE_CELLS)


def elimination_order(sizes: Sequence[int], factors: Sequence[Factor], cap: int) -> Order:
    """The min-fill order, unless that does not fit `cap` and another one does."""
    first = _order(sizes, factors, cap, least_fill)
    if first.fits(cap):
        return first
    others = (_order(sizes, factors, cap, rank) for rank in (smallest_table, lowest_index))
    return next((order for order in others if order.fits(cap)), first)


def _order(sizes: Sequence[int], factors: Sequence[Factor], cap: int, rank: Rank) -> Order:
    """A variable whose table exceeds `cap` adds no edges: its bucket will be split."""
    graph = Interactions(sizes, factors, rank)
    variables: list[int] = []
    largest, messages = 1, 0
    while (variable := graph.next()) is not None:
        variables.append(variable)
        cells = graph.cells[variable] if graph.adjacent[variable] else 1
        largest, messages = max(largest, cells), messages + cells // sizes[variable]
        if cells > cap:
            graph.remove(variable)
        else:
            graph.eliminate(variable)
    return Order(variables, largest, messages)


@dataclass(frozen=True)
class Elimination:
    """`buckets[i]` holds all that decides variable `order[i]` once the later ones are decided.

    `bound` is the minimum, or a lower bound of it if a bucket was split.
    """

    sizes: Sequence[int]
    order: list[int]
    buckets: list[list[Factor]]
    bound: float

    def complete(self, assignment: list[int], end: int) -> Iterator[tuple[int, Table]]:
        """Decide order[end-1] … order[0] in `assignment`, which has the rest; yields each step and its costs.

        If no bucket was split, the costs of two values differ by as much as their best completions do.
        """
        for step in reversed(range(end)):
            variable = self.order[step]
            costs = np.zeros(self.sizes[variable])
            for f in self.buckets[step]:
                costs += f.table[tuple(slice(None) if v == variable else assignment[v] for v in f.variables)]
            assignment[variable] = int(costs.argmin())
            yield step, costs


def eliminate(
    sizes: Sequence[int], factors: Sequence[Factor], order: list[int], cap: int, *, sparing: bool = False
) -> Elimination:
    """Minimise all variables out in `order`.

    `factors` have sorted variables, none of a single value. A bucket is split if its table exceeds `cap`
    cells, which no single factor may. If `sparing`, the cap becomes small once messages fill their memory.
    """
    position = {variable: step for step, variable in enumerate(order)}
    buckets: list[list[Factor]] = [[] for _ in order]
    constants: list[float] = []

    def place(factor: Factor) -> None:
        if factor.variables:
            buckets[min(position[v] for v in factor.variables)].append(factor)
        else:
            constants.append(float(factor.table))

    for factor in factors:
        place(factor)
    small_cap = min(cap, max([_SMALL_CAP, *(f.table.size for f in factors)]))
    kept = 0
    for step, variable in enumerate(order):
        limit = small_cap if sparing and kept > _MESSAGE_CELLS else cap
        parts = [_join(sizes, part) for part in _split(sizes, buckets[step], limit)]
        for message in _minima(variable, parts):
            kept += message.table.size
            place(message)
    return Elimination(sizes, order, buckets, math.fsum(constants))


def _split(sizes: Sequence[int], bucket: list[Factor], cap: int) -> list[list[Factor]]:
    """The bucket whole if its table fits `cap`; else in parts that do, first-fit, largest tables first."""
    if not bucket or _cells(sizes, set().union(*(f.variables for f in bucket))) <= cap:
        return [bucket] if bucket else []
    parts: list[tuple[set[int], list[Factor]]] = []
    for f in sorted(bucket, key=lambda f: -f.table.size):
        for scope, part in parts:
            if _cells(sizes, scope.union(f.variables)) <= cap:
                scope.update(f.variables)
                part.append(f)
                break
        else:
            parts.append((set(f.variables), [f]))
    return [part for _, part in parts]


def _cells(sizes: Sequence[int], scope: set[int]) -> int:
    return math.prod(sizes[v] for v in scope)


def _join(sizes: Sequence[int], factors: list[Factor]) -> Factor:
    """The sum of factors, over all their variables; small tables are added up before they meet large ones."""
    if len(factors) == 1:
        return factors[0]
    scope = tuple(sorted(set().union(*(f.variables for f in factors))))
    total: Table = np.zeros([1] * len(scope))
    for f in sorted(factors, key=lambda f: f.table.size):
        total = total + f.table.reshape([sizes[v] if v in f.variables else 1 for v in scope])
    return Factor(scope, total)


def _minima(variable: int, parts: list[Factor]) -> list[Factor]:
    """Each part of a bucket with its variable minimised out."""
    rows = [np.moveaxis(f.table, f.variables.index(variable), 0) for f in parts]
    if len(parts) > 1:
        rows = _matched(rows)
    scopes = [tuple(v for v in f.variables if v != variable) for f in parts]
    return [Factor(scope, table.min(axis=0)) for scope, table in zip(scopes, rows, strict=True)]


def _matched(rows: list[Table]) -> list[Table]:
    """Tables over a common first axis, shifted so that all have the same minima along it; their sum stays.

    This raises the bound of a split bucket: Ihler et al., Join-graph based cost-shifting schemes, 2012. What
    one table forbids altogether, all may forbid.
    """
    lows = np.array([table.reshape(len(table), -1).min(axis=1) for table in rows])
    with np.errstate(invalid="ignore"):
        shifts = np.where(np.isinf(lows).any(axis=0), np.inf, lows.mean(axis=0) - lows)
    return [
        table + shift.reshape(-1, *[1] * (table.ndim - 1)) for table, shift in zip(rows, shifts, strict=True)
    ]
