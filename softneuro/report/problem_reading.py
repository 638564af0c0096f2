"""Problem texts as people type them, read with every mistake named."""

from __future__ import annotations

import difflib

from softneuro.errors import InputError
from softneuro.ops.table import OPS
from softneuro.problem import Problem
from softneuro.types import TensorType

__all__ = ["FORM", "read_problem"]

FORM = "conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)) f32[1,64,56,56] *f32[64,64,3,3] -> f32[1,64,56,56] @1"
_MOST_THREADS = 1024
_MOST_SIZE = 1 << 40


def read_problem(text: str) -> Problem:
    """The problem of a text, its outputs checked.

    Raises InputError with what is wrong and the form for anything else.
    """
    bare = " ".join(text.split())
    name = bare.partition("(")[0]
    if name.isidentifier() and name not in OPS:
        near = difflib.get_close_matches(name, OPS, 3)
        raise _wrong(f"found the op {name!r}, needed {' or '.join(near) or 'one of ' + ', '.join(OPS)}")
    try:
        problem = Problem.parse(bare)
    except Exception as error:  # texts are parsed by parts that trust each other: anything may come of a wrong one
        raise _wrong(_message(error, bare)) from error
    _check_sizes(problem)
    try:
        outputs = tuple(problem.op.infer(problem.inputs))
        problem.macs()
    except Exception as error:  # ops trust what the importer checked
        raise _wrong(f"the op does not fit its inputs: {_message(error, bare)}") from error
    if outputs != problem.outputs:
        raise _wrong(f"found outputs {_texts(problem.outputs)}, needed {_texts(outputs)}")
    return problem


def _check_sizes(problem: Problem) -> None:
    if not 1 <= problem.threads <= _MOST_THREADS:
        raise _wrong(f"found {problem.threads} threads, needed 1 to {_MOST_THREADS}")
    for type_ in (*problem.inputs, *problem.outputs):
        if type_ is not None and type_.size > _MOST_SIZE:
            raise _wrong(f"found {type_}, needed at most {_MOST_SIZE} elements")


def _wrong(what: str) -> InputError:
    return InputError(f"problem: {what} (the form is: {FORM})")


def _message(error: Exception, text: str) -> str:
    """The error's message without the whole text in it, which the person has before their eyes."""
    message = " ".join(str(error).split()).removeprefix(f"problem {text!r}: ")
    return message or type(error).__name__


def _texts(types: tuple[TensorType, ...]) -> str:
    return " ".join(map(str, types)) or "none"
