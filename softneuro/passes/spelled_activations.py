"""Activations that are spelled out in arithmetic become one instruction.

    x ─┬──────────── Mul ── y
       └─ Sigmoid ───┘            →     x ── silu ── y
"""

from __future__ import annotations

import math
from dataclasses import replace

from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.passes.expression import Apply, Expression, Leaf, Number, Product, Sum, expand, matches, of_program
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["SPELLINGS", "spelled_activations"]

_HALF_ROOT = 1 / math.sqrt(2)
_GELU_TANH = math.sqrt(2 / math.pi)

SPELLINGS: tuple[tuple[str, str], ...] = (
    ("exp(x0);add(t0,1.0);log(t1)", "softplus(x0)"),
    ("neg(x0);exp(t0);add(t1,1.0);reciprocal(t2)", "sigmoid(x0)"),
    ("neg(x0);exp(t0);add(t1,1.0);div(x0,t2)", "silu(x0)"),
    ("sigmoid(x0);mul(x0,t0)", "silu(x0)"),
    ("add(x0,3.0);clip(t0,0.0,6.0);div(t1,6.0)", f"hard_sigmoid(x0,{1 / 6},0.5)"),
    ("add(x0,3.0);clip(t0,0.0,6.0);mul(x0,t1);div(t2,6.0)", "hard_swish(x0)"),
    (f"mul(x0,{1 / 6});add(t0,0.5);clip(t1,0.0,1.0);mul(x0,t2)", "hard_swish(x0)"),
    (f"hard_sigmoid(x0,{1 / 6},0.5);mul(x0,t0)", "hard_swish(x0)"),
    ("softplus(x0);tanh(t0);mul(x0,t1)", "mish(x0)"),
    ("exp(x0);add(t0,1.0);log(t1);tanh(t2);mul(x0,t3)", "mish(x0)"),
    (f"mul(x0,{_HALF_ROOT});erf(t0);add(t1,1.0);mul(x0,t2);mul(t3,0.5)", "gelu(x0)"),
    (f"mul(x0,x0);mul(t0,x0);mul(t1,0.044715);add(x0,t2);mul(t3,{_GELU_TANH});tanh(t4);add(t5,1.0);mul(x0,t6);mul(t7,0.5)",
     "gelu_tanh(x0)"),
    (f"mul(x0,x0);mul(t0,0.044715);add(t1,1.0);mul(x0,t2);mul(t3,{_GELU_TANH});tanh(t4);add(t5,1.0);mul(x0,t6);mul(t7,0.5)",
     "gelu_tanh(x0)"),
)  # fmt: skip
"""Programs, and the instruction that computes the same."""

_PATTERNS: tuple[tuple[Expression, str], ...] = tuple((of_program(p, [Leaf("x0")]), new) for p, new in SPELLINGS)
_DEPTH = 10  # layers that the longest spelling is made of, and one more
_LAST = frozenset({"mul", "div", "reciprocal", "log", "relu", "clip", "min", "max", "prelu"})  # of a spelling


def spelled_activations(graph: Graph) -> Graph:
    """Compares normal forms, so the order of operands and where numbers are multiplied in do not matter."""
    return sweep(graph, _respell)


def _respell(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or parse_program(layer.op.program)[-1].opcode not in _LAST:
        return False
    if not draft.is_float(layer.outputs[0]):
        return "its data type is not known to be a float"
    before: Expression | None = None
    for depth in range(1, _DEPTH + 1):
        expression = expand(draft, layer.outputs[0], depth)
        if expression == before:
            break
        before = expression
        found = _named_activation(expression)
        if found is not None:
            program, source = found
            if (layer.op.program, layer.inputs) != (program, (source,)):
                draft.replace(layer, replace(layer, op=Pointwise(program), inputs=(source,)))
                return True
    return False


def _named_activation(expression: Expression) -> tuple[str, str] | None:
    """The instruction and the tensor that it is applied to."""
    match expression:
        case Apply("clip", (Leaf(x),), (low, high)):
            return ("relu(x0)" if (low, high) == (0.0, math.inf) else f"clip(x0,{low!r},{high!r})"), x
        case Apply("clip", (Sum(beta, (Product(alpha, (Leaf(x),)),)),), (0.0, 1.0)):
            return f"hard_sigmoid(x0,{alpha!r},{beta!r})", x
        case Apply("prelu", (Leaf(x), Number(slope))):
            return f"leaky_relu(x0,{slope!r})", x
        case Apply("max", (Leaf(x), Product(slope, (Leaf(same),))) | (Product(slope, (Leaf(same),)), Leaf(x))):
            return (f"leaky_relu(x0,{slope!r})", x) if same == x and 0 <= slope <= 1 else None
    for pattern, program in _PATTERNS:
        if type(pattern) is type(expression):
            for binding in matches(pattern, expression, {}):
                return program, binding["x0"]
    return None
