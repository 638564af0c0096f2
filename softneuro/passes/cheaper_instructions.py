"""Instructions with a number become cheaper ones that compute the same up to rounding.

    div(x0,6.0)     →     mul(x0,0.16666666666666666)
    pow(x0,2.0)     →     mul(x0,x0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from softneuro.errors import InputError
from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import (
    Instruction,
    Pointwise,
    Ref,
    TypedInstruction,
    format_program,
    parse_program,
    typed_program,
)
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import DType

__all__ = ["cheaper_instructions"]

_POWERS: Mapping[float, str] = {
    2.0: "mul(x0,x0)",
    3.0: "mul(x0,x0);mul(t0,x0)",
    0.5: "sqrt(x0)",
    0.75: "sqrt(x0);sqrt(t0);mul(t0,t1)",
    -0.5: "sqrt(x0);reciprocal(t0)",
    -0.75: "sqrt(x0);sqrt(t0);mul(t0,t1);reciprocal(t2)",  # local response normalisation
    -1.0: "reciprocal(x0)",
}
"""Programs for powers of x0, by exponent."""


def cheaper_instructions(graph: Graph) -> Graph:
    """On floats only: a division of integers truncates."""
    return sweep(graph, _cheapen)


def _cheapen(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or not any(o in layer.op.program for o in ("div", "pow")):
        return False
    dtypes = tuple(dtype for dtype in map(draft.dtype, layer.inputs) if dtype is not None)
    if len(dtypes) != len(layer.inputs):
        return "the data types of the inputs are not known"
    try:
        program = _cheaper_program(layer.op.program, dtypes)
    except InputError as error:
        return str(error)
    if program == layer.op.program:
        return False
    draft.replace(layer, replace(layer, op=Pointwise(program)))
    return True


def _cheaper_program(program: str, dtypes: tuple[DType, ...]) -> str:
    made: list[Instruction] = []
    results: dict[Ref, Ref] = {}
    for index, typed in enumerate(typed_program(program, dtypes)):
        operands = tuple(results.get(o, o) if isinstance(o, Ref) else o for o in typed.instruction.operands)
        made.extend(_cheaper(Instruction(typed.instruction.opcode, operands), typed, len(made)))
        results[Ref("t", index)] = Ref("t", len(made) - 1)
    return format_program(made)


def _cheaper(instruction: Instruction, typed: TypedInstruction, start: int) -> tuple[Instruction, ...]:
    """What computes the instruction, from result number ``start`` on."""
    if typed.working.is_float:
        match instruction.opcode, instruction.operands:
            case "div", (Ref() as value, float(divisor)) if divisor != 0:
                return (Instruction("mul", (value, 1.0 / divisor)),)
            case "pow", (Ref() as base, float(exponent)) if exponent in _POWERS:
                return _power(base, exponent, start)
    return (instruction,)


def _power(base: Ref, exponent: float, start: int) -> tuple[Instruction, ...]:
    parts = []
    for part in parse_program(_POWERS[exponent]):
        refs = (o for o in part.operands if isinstance(o, Ref))
        operands = tuple(base if ref.kind == "x" else Ref("t", start + ref.index) for ref in refs)
        parts.append(Instruction(part.opcode, operands))
    return tuple(parts)
