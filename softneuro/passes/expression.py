"""What a tensor is in terms of others, in a normal form in which different spellings of one formula are equal.

Sums and products are flat with their numbers collected, division is multiplication by a reciprocal, small powers
are products, relu, min and max with a number are clips. So ``x * 0.5 * (1 + erf(x / 1.414))`` and
``erf(x * 0.707) + 1) * x / 2`` have one form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from softneuro.ops.pointwise import Instruction, Pointwise, Ref, parse_program
from softneuro.ops.reduce import Reduce
from softneuro.passes.rewrite import Draft

__all__ = ["Apply", "Binding", "Expression", "Leaf", "Number", "Product", "Sum", "close", "expand", "matches",
           "of_program"]

_TOLERANCE = 1e-6  # relative: a number and its float32 rounding are one number


@dataclass(frozen=True)
class Leaf:
    """A tensor that is not looked into; in patterns a variable."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Sum:
    """``constant`` plus all terms."""

    constant: float
    terms: tuple[Expression, ...]


@dataclass(frozen=True)
class Product:
    """``coefficient`` times all factors."""

    coefficient: float
    factors: tuple[Expression, ...]


@dataclass(frozen=True)
class Apply:
    """Any other function; parameters are its numbers (of ``reduce_*`` the axes)."""

    function: str
    arguments: tuple[Expression, ...]
    parameters: tuple[float, ...] = ()


Expression = Leaf | Number | Sum | Product | Apply
Binding = dict[str, str]
"""Variables of a pattern to the tensors that they stand for."""


def close(a: float, b: float) -> bool:
    """Whether two numbers of a formula are the same one, up to float32 rounding."""
    return a == b or math.isclose(a, b, rel_tol=_TOLERANCE)


def _rank(expression: Expression) -> tuple[int, str]:
    """Order of the operands of sums and products: leaves first."""
    return (not isinstance(expression, Leaf), repr(expression))


def _sum(operands: Sequence[Expression]) -> Expression:
    constant = 0.0
    terms: list[Expression] = []
    for operand in operands:
        if isinstance(operand, Number):
            constant += operand.value
        elif isinstance(operand, Sum):
            constant += operand.constant
            terms.extend(operand.terms)
        else:
            terms.append(operand)
    if not terms:
        return Number(constant)
    return terms[0] if len(terms) == 1 and constant == 0 else Sum(constant, tuple(sorted(terms, key=_rank)))


def _product(operands: Sequence[Expression]) -> Expression:
    coefficient = 1.0
    factors: list[Expression] = []
    for operand in operands:
        if isinstance(operand, Number):
            coefficient *= operand.value
        elif isinstance(operand, Product):
            coefficient *= operand.coefficient
            factors.extend(operand.factors)
        else:
            factors.append(operand)
    if not factors:
        return Number(coefficient)
    is_one = len(factors) == 1 and coefficient == 1
    return factors[0] if is_one else Product(coefficient, tuple(sorted(factors, key=_rank)))


def _reciprocal(x: Expression) -> Expression:
    if isinstance(x, Number) and x.value != 0:
        return Number(1.0 / x.value)
    if isinstance(x, Product) and x.coefficient not in (0, 1):
        return _product([Number(1.0 / x.coefficient), _reciprocal(_product(x.factors))])
    return Apply("reciprocal", (x,))


def _power(base: Expression, exponent: Expression) -> Expression:
    match exponent:
        case Number(value) if value in (2, 3):
            return _product([base] * int(value))
        case Number(0.5):
            return Apply("sqrt", (base,))
        case Number(-0.5):
            return _reciprocal(Apply("sqrt", (base,)))
        case Number(-1):
            return _reciprocal(base)
    return Apply("pow", (base, exponent))


def _square_root(x: Expression) -> Expression:
    if isinstance(x, Apply) and x.function == "reciprocal":
        return _reciprocal(_square_root(x.arguments[0]))
    return Apply("sqrt", (x,))


def _clip(x: Expression, low: float, high: float) -> Expression:
    """x between two bounds; a clip of a clip is one."""
    if isinstance(x, Apply) and x.function == "clip":
        inner_low, inner_high = x.parameters
        return Apply("clip", x.arguments, (min(max(inner_low, low), high), min(max(inner_high, low), high)))
    return Apply("clip", (x,), (low, high))


def _largest(a: Expression, b: Expression) -> Expression:
    if isinstance(a, Number):
        a, b = b, a
    return _clip(a, b.value, math.inf) if isinstance(b, Number) else Apply("max", (a, b))


def _smallest(a: Expression, b: Expression) -> Expression:
    if isinstance(a, Number):
        a, b = b, a
    return _clip(a, -math.inf, b.value) if isinstance(b, Number) else Apply("min", (a, b))


_NORMAL: dict[str, Callable[..., Expression]] = {
    "add": lambda a, b: _sum([a, b]),
    "sub": lambda a, b: _sum([a, _product([Number(-1.0), b])]),
    "neg": lambda a: _product([Number(-1.0), a]),
    "mul": lambda a, b: _product([a, b]),
    "div": lambda a, b: _product([a, _reciprocal(b)]),
    "reciprocal": _reciprocal,
    "pow": _power,
    "sqrt": _square_root,
    "relu": lambda a: _clip(a, 0.0, math.inf),
    "clip": lambda a, low, high: _clip(a, low.value, high.value),
    "max": _largest,
    "min": _smallest,
}  # fmt: skip
"""Functions that have a normal form other than their own application."""


def _apply(instruction: Instruction, operands: Sequence[Expression]) -> Expression:
    normal = _NORMAL.get(instruction.opcode)
    if normal is not None:
        return normal(*operands)
    count = len(instruction.values)
    return Apply(instruction.opcode, tuple(operands[:count]), instruction.parameters)


def of_program(program: str, inputs: Sequence[Expression]) -> Expression:
    """The result of a pointwise program on these inputs."""
    results: list[Expression] = []
    for instruction in parse_program(program):
        operands = [(inputs if o.kind == "x" else results)[o.index] if isinstance(o, Ref) else Number(float(o))
                    for o in instruction.operands]
        results.append(_apply(instruction, operands))
    return results[-1]


def expand(draft: Draft, tensor: str, depth: int, *, root: bool = True) -> Expression:
    """The tensor in terms of the tensors at most ``depth`` layers before it.

    Only pointwise layers and reductions that keep the rank are looked into, and below the root only where nothing
    else reads the result.
    """
    layer = draft.producer(tensor) if root else draft.fusible(tensor)
    if layer is None or depth == 0:
        return Leaf(tensor)
    if isinstance(layer.op, Pointwise):
        return of_program(layer.op.program, [expand(draft, name, depth - 1, root=False) for name in layer.inputs])
    axes = _reduced_axes(draft, layer.op, layer.inputs)
    if axes is not None and isinstance(layer.op, Reduce):
        return Apply(f"reduce_{layer.op.kind}", (expand(draft, layer.inputs[0], depth - 1, root=False),), axes)
    return Leaf(tensor)


def _reduced_axes(draft: Draft, op: Any, inputs: Sequence[str]) -> tuple[float, ...] | None:
    """The axes of a reduction that keeps the rank, counted from the end; None for anything else."""
    rank = draft.rank(inputs[0]) if inputs else None
    if not isinstance(op, Reduce) or not op.keepdims or rank is None or any(inputs[1:]):
        return None
    axes = op.reduced(rank)
    return None if axes is None else tuple(float(axis - rank) for axis in axes)


def matches(pattern: Expression, found: Expression, binding: Binding) -> Iterator[Binding]:
    """Every way to read ``found`` as the pattern, with the variables' tensors; the same variable is one tensor."""
    match pattern, found:
        case Leaf(variable), Leaf(tensor):
            if binding.get(variable, tensor) == tensor:
                yield {**binding, variable: tensor}
        case Number(a), Number(b):
            if close(a, b):
                yield binding
        case (Sum(a, ours), Sum(b, theirs)) | (Product(a, ours), Product(b, theirs)):
            if close(a, b) and len(ours) == len(theirs) <= 4:
                for order in itertools.permutations(theirs):
                    yield from _match_all(ours, order, binding)
        case Apply(f, ours, numbers), Apply(g, theirs, others):
            if f == g and len(ours) == len(theirs) and all(map(close, numbers, others)):
                yield from _match_all(ours, theirs, binding)


def _match_all(patterns: Sequence[Expression], found: Sequence[Expression], binding: Binding) -> Iterator[Binding]:
    if not patterns:
        yield binding
        return
    for first in matches(patterns[0], found[0], binding):
        yield from _match_all(patterns[1:], found[1:], first)
