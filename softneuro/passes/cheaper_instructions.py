"""Instructions with a number become cheaper ones that compute the same up to rounding.

    div(x0,6.0)     →     mul(x0,0.16666666666666666)
    pow(x0,2.0)     →     mul(x0,x0)
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.errors import InputError
from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Instruction, Pointwise, Ref, TypedInstruction, format_program, typed_program
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["cheaper_instructions"]


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
        program = format_program([_cheaper(typed) for typed in typed_program(layer.op.program, dtypes)])
    except InputError as error:
        return str(error)
    if program == layer.op.program:
        return False
    draft.replace(layer, replace(layer, op=Pointwise(program)))
    return True


def _cheaper(typed: TypedInstruction) -> Instruction:
    instruction = typed.instruction
    if not typed.working.is_float:
        return instruction
    match instruction.opcode, instruction.operands:
        case "div", (Ref() as value, float(divisor)) if divisor != 0:
            return Instruction("mul", (value, 1.0 / divisor))
        case "pow", (Ref() as base, float(exponent)) if exponent == 2:
            return Instruction("mul", (base, base))
        case "pow", (Ref() as base, float(exponent)) if exponent == 0.5:
            return Instruction("sqrt", (base,))
        case "pow", (Ref() as base, float(exponent)) if exponent == -1:
            return Instruction("reciprocal", (base,))
    return instruction
