"""minsum: the exact minimum, against brute force; beyond the cap, honest bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softneuro.tuning.minsum import Factor, Solution, k_best, minimise

INF = math.inf


def brute_force(domains: list[int], factors: list[Factor]) -> dict[tuple[int, ...], float]:
    """Every allowed assignment with its value."""
    values = {
        assignment: math.fsum(float(f.table[tuple(assignment[v] for v in f.variables)]) for f in factors)
        for assignment in itertools.product(*(range(size) for size in domains))
    }
    return {assignment: value for assignment, value in values.items() if value < INF}


@st.composite
def factor_graphs(draw: st.DrawFn, forbidden: float = 0.15) -> tuple[list[int], list[Factor]]:
    """Up to 8 variables of 1-4 values; small integers (sums are exact and tie often), some +inf."""
    domains = draw(st.lists(st.integers(1, 4), max_size=8))
    scopes = st.permutations(range(len(domains))).flatmap(
        lambda order: st.integers(0, min(3, len(order))).map(lambda arity: tuple(order[:arity]))
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    factors = []
    for scope in draw(st.lists(scopes, max_size=12)):
        table = rng.integers(-5, 6, [domains[v] for v in scope]).astype(np.float64)
        factors.append(Factor(scope, np.where(rng.random(table.shape) < forbidden, INF, table)))
    return domains, factors


def grid(rows: int, columns: int, size: int, rng: np.random.Generator) -> tuple[list[int], list[Factor]]:
    pairs = [(i, i + 1) for i in range(rows * columns) if (i + 1) % columns]
    pairs += [(i, i + columns) for i in range((rows - 1) * columns)]
    return [size] * (rows * columns), [
        Factor(p, rng.integers(0, 50, (size, size)).astype(float)) for p in pairs
    ]


def row_by_row_minimum(rows: int, columns: int, size: int, factors: list[Factor]) -> float:
    """The minimum of a grid by dynamic programming over whole rows: an independent oracle."""
    states = list(itertools.product(range(size), repeat=columns))
    tables = {f.variables: f.table for f in factors}
    best = np.zeros(len(states))
    for row in range(rows):
        first = row * columns
        inside = [
            sum(tables[first + c, first + c + 1][s[c], s[c + 1]] for c in range(columns - 1)) for s in states
        ]
        if row:
            between = sum(
                tables[first - columns + c, first + c][np.ix_([s[c] for s in states], [s[c] for s in states])]
                for c in range(columns)
            )
            best = (best[:, None] + between).min(axis=0)
        best = best + np.array(inside)
    return float(best.min())


@settings(max_examples=300, deadline=None)
@given(factor_graphs())
def test_minimum_is_that_of_brute_force(graph: tuple[list[int], list[Factor]]) -> None:
    domains, factors = graph
    allowed = brute_force(domains, factors)
    if not allowed:
        with pytest.raises(ValueError, match="every assignment is forbidden"):
            minimise(domains, factors)
        return
    solution = minimise(domains, factors)
    assert solution.value == solution.lower_bound == min(allowed.values())
    assert allowed[solution.assignment] == solution.value
    assert solution.optimal
    assert solution == minimise(domains, list(factors))


@settings(max_examples=300, deadline=None)
@given(factor_graphs(), st.integers(1, 12))
def test_k_best_are_those_of_brute_force(graph: tuple[list[int], list[Factor]], k: int) -> None:
    domains, factors = graph
    allowed = brute_force(domains, factors)
    if not allowed:
        with pytest.raises(ValueError, match="every assignment is forbidden"):
            k_best(domains, factors, k)
        return
    solutions = k_best(domains, factors, k)
    assert [s.value for s in solutions] == sorted(allowed.values())[:k]
    assert all(allowed[s.assignment] == s.value == s.lower_bound and s.optimal for s in solutions)
    assert len({s.assignment for s in solutions}) == len(solutions)
    assert solutions[0] == minimise(domains, factors)


@settings(max_examples=300, deadline=None)
@given(factor_graphs(forbidden=0.05), st.integers(1, 16), st.integers(1, 5))
def test_bounds_hold_beyond_the_cap(graph: tuple[list[int], list[Factor]], cap: int, k: int) -> None:
    domains, factors = graph
    allowed = brute_force(domains, factors)
    try:
        solution = minimise(domains, factors, max_table=cap)
    except ValueError as error:
        assert not allowed or "may exist" in str(error)
        return
    minimum = min(allowed.values())
    assert allowed[solution.assignment] == solution.value
    assert solution.lower_bound <= minimum + 1e-9 <= solution.value + 2e-9
    if solution.optimal:
        assert solution.value == solution.lower_bound == minimum
    runners_up = k_best(domains, factors, k, max_table=cap)
    values = [s.value for s in runners_up]
    assert values == sorted(values) == [allowed[s.assignment] for s in runners_up]
    assert len({s.assignment for s in runners_up}) == len(runners_up)
    assert values[0] <= solution.value
    assert all(s.lower_bound <= s.value for s in runners_up)


@settings(max_examples=100, deadline=None)
@given(factor_graphs(forbidden=0.0), st.integers(0, 2**32 - 1))
def test_fractional_costs_agree_up_to_rounding(graph: tuple[list[int], list[Factor]], seed: int) -> None:
    domains, whole = graph
    rng = np.random.default_rng(seed)
    factors = [Factor(f.variables, f.table * rng.random(f.table.shape)) for f in whole]
    allowed = sorted(brute_force(domains, factors).values())
    assert minimise(domains, factors).value == pytest.approx(allowed[0], rel=1e-12, abs=1e-12)
    found = [s.value for s in k_best(domains, factors, 6)]
    assert found == pytest.approx(allowed[:6], rel=1e-12, abs=1e-12)


def test_long_chain_against_dynamic_programming() -> None:
    rng = np.random.default_rng(1)
    n, size = 5000, 4
    tables = rng.integers(0, 1000, (n - 1, size, size)).astype(float)
    factors = [Factor((i, i + 1), table) for i, table in enumerate(tables)]
    factors += [Factor((i,), rng.integers(0, 1000, size).astype(float)) for i in range(n)]
    best = factors[n - 1].table
    for i in range(1, n):
        best = (best[:, None] + tables[i - 1]).min(axis=0) + factors[n - 1 + i].table
    solutions = k_best([size] * n, factors, 3)
    assert solutions[0].value == best.min()
    assert solutions[0].value <= solutions[1].value <= solutions[2].value
    assert all(s.optimal for s in solutions)


def test_shuffled_chain_of_forced_values() -> None:
    n, size = 400, 5
    order = np.random.default_rng(2).permutation(n).tolist()
    step = np.where((np.arange(size)[:, None] + 1) % size == np.arange(size), 0.0, INF)
    factors = [Factor((a, b), step) for a, b in itertools.pairwise(order)]
    factors.append(Factor((order[0],), np.array([INF, INF, 1.0, INF, INF])))
    solution = minimise([size] * n, factors)
    assert [solution.assignment[v] for v in order] == [(2 + i) % size for i in range(n)]
    assert k_best([size] * n, factors, 5) == [solution]


def test_star_of_high_degree() -> None:
    rng = np.random.default_rng(3)
    leaves, size = 2000, 4
    tables = rng.integers(0, 100, (leaves, size, size)).astype(float)
    factors = [Factor((leaf + 1, 0), table) for leaf, table in enumerate(tables)]
    solution = minimise([size] * (leaves + 1), factors)
    assert solution.value == tables.min(axis=1).sum(axis=0).min()
    assert solution.optimal


def test_disconnected_stars_and_lonely_variables() -> None:
    rng = np.random.default_rng(4)
    factors = [Factor((3 * i, 3 * i + 1), rng.integers(0, 9, (3, 3)).astype(float)) for i in range(300)]
    solution = minimise([3] * 900, factors)
    assert solution.value == sum(f.table.min() for f in factors)
    assert solution.assignment[2::3] == (0,) * 300


def test_grid_against_row_dynamic_programming() -> None:
    domains, factors = grid(30, 4, 3, np.random.default_rng(5))
    solution = minimise(domains, factors)
    assert solution.optimal
    assert solution.value == row_by_row_minimum(30, 4, 3, factors)


def test_grid_beyond_the_cap_is_bounded_and_close() -> None:
    domains, factors = grid(8, 5, 3, np.random.default_rng(6))
    minimum = row_by_row_minimum(8, 5, 3, factors)
    solution = minimise(domains, factors, max_table=81)
    assert not solution.optimal
    assert 0.8 * minimum <= solution.lower_bound < minimum <= solution.value <= 1.1 * minimum
    runners_up = k_best(domains, factors, 4, max_table=81)
    assert runners_up[0].value == solution.value
    assert [s.optimal for s in runners_up] == [False] * 4
    assert {s.lower_bound for s in runners_up} == {solution.lower_bound}


def test_messages_beyond_memory_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softneuro.tuning.elimination._MESSAGE_CELLS", 1)
    monkeypatch.setattr("softneuro.tuning.elimination._SMALL_CAP", 1)
    domains, factors = grid(30, 4, 3, np.random.default_rng(5))
    solution = minimise(domains, factors, max_table=3**5)
    assert not solution.optimal
    assert solution.lower_bound < row_by_row_minimum(30, 4, 3, factors) <= solution.value


def test_beyond_the_cap_values_that_never_pay_are_pruned() -> None:
    """Every pair interacts, but value 0 is best whatever the others do: pruning alone solves it."""
    pairs = itertools.combinations(range(12), 2)
    factors = [Factor(pair, np.array([[0.0, 2, 2], [2, 5, 3], [2, 3, 4]])) for pair in pairs]
    assert minimise([3] * 12, factors, max_table=9) == Solution((0,) * 12, 0.0, True, 0.0)


def test_beyond_the_cap_greedy_dead_ends_are_repaired() -> None:
    """A wheel of five spokes needs four colours; mini-buckets of single pairs see none of the conflicts."""
    size = 4
    differ = np.where(np.eye(size, dtype=bool), INF, 0.0)
    pairs = [(i, (i + 1) % 5) for i in range(5)] + [(i, 5) for i in range(5)]
    rng = np.random.default_rng(7)
    factors = [Factor(pair, differ) for pair in pairs]
    factors += [Factor((v,), rng.integers(0, 10, size).astype(float)) for v in range(6)]
    solution = minimise([size] * 6, factors, max_table=16)
    assert all(solution.assignment[a] != solution.assignment[b] for a, b in pairs)
    assert solution.lower_bound <= minimise([size] * 6, factors).value <= solution.value


def test_beyond_the_cap_infeasible_is_never_answered() -> None:
    differ = np.where(np.eye(3, dtype=bool), INF, 0.0)
    factors = [Factor(pair, differ) for pair in itertools.combinations(range(5), 2)]
    for cap in (9, 27, 243):
        with pytest.raises(ValueError, match=r"forbidden|no allowed assignment"):
            minimise([3] * 5, factors, max_table=cap)


SMALL = {
    "no_variables": ([], [], Solution((), 0.0, True, 0.0)),
    "constant_factor": ([], [Factor((), np.array(3.5))], Solution((), 3.5, True, 3.5)),
    "no_factors": ([3, 1, 2], [], Solution((0, 0, 0), 0.0, True, 0.0)),
    "only_single_values": ([1, 1], [Factor((1, 0), np.array([[7.0]]))], Solution((0, 0), 7.0, True, 7.0)),
    "single_value_axis_in_the_middle": (
        [2, 1, 2],
        [Factor((2, 1, 0), np.array([[[4.0, 3.0]], [[2.0, 5.0]]]))],
        Solution((0, 0, 1), 2.0, True, 2.0),
    ),
    "ties_go_to_the_lowest": ([4, 4], [Factor((0, 1), np.ones((4, 4)))], Solution((0, 0), 1.0, True, 1.0)),
    "axes_out_of_order": (
        [2, 3],
        [Factor((1, 0), np.array([[3.0, 3.0], [3.0, 1.0], [3.0, 3.0]]))],
        Solution((1, 1), 1.0, True, 1.0),
    ),
    "integer_tables": ([2], [Factor((0,), np.array([2, 1]))], Solution((1,), 1.0, True, 1.0)),
    "same_scope_twice": (
        [2, 2],
        [Factor((0, 1), np.array([[0.0, 9], [9, 2]])), Factor((1, 0), np.array([[INF, 0.0], [0, 0]]))],
        Solution((1, 1), 2.0, True, 2.0),
    ),
}


@pytest.mark.parametrize(("domains", "factors", "solution"), SMALL.values(), ids=SMALL)
def test_small(domains: list[int], factors: list[Factor], solution: Solution) -> None:
    assert minimise(domains, factors) == solution


REFUSED = {
    "empty_domain": ([2, 0], [], "variable 1 has 0 values"),
    "unknown_variable": ([2], [Factor((1,), np.zeros(2))], "factor 0 reads variables"),
    "negative_variable": ([2], [Factor((-1,), np.zeros(2))], "factor 0 reads variables"),
    "variable_twice": ([2], [Factor((0, 0), np.zeros((2, 2)))], "factor 0 reads variables"),
    "wrong_shape": ([2, 3], [Factor((0, 1), np.zeros((3, 2)))], r"shape \(3, 2\)"),
    "nan": ([2], [Factor((0,), np.array([0, math.nan]))], "NaN"),
    "minus_infinity": ([2], [Factor((0,), np.array([0, -INF]))], "-inf"),
    "all_forbidden": ([2], [Factor((0,), np.array([0, INF])), Factor((0,), np.array([INF, 0]))], "forbidden"),
    "constant_forbidden": ([2], [Factor((), np.array(INF))], "forbidden"),
}


@pytest.mark.parametrize(("domains", "factors", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(domains: list[int], factors: list[Factor], message: str) -> None:
    for solve in (minimise, lambda d, f: k_best(d, f, 2)):
        with pytest.raises(ValueError, match=message):
            solve(domains, factors)


def test_k_best_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="asked for 0"):
        k_best([2], [], 0)


def test_k_best_skips_forbidden_and_orders_ties() -> None:
    table = np.array([[1.0, INF, 1.0], [INF, 0.0, 1.0]])
    assignments = [s.assignment for s in k_best([2, 3], [Factor((0, 1), table)], 10)]
    assert assignments[0] == (1, 1)
    assert sorted(assignments[1:]) == [(0, 0), (0, 2), (1, 2)]
