"""A residual addition moves into the epilogue of the layer that makes one of its operands.

    x ── Conv ── add ── relu          x ── Conv(epilogue='before:relu')
    z ───────────┘              →     z ───┘

The relu follows in activation_into_epilogue; a Conv with an activation adds the residual after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from softneuro.graph import Graph, Layer
from softneuro.ops.epilogue import ACTIVATIONS
from softneuro.ops.pointwise import Pointwise, parse_program
from softneuro.passes.linear import LinearOp, linear_op, with_epilogue
from softneuro.passes.rewrite import Draft, Outcome, sweep

__all__ = ["residual_into_epilogue"]

_ADDITIONS = ("add(x0,x1)", "add(x1,x0)")


@dataclass(frozen=True)
class _Candidate:
    """A layer that could take the addition: the place of its result among the operands, and the op."""

    maker: Layer
    op: LinearOp
    position: int


def residual_into_epilogue(graph: Graph) -> Graph:
    """Needs operands of one shape.

    Of two convolutions the later one adds, unless an activation follows that only the other one could take too.
    """
    return sweep(graph, _absorb)


def _absorb(draft: Draft, layer: Layer) -> Outcome:
    if not isinstance(layer.op, Pointwise) or layer.op.program not in _ADDITIONS:
        return False
    operands = layer.inputs
    if not any(linear_op(draft, name) for name in operands):
        return False
    if any(draft.constant(name) is not None for name in operands):
        return "an operand is a constant"
    types = {draft.hint(name) for name in (*operands, *layer.outputs)}
    if len(types) != 1 or None in types:
        return "the operands are not known to have one shape"
    candidates = _candidates(draft, operands)
    if not candidates:
        return "the operands are read elsewhere too, or have a residual already"
    activated = _is_activated(draft, layer.outputs[0])
    chosen = max(candidates, key=lambda c: (activated and not c.op.epilogue.activation, draft.place(c.maker)))
    epilogue = replace(chosen.op.epilogue, residual="after" if chosen.op.epilogue.activation else "before")
    draft.replace(layer, with_epilogue(chosen.maker, chosen.op, epilogue, layer.outputs, operands[1 - chosen.position]))
    return True


def _candidates(draft: Draft, operands: tuple[str, ...]) -> list[_Candidate]:
    found: list[_Candidate] = []
    for position, name in enumerate(operands):
        maker, op = draft.fusible(name), linear_op(draft, name)
        if maker is not None and op is not None and not op.epilogue.residual:
            found.append(_Candidate(maker, op, position))
    return found


def _is_activated(draft: Draft, tensor: str) -> bool:
    """Whether all that follows is an activation that an epilogue could apply."""
    if not draft.read_once(tensor):
        return False
    op = draft.readers(tensor)[0].op
    program = parse_program(op.program) if isinstance(op, Pointwise) else ()
    return len(program) == 1 and program[0].opcode in ACTIVATIONS
