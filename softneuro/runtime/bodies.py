"""Graphs inside of layers (branches, bodies of loops), run by kernels: specialised for the shapes that they meet."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from softneuro.codegen.target import Target
from softneuro.control import BodyOp, interpreted
from softneuro.graph import Graph, GraphInput
from softneuro.ops.base import Op, Values
from softneuro.runtime.context import Context
from softneuro.runtime.forks import new_lock
from softneuro.runtime.inference import attach, gather
from softneuro.runtime.link import Linked
from softneuro.runtime.programs import Programs
from softneuro.runtime.team import Team
from softneuro.specialise import specialise
from softneuro.stages import Later
from softneuro.types import Array, DType, Shape

__all__ = ["Bodies"]

_dtype_of = functools.lru_cache(maxsize=64)(DType.of)
_Key: TypeAlias = tuple[int, tuple[tuple[np.dtype[Any], Shape], ...], tuple[bytes, ...]]
_MOST_SPECIALISATIONS = 32
_MOST_RECORDS = 64
_MOST_IDLE_CONTEXTS = 4
_FIRST_SHAPES = 8


@dataclass
class _Prepared:
    """A body (kept so that its identity is its own) made ready for some shapes."""

    body: Graph
    linked: Linked
    idle: list[Context] = field(default_factory=list)


@dataclass
class _Record:
    """How often a body ran, and how many of these times its shapes were new."""

    body: Graph
    runs: int = 0
    new: int = 0

    def is_steady(self) -> bool:
        """False for a body whose shapes keep changing: making it ready each time would cost more than it saves."""
        return self.new <= _FIRST_SHAPES or self.runs > 4 * self.new


class Bodies:
    """The bodies of a session's plan; may be used by several runs at once."""

    def __init__(self, programs: Programs, team: Team, target: Target, *, flush_denormals: bool = False) -> None:
        self._programs, self._team, self._target, self._flush = programs, team, target, flush_denormals
        self._prepared: OrderedDict[_Key, _Prepared] = OrderedDict()
        self._records: OrderedDict[int, _Record] = OrderedDict()
        self._lock = new_lock()

    def compute(self, op: Op, inputs: Values) -> tuple[Array, ...]:
        """The outputs of a layer on the host: its reference, but the graphs that it holds run by kernels."""
        if isinstance(op, Later):
            return op.compute(inputs, partial(self.run, fixed=op.fixed))
        return op.compute(inputs, self.run) if isinstance(op, BodyOp) else op.reference(inputs)

    def run(self, body: Graph, values: Mapping[str, Any], fixed: Collection[str] = ()) -> list[Array]:
        """The body's outputs, with its inputs picked by name. fixed: inputs whose values it is specialised for."""
        feeds = {name: values[name] for name in body.inputs}
        if not all(isinstance(value, np.ndarray) and _dtype_of(value.dtype) is not DType.OTHER for value in feeds.values()):
            return interpreted(body, values)  # sequences, optionals, data types that no kernel knows
        arrays = {name: np.asarray(value, order="C") for name, value in feeds.items()}
        prepared = self._find(body, arrays, fixed)
        if prepared is None:
            return interpreted(body, values)
        with self._lock:
            context = prepared.idle.pop() if prepared.idle else None
        if context is None:
            context = Context(prepared.linked, self._target, flush_denormals=self._flush, compute=self.compute)
        dynamic, results = attach(context, prepared.linked, arrays)
        found = gather(context, prepared.linked, context.run(self._team, dynamic), results)
        with self._lock:
            if len(prepared.idle) < _MOST_IDLE_CONTEXTS:
                prepared.idle.append(context)
        return [found[name] for name in body.outputs]

    def _find(self, body: Graph, arrays: Mapping[str, Array], fixed: Collection[str]) -> _Prepared | None:
        """The body made ready, now if it was not yet; None when that does not pay."""
        known = tuple([arrays[name].tobytes() for name in body.inputs if name in fixed]) if fixed else ()
        key = (id(body), tuple([(array.dtype, array.shape) for array in arrays.values()]), known)
        with self._lock:
            record = self._record(body)
            record.runs += 1
            found = self._prepared.get(key)
            if found is not None:
                self._prepared.move_to_end(key)
                return found
            record.new += 1
            if not record.is_steady():
                return None
        typed = {name: GraphInput(_dtype_of(array.dtype), array.shape) for name, array in arrays.items()}
        free = {name: declared for name, declared in typed.items() if name not in fixed}
        constants = {**body.constants, **{name: arrays[name].copy() for name in fixed}}
        graph = specialise(replace(body, inputs=free, constants=constants), {name: arrays[name].shape for name in free})
        made = _Prepared(body, self._programs.linked(graph))
        with self._lock:
            self._prepared[key] = made
            while len(self._prepared) > _MOST_SPECIALISATIONS:
                self._prepared.popitem(last=False)
        return made

    def _record(self, body: Graph) -> _Record:
        """What is noted of a body; the lock is held."""
        record = self._records.get(id(body))
        if record is None:
            record = self._records[id(body)] = _Record(body)
            while len(self._records) > _MOST_RECORDS:
                self._records.popitem(last=False)
        self._records.move_to_end(id(body))
        return record
