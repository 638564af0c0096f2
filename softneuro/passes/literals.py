"""Constants with one element become numbers in the pointwise programs that read them.

    x ──── add(x0,x1)          x ── add(x0,3.0)
    [3] ───┘             →
"""

from __future__ import annotations

from dataclasses import replace

from softneuro.errors import InputError
from softneuro.graph import Graph, Layer
from softneuro.ops.pointwise import Instruction, Pointwise, Ref, format_program, parse_program, typed_program
from softneuro.passes.rewrite import Draft, Outcome, sweep
from softneuro.types import DType

__all__ = ["write_literals"]

_QUANTISED = (DType.I8, DType.U8, DType.I16, DType.U16)


def write_literals(graph: Graph) -> Graph:
    """A number takes the data type of the values beside it, so only constants of that type are written so.

    Not where quantised tensors are read or made: every such layer has numbers of its own, and would be a kernel of its own.
    """
    return sweep(graph, _write)


def _write(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise):
        return False
    numbers = _numbers(draft, layer)
    if not numbers:
        return False
    if any(draft.dtype(name) in _QUANTISED for name in (*layer.inputs, *layer.outputs)):
        return "it reads or makes quantised numbers"
    kept = [i for i in range(len(layer.inputs)) if i not in numbers]
    operands: dict[Ref, Ref | float] = {Ref("x", i): number for i, number in numbers.items()}
    operands |= {Ref("x", old): Ref("x", new) for new, old in enumerate(kept)}
    before = parse_program(layer.op.program)
    after = [Instruction(i.opcode, tuple(operands.get(o, o) if isinstance(o, Ref) else o for o in i.operands))
             for i in before]
    if not all(_typed_by_value(instruction) for instruction in after):
        return "a number would have no value beside it that gives it its data type"
    text = format_program(after)
    dtypes = [draft.dtype(name) for name in layer.inputs]
    known = tuple(dtype for dtype in dtypes if dtype is not None)
    if len(known) != len(dtypes):
        return "the data types of the inputs are not known"
    try:
        same = _types(text, tuple(known[i] for i in kept)) == _types(layer.op.program, known)
    except InputError as error:
        return str(error)
    if not same:
        return "the data type would change"
    draft.replace(layer, replace(layer, op=Pointwise(text), inputs=tuple(layer.inputs[i] for i in kept)))
    return True


def _numbers(draft: Draft, layer: Layer) -> dict[int, float]:
    """The inputs that are one number and do not raise the rank of the result, by position."""
    values = {i: draft.constant(name) for i, name in enumerate(layer.inputs)}
    single = {i: v for i, v in values.items() if v is not None and v.size == 1 and v.dtype.kind not in "bcO"}
    ranks = [draft.rank(name) for i, name in enumerate(layer.inputs) if i not in single]
    rank = max((r for r in ranks if r is not None), default=0)
    return {i: float(v.reshape(())) for i, v in single.items() if v.ndim <= rank} if ranks else {}


def _types(program: str, inputs: tuple[DType, ...]) -> list[tuple[DType, ...]]:
    """The data types of all values and results."""
    return [(*typed.values, typed.result) for typed in typed_program(program, inputs)]


def _typed_by_value(instruction: Instruction) -> bool:
    """Whether a value that is not a number decides the data type of every number in the instruction."""
    values = instruction.values
    deciding = {"where": values[1:], "pow": values[:1]}.get(instruction.opcode, values)
    return any(isinstance(value, Ref) for value in deciding)
