"""Layers that run graphs: If, Loop, Scan, and Call, one graph run once. The host decides what runs next.

They live above `reference`, which runs their bodies, and not in ops/, which it imports. They hold graphs, so they
have no text form and are not in the table of ops.

Body graphs take the tensors they capture from around them as inputs of the same name; the layer has them as its
last inputs, in the order of its ``captures``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from softneuro import reference
from softneuro.errors import DynamicShape, InputError
from softneuro.graph import Graph, GraphInput
from softneuro.limits import in_force
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.field_types import conforms, field_types
from softneuro.ops.parameters import tensor
from softneuro.specialise import specialise
from softneuro.types import Array, DType, TensorType

__all__ = ["CONTROL_OPS", "BodyOp", "Call", "If", "Loop", "RunBody", "Scan", "interpreted"]

RunBody: TypeAlias = Callable[[Graph, Mapping[str, Any]], list[Array]]
"""Gives the outputs of a body, its inputs picked by name from values."""


def _output_types(body: Graph, types: Mapping[str, TensorType | None]) -> tuple[TensorType, ...]:
    """Types of the body's outputs for these inputs. Raises DynamicShape when one depends on the data of the run."""
    known = {name: type_ for name, type_ in types.items() if type_ is not None}
    if len(known) < len(types):
        raise DynamicShape("an input of the body is absent, needed all of them to know its types")
    typed = replace(body, inputs={name: GraphInput(type_.dtype, type_.shape) for name, type_ in known.items()})
    found = specialise(typed, {name: type_.shape for name, type_ in known.items()}).types
    for name in body.outputs:
        if name not in found:
            raise DynamicShape(f"the shape of the body's output {name!r} depends on the data of the run")
    return tuple(found[name] for name in body.outputs)


def interpreted(body: Graph, values: Mapping[str, Any]) -> list[Array]:
    """The body's outputs by the oracle, with its inputs picked by name."""
    found = reference.run(body, {name: values[name] for name in body.inputs})
    return [found[name] for name in body.outputs]


class BodyOp(Op):
    """Base of the ops that hold graphs: how plans write and read them."""

    def bodies(self) -> dict[str, Graph]:
        """The graphs by field name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Graph)}

    def body_fields(self) -> dict[str, Any]:
        """The other fields as plain data: numbers, texts and lists of them."""
        return {name: _plain(value) for name, value in vars(self).items() if not isinstance(value, Graph)}

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        return self.compute(inputs, interpreted)

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        """The outputs, where ``run`` gives those of the bodies."""
        raise NotImplementedError(self.name)

    def inner_types(self, types: Types) -> list[tuple[Graph, Types]]:
        """The bodies and the types of their inputs in order, as far as these are known, for inputs of ``types``."""
        return []

    def may_grow(self) -> bool:
        return False  # the layers of the bodies tell

    @classmethod
    def from_bodies(cls, fields: Mapping[str, Any], bodies: Mapping[str, Graph]) -> Self:
        """Inverse of `bodies` and `body_fields`. Raises TypeError or ValueError for anything else."""
        found = {**bodies, **{name: _from_plain(name, value) for name, value in fields.items()}}
        wanted = field_types(cls)
        for name, value in found.items():
            if name not in wanted or not conforms(value, wanted[name]):
                raise ValueError(f"{cls.name}: found {name}={value!r:.80}, needed {wanted.get(name, 'no such field')}")
        return cls(**found)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, TensorType) else value


def _from_plain(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(TensorType.parse(item) for item in value) if name == "empty" else tuple(value)


@dataclass(frozen=True, eq=False)
class Call(BodyOp):
    """One graph, run once. Inputs: the graph's inputs in order. label: which branch it is, if it is one."""

    name: ClassVar[str] = "call"
    body: Graph
    label: str = ""

    def body_run_once(self) -> Graph:
        return self.body

    def body_label(self) -> str:
        return self.label

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return _output_types(self.body, dict(zip(self.body.inputs, types, strict=True)))

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        return tuple(run(self.body, dict(zip(self.body.inputs, inputs, strict=True))))


@dataclass(frozen=True, eq=False)
class If(BodyOp):
    """One of two graphs without inputs of their own. Inputs: condition (one bool), captures. Binds to `Call`."""

    name: ClassVar[str] = "if"
    then_branch: Graph
    else_branch: Graph
    captures: tuple[str, ...] = ()

    def branch(self, condition: Array) -> Graph:
        """The graph to run. Raises InputError when the condition is not one element."""
        if condition.size != 1:
            raise InputError(f"found a condition of shape {condition.shape}, needed one element")
        return self.then_branch if bool(condition.reshape(-1)[0]) else self.else_branch

    def bind(self, types: Types, values: Values) -> Bound | None:
        if values[0] is None:
            return None
        branch = self.branch(values[0])
        label = "then" if branch is self.then_branch else "else"
        return Bound(Call(branch, label), tuple(1 + self.captures.index(name) for name in branch.inputs))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        found = {self._branch_types(branch, types) for branch in (self.then_branch, self.else_branch)} - {None}
        if len(found) != 1:
            texts = sorted(", ".join(map(str, branch)) for branch in found if branch is not None)
            raise DynamicShape(f"the branches give {' or '.join(texts) or 'nothing'}, needed a known condition")
        return found.pop() or ()

    def _branch_types(self, branch: Graph, types: Types) -> tuple[TensorType, ...] | None:
        """Types of the outputs; None for a branch that cannot be meant, because it does not take these inputs."""
        captured = dict(zip(self.captures, types[1:], strict=True))
        try:
            return _output_types(branch, {name: captured[name] for name in branch.inputs})
        except DynamicShape:
            raise
        except InputError:
            return None

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        if inputs[0] is None:
            raise InputError("found no condition, needed one")
        return tuple(run(self.branch(inputs[0]), dict(zip(self.captures, inputs[1:], strict=True))))

    def inner_types(self, types: Types) -> list[tuple[Graph, Types]]:
        captured = dict(zip(self.captures, types[1:], strict=True))
        return [(branch, [captured[name] for name in branch.inputs]) for branch in (self.then_branch, self.else_branch)]


@dataclass(frozen=True, eq=False)
class Loop(BodyOp):
    """A body run while a condition holds and a count is not reached.

    Inputs: count (or absent), condition (or absent: true), ``carried`` values, captures. The body's inputs: iteration
    number, condition, carried values, captures; its outputs: condition, carried values, values to collect.
    Outputs: carried values, then what was collected, stacked along a new first axis. empty: one type for every
    collected value, for the case that there is no iteration.
    """

    name: ClassVar[str] = "loop"
    body: Graph
    carried: int
    captures: tuple[str, ...] = ()
    empty: tuple[TensorType, ...] = ()

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("the number of iterations of a loop depends on the data of the run")

    def inner_types(self, types: Types) -> list[tuple[Graph, Types]]:
        captured = dict(zip(self.captures, types[2 + self.carried :], strict=True))
        own = iter((TensorType(DType.I64, ()), TensorType(DType.BOOL, ()), *types[2 : 2 + self.carried]))
        return [(self.body, [captured[name] if name in captured else next(own) for name in self.body.inputs])]

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        names, split = list(self.body.inputs), 2 + self.carried
        limit = None if inputs[0] is None else int(np.asarray(inputs[0]).reshape(-1)[0])
        condition: Any = np.array(True) if inputs[1] is None else inputs[1]
        state = list(inputs[2:split])
        captured = dict(zip(self.captures, inputs[split:], strict=True))
        collected: list[list[Any]] = [[] for _ in self.body.outputs[1 + self.carried :]]
        for iteration in itertools.count():
            if (limit is not None and iteration >= limit) or not _holds(condition):
                break
            in_force().check("iterations", iteration + 1, "the number of iterations is at least")
            fed = dict(zip(names, (np.array(iteration, np.int64), np.asarray(condition), *state), strict=False))
            condition, *results = run(self.body, {**captured, **fed})
            state = list(results[: self.carried])
            for values, value in zip(collected, results[self.carried :], strict=True):
                values.append(value)
        return (*state, *(_stacked(v, 0, t) for v, t in zip(collected, self.empty, strict=True)))  # type: ignore[arg-type]


def _holds(condition: Any) -> bool:
    return bool(condition if condition.size == 1 else condition.any())


def _stacked(values: Sequence[Array], axis: int, empty: TensorType) -> Array:
    """The values along a new axis; without any, none of type ``empty``."""
    if values:
        return np.stack([np.asarray(value) for value in values], axis=axis)
    return np.zeros(_with_axis(empty, axis, 0).shape, empty.dtype.numpy)


@dataclass(frozen=True, eq=False)
class Scan(BodyOp):
    """A body run once for each slice of the scanned inputs.

    Inputs: lengths (only when ``batched``, int64 (n) or absent), initial states, ``scanned`` inputs, captures.
    The body's inputs: states, one slice of every scanned input, captures; its outputs: states, one slice of every
    scanned output. Outputs: final states, stacked slices. axes and reversed: one for each scanned input or output;
    empty: the type of each output's slices, for the case that there are none.
    batched: the form of opset 8, where axis 0 is a batch and axis 1 is scanned, up to each element's length.
    """

    name: ClassVar[str] = "scan"
    body: Graph
    scanned: int
    captures: tuple[str, ...] = ()
    batched: bool = False
    input_axes: tuple[int, ...] = ()
    input_reversed: tuple[bool, ...] = ()
    output_axes: tuple[int, ...] = ()
    output_reversed: tuple[bool, ...] = ()
    empty: tuple[TensorType, ...] = ()

    @property
    def _states(self) -> int:
        return len(self.body.inputs) - self.scanned - len(self.captures)

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        if self.batched:
            raise DynamicShape("the lengths of a batched scan depend on the data of the run")
        states = self._states
        length, _ = self._sliced_types(types[states : states + self.scanned])
        ((body, inner),) = self.inner_types(types)
        outputs = _output_types(body, dict(zip(body.inputs, inner, strict=True)))
        if tuple(types[:states]) != outputs[:states]:
            raise DynamicShape("the states of the scan change their types between iterations")
        return (
            *outputs[:states],
            *(_with_axis(t, axis, length) for t, axis in zip(outputs[states:], self.output_axes, strict=True)),
        )

    def inner_types(self, types: Types) -> list[tuple[Graph, Types]]:
        if self.batched:
            return []
        scanned = self._states + self.scanned
        own = iter((*types[: self._states], *self._sliced_types(types[self._states : scanned])[1]))
        captured = dict(zip(self.captures, types[scanned:], strict=True))
        return [(self.body, [captured[name] if name in captured else next(own) for name in self.body.inputs])]

    def _sliced_types(self, types: Types) -> tuple[int, list[TensorType]]:
        lengths, slices = set(), []
        for position, axis in enumerate(self.input_axes):
            type_ = tensor(types, position, "scanned input")
            axis %= max(1, type_.rank)
            lengths.add(type_.shape[axis])
            slices.append(TensorType(type_.dtype, (*type_.shape[:axis], *type_.shape[axis + 1 :])))
        if len(lengths) != 1:
            raise InputError(f"the scanned inputs have {sorted(lengths)} slices, needed one common number")
        return lengths.pop(), slices

    def compute(self, inputs: Values, run: RunBody) -> tuple[Array, ...]:
        if not self.batched:
            return tuple(self._scan(inputs, None, run))
        lengths, values = inputs[0], inputs[1:]
        uncaptured = self._states + self.scanned
        first = values[0]
        assert first is not None
        rows = []
        for row in range(first.shape[0]):
            part = [value[row] if value is not None and i < uncaptured else value for i, value in enumerate(values)]
            rows.append(self._scan(part, None if lengths is None else int(lengths[row]), run))
        return tuple(np.stack(parts) for parts in zip(*rows, strict=True))

    def _scan(self, values: Values, length: int | None, run: RunBody) -> list[Array]:
        states = list(values[: self._states])
        scanned = [
            np.moveaxis(np.asarray(v), axis, 0)
            for v, axis in zip(values[self._states : self._states + self.scanned], self.input_axes, strict=True)
        ]
        total = len(scanned[0])
        if any(len(s) != total for s in scanned):
            raise InputError(f"the scanned inputs have {[len(s) for s in scanned]} slices, needed one common number")
        slices = [
            s[:length][::-1] if backwards else s for s, backwards in zip(scanned, self.input_reversed, strict=True)
        ]
        captured = dict(zip(self.captures, values[self._states + self.scanned :], strict=True))
        own = [name for name in self.body.inputs if name not in self.captures]
        collected: list[list[Array]] = [[] for _ in self.body.outputs[self._states :]]
        for step in range(total if length is None else length):
            fed = dict(zip(own, (*states, *(np.asarray(s[step]) for s in slices)), strict=True))
            results = run(self.body, {**captured, **fed})
            states = list(results[: self._states])
            for parts, part in zip(collected, results[self._states :], strict=True):
                parts.append(part)
        joined = []
        for parts, axis, backwards, empty in zip(
            collected, self.output_axes, self.output_reversed, self.empty, strict=True
        ):
            ordered = parts[::-1] if backwards else parts
            rest = [np.zeros_like(part) for part in parts[:1]] * (total - len(parts))
            joined.append(_stacked([*ordered, *rest], axis, empty))
        return [*states, *joined]  # type: ignore[list-item]


def _with_axis(type_: TensorType, axis: int, size: int) -> TensorType:
    axis = axis + type_.rank + 1 if axis < 0 else axis
    return TensorType(type_.dtype, (*type_.shape[:axis], size, *type_.shape[axis:]))


CONTROL_OPS: Mapping[str, type[BodyOp]] = {op.name: op for op in (Call, If, Loop, Scan)}
"""The ops that hold graphs, by name."""
