"""A session's programs: one for each set of input shapes, and for each value of the inputs that decide what runs."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from softneuro.control_inputs import control_inputs, control_values
from softneuro.graph import Graph, GraphInput
from softneuro.limits import ResourceLimits, enforced
from softneuro.plan.plan import Plan
from softneuro.runtime.context import Context
from softneuro.runtime.feed import shape_of
from softneuro.runtime.forks import new_lock
from softneuro.runtime.link import Linked
from softneuro.runtime.programs import Programs
from softneuro.specialise import specialise
from softneuro.types import Array, DType, Shape

__all__ = ["Inputs", "Specialisation", "Specialisations"]

_log = logging.getLogger(__name__)
_MOST_SPECIALISATIONS = 8
_MOST_VALUES = 8

Inputs: TypeAlias = Mapping[str, Any]
"""Input name → sizes, or an array, of which the shape counts and the value where the input decides what runs."""
_Key: TypeAlias = tuple[object, ...]
"""Shapes, then the values of control inputs as bytes."""


class Specialisation:
    """A plan for concrete input shapes: one linked program and the contexts that run it."""

    def __init__(self, linked: Linked) -> None:
        self.linked = linked
        self.idle: list[Context] = []


class Specialisations:
    """The newest programs of a plan; may be used by several threads at once.

    A control input (see `control_inputs`) that has had more than a handful of different values, such as a counter, no longer
    counts as one: what it decides is then decided during the run.
    """

    def __init__(self, plan: Plan, programs: Programs, limits: ResourceLimits) -> None:
        self._graph, self._programs, self._limits = plan.graph, programs, limits
        self._tuned = dict(plan.provenance.values)
        self._names = tuple(plan.graph.inputs)
        self._control = control_inputs(plan.graph)
        self._seen: dict[str, set[bytes]] = {name: set() for name in self._control}
        self._made: OrderedDict[_Key, Specialisation] = OrderedDict()
        self._lock = new_lock()

    @property
    def control(self) -> tuple[str, ...]:
        """The inputs whose values programs are made for."""
        return self._control

    def of(self, arrays: Mapping[str, Array]) -> Specialisation:
        """The program for these inputs, made now if it was not yet."""
        shapes = tuple([shape_of(arrays[name]) for name in self._names])
        with self._lock:
            key: _Key = (*shapes, *[_bytes(arrays[name]) for name in self._control]) if self._control else shapes
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
            return self._new(shapes, {name: arrays[name] for name in self._control if arrays[name].size == 1})

    def at(self, inputs: Inputs) -> Specialisation:
        """As `of`, where a control input without a value has the one that the plan was tuned for."""
        shapes, values = self._shapes_and_values(inputs)
        with self._lock:
            values = {name: value for name, value in values.items() if name in self._control}
            return self._made.get(self._key(shapes, values)) or self._new(shapes, values)

    def graph_at(self, inputs: Inputs) -> Graph:
        """The specialised graph of which `at` gives the program."""
        shapes, values = self._shapes_and_values(inputs)
        return specialise(self._graph, dict(zip(self._names, shapes, strict=True)),
                          {name: value for name, value in values.items() if name in self._control})

    def _shapes_and_values(self, inputs: Inputs) -> tuple[tuple[Shape, ...], dict[str, Array]]:
        shapes = tuple(_shape(inputs[name], declared) for name, declared in self._graph.inputs.items())
        by_name = dict(zip(self._names, shapes, strict=True))
        values = control_values(self._graph, by_name, self._tuned) | {
            name: value for name in self._control if isinstance(value := inputs[name], np.ndarray)}  # fmt: skip
        return shapes, {name: value for name, value in values.items() if value.size == 1}

    def _new(self, shapes: tuple[Shape, ...], values: Mapping[str, Array]) -> Specialisation:
        """A program that is not there yet; the lock is held."""
        values = {name: value.copy() for name, value in values.items() if not self._has_too_many(name, value)}
        key = self._key(shapes, values)
        found = self._made.get(key)
        if found is None:
            with enforced(self._limits):
                graph = specialise(self._graph, dict(zip(self._names, shapes, strict=True)), values)
                found = self._made[key] = Specialisation(self._programs.linked(graph))
            while len(self._made) > _MOST_SPECIALISATIONS:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return found

    def _key(self, shapes: tuple[Shape, ...], values: Mapping[str, Array]) -> _Key:
        return (*shapes, *[_bytes(values[name]) if name in values else b"" for name in self._control])

    def _has_too_many(self, name: str, value: Array) -> bool:
        """Whether this is one value too many for a control input, which it then no longer is."""
        self._seen[name].add(_bytes(value))
        if len(self._seen[name]) <= _MOST_VALUES:
            return False
        _log.info("input %r has had more than %d values: what it decides is now decided during the run", name, _MOST_VALUES)
        self._control = tuple(other for other in self._control if other != name)
        self._made.clear()
        return True


def _bytes(value: Array) -> bytes:
    """What tells values of one input apart; nothing for more than one element, which decides nothing."""
    return value.tobytes() if value.size == 1 else b""


def _shape(given: Any, declared: GraphInput) -> Shape:
    is_feed = isinstance(given, np.ndarray) or declared.dtype is DType.OTHER
    return shape_of(given) if is_feed else tuple(given)
