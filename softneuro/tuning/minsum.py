"""Exact minimum of a sum of table factors over discrete variables.

Variables are the integers 0 … n-1, variable v takes the values 0 … domains[v]-1, and a factor is a table
with one axis per variable it reads. Variables are eliminated in a good order, so the cost is that of the
largest table, which for a graph of layers is small. Where a table would exceed a cap, the answer is a good
assignment and a lower bound of the minimum, and says so.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from softneuro.tuning.elimination import (
    Elimination,
    Factor,
    Interactions,
    Order,
    Table,
    eliminate,
    elimination_order,
    restricted,
)

__all__ = ["Factor", "Solution", "k_best", "minimise"]

_DESCENT_CELLS = 1 << 16  # largest table in a descent step: many cheap steps beat a few exhaustive ones
_DESCENT_STEPS = 40
_DESCENT_PATIENCE = 8  # descent ends after so many steps in a row without gain
_ROUNDING = 1e-12  # relative difference between value and bound that the order of summation explains


@dataclass(frozen=True)
class Solution:
    """A value for every variable, and what the factors sum to there.

    No assignment is below `lower_bound` (for the i-th of k_best: none but the i-1 before it), and `optimal`
    says that `value` reaches it.
    """

    assignment: tuple[int, ...]
    value: float
    optimal: bool
    lower_bound: float


def minimise(domains: Sequence[int], factors: Sequence[Factor], *, max_table: int = 1 << 22) -> Solution:
    """The assignment of least sum; equal values of a variable go to the lowest.

    Tables have at most `max_table` cells, or as many as the largest factor. If that does not suffice for the
    exact minimum, the solution is a good one, with optimal=False unless its value meets the lower bound.

    Raises ValueError for malformed input, when every assignment is forbidden, and when `max_table` is
    exceeded and no allowed assignment was found.
    """
    problem = _Problem(domains, factors, max_table)
    order = elimination_order(problem.sizes, problem.factors, problem.cap)
    if not order.fits(problem.cap):
        return _minimise_beyond_cap(problem)
    return next(_exact_solutions(problem, order))


def k_best(
    domains: Sequence[int], factors: Sequence[Factor], k: int, *, max_table: int = 1 << 22
) -> list[Solution]:
    """The `k` distinct assignments of least sum, best first; fewer when fewer are allowed.

    Lawler's partitioning (A procedure for computing the k best solutions, 1972) over one elimination: its
    messages are the exact cost of completing any partial assignment, so a runner-up costs one pass over the
    variables. Beyond `max_table`, the runners-up are the best of those that agree with minimise's solution
    on some of the variables.

    Raises ValueError as minimise does, and for k < 1.
    """
    if k < 1:
        raise ValueError(f"k_best was asked for {k} solutions, needed at least 1")
    problem = _Problem(domains, factors, max_table)
    order = elimination_order(problem.sizes, problem.factors, problem.cap)
    if not order.fits(problem.cap):
        return _k_best_beyond_cap(problem, k)
    return sorted(islice(_exact_solutions(problem, order), k), key=lambda solution: solution.value)


class _Problem:
    """The checked input; factors have sorted variables, none of a single value."""

    def __init__(self, domains: Sequence[int], factors: Sequence[Factor], max_table: int) -> None:
        self.sizes = tuple(int(size) for size in domains)
        for variable, size in enumerate(self.sizes):
            if size < 1:
                raise ValueError(f"variable {variable} has {size} values, needed at least 1")
        self.factors = [_checked(index, factor, self.sizes) for index, factor in enumerate(factors)]
        largest = max((f.table.size for f in self.factors), default=1)
        self.cap = max(max_table, largest)
        self.descent_cap = max(min(max_table, _DESCENT_CELLS), largest)

    def value(self, assignment: Sequence[int]) -> float:
        """Exactly rounded, so it depends on no order of summation."""
        return math.fsum(float(f.table[tuple(assignment[v] for v in f.variables)]) for f in self.factors)


def _checked(index: int, factor: Factor, sizes: tuple[int, ...]) -> Factor:
    variables, table = tuple(factor.variables), np.asarray(factor.table, np.float64)
    if len(set(variables)) < len(variables) or not all(0 <= v < len(sizes) for v in variables):
        raise ValueError(
            f"factor {index} reads variables {variables}, needed distinct ones below {len(sizes)}"
        )
    shape = tuple(sizes[v] for v in variables)
    if table.shape != shape:
        raise ValueError(f"factor {index} has a table of shape {table.shape}, its variables need {shape}")
    if np.isnan(table).any() or np.isneginf(table).any():
        raise ValueError(f"factor {index} has NaN or -inf in its table, needed numbers or +inf")
    axes = sorted(range(len(variables)), key=lambda axis: variables[axis])
    kept = tuple(variables[axis] for axis in axes if shape[axis] > 1)
    return Factor(kept, table.transpose(axes).reshape([sizes[v] for v in kept]))


def _exact_solutions(problem: _Problem, order: Order) -> Iterator[Solution]:
    elimination = eliminate(problem.sizes, problem.factors, order.variables, problem.cap)
    _check_feasible(elimination)
    for assignment in _ranked(elimination, [0] * len(problem.sizes)):
        value = problem.value(assignment)
        yield Solution(tuple(assignment), value, True, value)


def _check_feasible(elimination: Elimination) -> None:
    if math.isinf(elimination.bound):
        raise ValueError("every assignment is forbidden: no combination of values has a finite sum")


def _ranked(elimination: Elimination, start: list[int]) -> Iterator[list[int]]:
    """Assignments in order of value, for an elimination without split buckets and with a finite minimum.

    Variables that were not eliminated keep their values of `start`. A pending entry is a set of assignments
    and its minimum: those that agree with `base` on the variables decided before `step` and take `choice` at
    it. Taking the best out of a set leaves sets of the same kind, one for each other choice at each later
    step.
    """
    tie = count()
    end = len(elimination.order)
    pending = [(elimination.bound, next(tie), start, end, 0)]
    while pending:
        value, _, base, step, choice = heapq.heappop(pending)
        assignment = base.copy()
        if step < end:
            assignment[elimination.order[step]] = choice
        for later, costs in elimination.complete(assignment, step):
            best = assignment[elimination.order[later]]
            for other, minimum in enumerate((value + (costs - costs[best])).tolist()):
                if other != best and minimum < math.inf:
                    heapq.heappush(pending, (minimum, next(tie), assignment, later, other))
        yield assignment


# Beyond the cap: pruning, a lower bound from split buckets, and descent.


def _minimise_beyond_cap(problem: _Problem) -> Solution:
    kept = _undominated(problem)
    sizes = [len(values) for values in kept]
    factors = restricted(problem.factors, dict(enumerate(kept)))
    order = elimination_order(sizes, factors, problem.cap)
    exact = order.fits(problem.cap)
    elimination = eliminate(sizes, factors, order.variables, problem.cap, sparing=not exact)
    _check_feasible(elimination)
    greedy = [0] * len(sizes)
    for _ in elimination.complete(greedy, len(order.variables)):
        pass
    assignment = [values[choice] for values, choice in zip(kept, greedy, strict=True)]
    if not exact:
        assignment = _descend(problem, assignment)
    value = problem.value(assignment)
    if math.isinf(value):
        raise ValueError(
            f"found no allowed assignment with tables of at most {problem.cap} cells, though one may exist; "
            "a larger max_table is needed"
        )
    optimal = exact or value - elimination.bound <= _ROUNDING * abs(value)
    return Solution(tuple(assignment), value, optimal, value if optimal else elimination.bound)


def _k_best_beyond_cap(problem: _Problem, k: int) -> list[Solution]:
    best = _minimise_beyond_cap(problem)
    cut, order = _cut(problem, [0] * len(problem.sizes))
    near = islice(_ranked_given(problem, best.assignment, cut, order), k + 1)
    found = {tuple(assignment) for assignment in near} - {best.assignment}
    ranked = sorted((problem.value(assignment), assignment) for assignment in found)
    others = [Solution(assignment, value, False, best.lower_bound) for value, assignment in ranked]
    return sorted([best, *others], key=lambda solution: solution.value)[:k]


def _undominated(problem: _Problem) -> list[list[int]]:
    """Values of each variable without those that another value beats whatever the rest is.

    Value b dominates a if the least of f(a, ·) - f(b, ·), summed over the factors f, is not negative
    (Goldstein, Efficient rotamer elimination applied to protein side-chains, 1994). An optimal assignment is
    always kept.
    """
    kept = [list(range(size)) for size in problem.sizes]
    factors, pending = problem.factors, {v for v, size in enumerate(problem.sizes) if size > 1}
    while pending:
        margins = {v: np.zeros((len(kept[v]), len(kept[v]))) for v in pending}
        for f in factors:
            for axis, variable in enumerate(f.variables):
                if variable in margins:
                    margins[variable] = _sum_margins(margins[variable], np.moveaxis(f.table, axis, 0))
        survivors = {v: _survivors(margin) for v, margin in margins.items()}
        shrunk = {v: rows for v, rows in survivors.items() if len(rows) < len(kept[v])}
        touched = {v for f in factors if not shrunk.keys().isdisjoint(f.variables) for v in f.variables}
        factors = restricted(factors, shrunk)
        for variable, rows in shrunk.items():
            kept[variable] = [kept[variable][row] for row in rows]
        pending = {v for v in touched if len(kept[v]) > 1}
    return kept


def _sum_margins(margins: Table, table: Table) -> Table:
    """Adds to margins[a, b] the least of table[a] - table[b]; combinations that both forbid do not count."""
    rows = table.reshape(len(table), -1)
    with np.errstate(invalid="ignore"):
        least = [np.where(np.isposinf(row), np.inf, row - rows).min(axis=1) for row in rows]
        total: Table = margins + np.array(least)
    return total


def _survivors(margins: Table) -> list[int]:
    alive = list(range(len(margins)))
    for value in reversed(range(len(margins))):
        if any(other != value and margins[value, other] >= 0 for other in alive):
            alive.remove(value)
    return alive


def _descend(problem: _Problem, assignment: list[int]) -> list[int]:
    """A better assignment; an allowed one if it can be found."""
    if math.isinf(problem.value(assignment)):
        assignment = _descend_from(_softened(problem), assignment)
    return assignment if math.isinf(problem.value(assignment)) else _descend_from(problem, assignment)


def _descend_from(problem: _Problem, assignment: list[int]) -> list[int]:
    """Repeated exact minimisation over all variables but a cut, which is held; a different cut each time."""
    value, idle, held = problem.value(assignment), 0, [0] * len(problem.sizes)
    for _ in range(_DESCENT_STEPS):
        if idle == _DESCENT_PATIENCE:
            break
        cut, order = _cut(problem, held)
        for variable in cut:
            held[variable] += 1
        candidate = next(_ranked_given(problem, assignment, cut, order))
        candidate_value = problem.value(candidate)
        if candidate_value < value:
            assignment, value, idle = candidate, candidate_value, 0
        else:
            idle += 1
    return assignment


def _softened(problem: _Problem) -> _Problem:
    """The problem with +inf replaced by a cost that no saving elsewhere makes up for."""
    finite = [f.table[np.isfinite(f.table)] for f in problem.factors]
    spread = sum(float(np.ptp(numbers)) for numbers in finite if numbers.size)
    highest = max(float(numbers.max(initial=0)) for numbers in finite)
    forbidden = highest + spread + 1
    soft = [Factor(f.variables, np.minimum(f.table, forbidden)) for f in problem.factors]
    return _Problem(problem.sizes, soft, problem.cap)


def _cut(problem: _Problem, held: Sequence[int]) -> tuple[list[int], list[int]]:
    """Variables to hold so that eliminating the others, in the order returned, keeps within descent_cap.

    Those held least often before come first, then those with most neighbours.
    """
    graph = Interactions(problem.sizes, problem.factors)
    cut: list[int] = []
    order: list[int] = []
    while (variable := graph.next()) is not None:
        near = graph.adjacent[variable]
        if near and graph.cells[variable] > problem.descent_cap:
            cut.append(min(near, key=lambda v: (held[v], -len(graph.adjacent[v]), v)))
            graph.remove(cut[-1])
        else:
            order.append(variable)
            graph.eliminate(variable)
    return cut, order


def _ranked_given(
    problem: _Problem, assignment: Sequence[int], cut: Sequence[int], order: list[int]
) -> Iterator[list[int]]:
    """The assignments that agree with `assignment`, an allowed one, on the variables of `cut`, best first."""
    factors = restricted(problem.factors, {v: [assignment[v]] for v in cut})
    return _ranked(eliminate(problem.sizes, factors, order, problem.cap), list(assignment))
