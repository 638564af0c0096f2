"""A program of pointwise functions in one layer: additions, activations, comparisons and so on, as text.

    add(x0,x1);relu(t0)          clip(x0,0.0,6.0)          where(x0,x1,x2)          cast_f32(x0)

Instructions are joined by ``;``. Operands are inputs ``x<i>``, results of earlier instructions ``t<i>``, or
numbers; the last instruction is the result. All inputs from x0 to the highest must be used.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.pointwise_opcodes import OPCODES, Opcode
from softneuro.types import Array, DType, TensorType

__all__ = ["OPCODES", "Instruction", "Opcode", "Pointwise", "Ref", "TypedInstruction", "format_program", "inline",
           "input_count", "parse_program", "renumber", "typed_program"]


@dataclass(frozen=True)
class Ref:
    """An operand that is not a number: input ``x<index>`` or result ``t<index>``."""

    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}{self.index}"


@dataclass(frozen=True)
class Instruction:
    """One opcode and its operands: values (`Ref` or number), then the opcode's parameters (numbers)."""

    opcode: str
    operands: tuple[Ref | float, ...]

    def __str__(self) -> str:
        texts = (str(o) if isinstance(o, Ref) else repr(float(o)) for o in self.operands)
        return f"{self.opcode}({','.join(texts)})"

    @property
    def values(self) -> tuple[Ref | float, ...]:
        """The operands without the parameters."""
        return self.operands[: OPCODES[self.opcode].operands]

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers after the values."""
        return tuple(float(o) for o in self.operands[OPCODES[self.opcode].operands :])  # type: ignore[arg-type]


Program = tuple[Instruction, ...]

_INSTRUCTION = re.compile(r"^(?P<opcode>[a-z_0-9]+)\((?P<operands>[^()]*)\)$")
_REF = re.compile(r"^(?P<kind>[xt])(?P<index>0|[1-9][0-9]*)$")


def _parse_operand(text: str) -> Ref | float:
    match = _REF.match(text)
    return Ref(match["kind"], int(match["index"])) if match else float(text)


def _parse_instruction(text: str, index: int) -> Instruction:
    match = _INSTRUCTION.match(text.strip())
    if match is None or match["opcode"] not in OPCODES:
        raise ValueError(f"instruction {text!r}: needed opcode(operands) with one of {', '.join(OPCODES)}")
    opcode = OPCODES[match["opcode"]]
    try:
        operands = tuple(_parse_operand(o.strip()) for o in match["operands"].split(","))
    except ValueError as error:
        raise ValueError(f"instruction {text!r}: needed operands x<i>, t<i> or numbers") from error
    if len(operands) != opcode.operands + opcode.parameters:
        needed = opcode.operands + opcode.parameters
        raise ValueError(f"instruction {text!r}: found {len(operands)} operands, needed {needed}")
    if any(isinstance(o, Ref) for o in operands[opcode.operands :]):
        raise ValueError(f"instruction {text!r}: needed numbers for its last {opcode.parameters} operands")
    if any(isinstance(o, Ref) and o.kind == "t" and o.index >= index for o in operands):
        raise ValueError(f"instruction {text!r}: needed results of earlier instructions only")
    return Instruction(match["opcode"], operands)


@functools.lru_cache(maxsize=4096)
def parse_program(text: str) -> Program:
    """The instructions of a program's text. Raises ValueError that says what was found and needed."""
    program = tuple(_parse_instruction(part, index) for index, part in enumerate(text.split(";")))
    used = {o.index for i in program for o in i.operands if isinstance(o, Ref) and o.kind == "x"}
    if used != set(range(len(used))) or not used:
        raise ValueError(f"program {text!r}: found inputs {sorted(used)}, needed at least x0 and no gaps")
    return program


def format_program(program: Sequence[Instruction]) -> str:
    """The text of a program; inverse of `parse_program`."""
    return ";".join(map(str, program))


def input_count(program: str) -> int:
    """How many inputs a program takes."""
    operands = (o for instruction in parse_program(program) for o in instruction.operands)
    return 1 + max(o.index for o in operands if isinstance(o, Ref) and o.kind == "x")


def _replace(instruction: Instruction, refs: Mapping[Ref, Ref]) -> Instruction:
    operands = tuple(refs.get(o, o) if isinstance(o, Ref) else o for o in instruction.operands)
    return Instruction(instruction.opcode, operands)


def inline(outer: str, position: int, inner: str) -> str:
    """The program that computes ``outer`` with its input ``position`` replaced by the result of ``inner``.

    Its inputs are those of outer before ``position``, then inner's, then those of outer after ``position``.
    """
    inputs, first, second = input_count(inner), parse_program(inner), parse_program(outer)
    moved_in = {Ref("x", i): Ref("x", position + i) for i in range(inputs)}
    moved_out = {Ref("x", i): Ref("x", i + inputs - 1) for i in range(position + 1, input_count(outer))}
    moved_out |= {Ref("t", i): Ref("t", i + len(first)) for i in range(len(second))}
    moved_out[Ref("x", position)] = Ref("t", len(first) - 1)
    merged = [*(_replace(i, moved_in) for i in first), *(_replace(i, moved_out) for i in second)]
    return format_program(merged)


def renumber(program: str, positions: Sequence[int]) -> str:
    """The program that reads input ``positions[i]`` where it read input i, to join inputs that are one."""
    refs = {Ref("x", old): Ref("x", new) for old, new in enumerate(positions)}
    return format_program([_replace(i, refs) for i in parse_program(program)])


def _fits(dtype: DType, takes: str) -> bool:
    if takes == "float":
        return dtype.is_float
    if takes == "integer":
        return dtype.numpy.kind in "iu"
    return takes == "any" or (dtype is DType.BOOL) == (takes == "bool")


def _main_value(opcode: str) -> int:
    """Which value has the data type that the result (if not fixed) and the parameters have."""
    return 1 if opcode == "where" else 0


def _value_dtypes(instruction: Instruction, found: Sequence[DType | None]) -> list[DType]:
    """Data types of the values with numbers resolved: a number takes the type of the values beside it.

    found: one per value, None for numbers. Floats of different width meet in the wider one, so that a reference
    can run on float64 inputs. Raises InputError when the types do not fit the opcode.
    """
    opcode = instruction.opcode
    free = {"where": (0,), "pow": (1,)}.get(opcode, ())
    bound = [dtype for i, dtype in enumerate(found) if i not in free and dtype is not None]
    common = bound[0] if bound else DType.BOOL if OPCODES[opcode].takes == "bool" else DType.F32
    if bound and all(dtype.is_float for dtype in bound):
        common = DType.of(np.result_type(*(dtype.numpy for dtype in bound)))
    elif any(dtype is not common for dtype in bound):
        raise InputError(f"instruction {instruction} has values of {', '.join(bound)}, needed one data type")
    if not _fits(common, OPCODES[opcode].takes):
        raise InputError(f"instruction {instruction} has values of {common}, needed {OPCODES[opcode].takes}")
    if opcode == "where" and found[0] not in (DType.BOOL, None):
        raise InputError(f"instruction {instruction} has a condition of {found[0]}, needed bool")
    defaults = [DType.BOOL if opcode == "where" and i == 0 else common for i in range(len(found))]
    return [dtype or default for dtype, default in zip(found, defaults, strict=True)]


@dataclass(frozen=True)
class TypedInstruction:
    """An instruction with the data types of its values, of the one it works in, and of its result."""

    instruction: Instruction
    values: tuple[DType, ...]
    working: DType
    result: DType


@functools.lru_cache(maxsize=4096)
def typed_program(program: str, inputs: tuple[DType, ...]) -> tuple[TypedInstruction, ...]:
    """The instructions with their data types. Raises InputError when types do not fit an opcode."""
    typed: list[TypedInstruction] = []
    for instruction in parse_program(program):
        found = [None if not isinstance(o, Ref) else inputs[o.index] if o.kind == "x" else typed[o.index].result
                 for o in instruction.values]
        values = tuple(_value_dtypes(instruction, found))
        working = values[_main_value(instruction.opcode)]
        result = OPCODES[instruction.opcode].result or working
        typed.append(TypedInstruction(instruction, values, working, result))
    return tuple(typed)


def _number(value: float, dtype: DType) -> Any:
    """A literal as a value of a data type; integers are truncated and clamped into their range."""
    if dtype.is_float or dtype in (DType.C64, DType.C128):
        return value
    if dtype is DType.BOOL:
        return bool(value)
    limits = np.iinfo(dtype.numpy)
    return int(limits.max) if value >= limits.max else int(max(limits.min, value))


def _evaluate(typed: TypedInstruction, inputs: Sequence[Array], results: Sequence[Array]) -> Array:
    instruction = typed.instruction
    operands = []
    for operand, dtype in zip(instruction.values, typed.values, strict=True):
        if isinstance(operand, Ref):
            operands.append((inputs if operand.kind == "x" else results)[operand.index])
        else:
            operands.append(np.asarray(_number(operand, dtype), dtype.numpy))
    parameters = [_number(p, typed.working) for p in instruction.parameters]
    result = OPCODES[instruction.opcode].reference(*operands, *parameters)
    return np.asarray(result).astype(typed.result.numpy, copy=False)


@dataclass(frozen=True)
class Pointwise(Op):
    """A pointwise program over n inputs, all broadcast together as numpy does.

    Raises ValueError when the program cannot be parsed.
    """

    name: ClassVar[str] = "pointwise"
    program: str

    def __post_init__(self) -> None:
        parse_program(self.program)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        present = [t for t in types if t is not None]
        needed = input_count(self.program)
        if len(present) != len(types) or len(types) != needed:
            raise InputError(f"program {self.program} has {len(present)} inputs, needed {needed}")
        try:
            shape = np.broadcast_shapes(*(t.shape for t in present))
        except ValueError as error:
            shapes = ", ".join(str(t.shape) for t in present)
            raise InputError(f"inputs have shapes {shapes}, needed shapes that broadcast together") from error
        typed = typed_program(self.program, tuple(t.dtype for t in present))
        return (TensorType(typed[-1].result, tuple(shape)),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        present = [np.asarray(v) for v in inputs if v is not None]
        results: list[Array] = []
        with np.errstate(all="ignore"):
            for typed in typed_program(self.program, tuple(DType.of(v.dtype) for v in present)):
                results.append(_evaluate(typed, present, results))
        shape = np.broadcast_shapes(*(v.shape for v in present))
        return (np.ascontiguousarray(np.broadcast_to(results[-1], shape)).reshape(shape),)
