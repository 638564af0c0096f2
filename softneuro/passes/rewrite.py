"""Rewriting a graph: an indexed draft of it, and the sweep that applies a rule to every layer.

A rule looks at one layer, usually the last of the layers it matches, and edits the draft around it. Layers whose
results nobody reads any more leave the draft by themselves, so a rule only says what replaces the layer it got.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from softneuro.errors import SoftneuroError
from softneuro.graph import Graph, GraphInput, Layer
from softneuro.ops.base import Op
from softneuro.types import Array, DType, Shape, TensorType

__all__ = ["Draft", "Outcome", "Rule", "is_static", "sweep"]

Outcome = bool | str
"""True: rewritten. False: not a layer for this rule. A text: nearly one, and why it was left alone."""
Rule = Callable[["Draft", Layer], Outcome]

_log = logging.getLogger(__name__)


def is_static(graph: Graph) -> bool:
    """Whether every graph input has a declared size on every axis, so that types are facts and not hints."""
    return all(i.shape is not None and all(isinstance(d, int) for d in i.shape) for i in graph.inputs.values())


def sweep(graph: Graph, rule: Rule) -> Graph:
    """The graph after the rule has seen every layer in order, again after each rewrite around that layer."""
    draft = Draft(graph)
    changed = False
    for slot in draft.slots:
        position = 0
        while position < len(slot):
            layer = slot[position]
            outcome = rule(draft, layer)
            if outcome is True:
                changed, position = True, 0
                continue
            if outcome:
                _log.debug("%s: layer %r (%s) left alone: %s", rule.__name__, layer.name, layer.op.name, outcome)
            position += 1
    return draft.finish() if changed else graph


def _named(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name)


class Draft:
    """A graph under edit: who makes and who reads each tensor is always up to date.

    Every layer of the original graph opens a slot; what replaces a layer stands in its slot. So anything made
    before the old layer is made before the new ones.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.static = is_static(graph)
        layers = [layer for layer in graph.layers if any(layer.outputs)]
        self.slots: list[list[Layer]] = [[layer] for layer in layers]
        self._constants = dict(graph.constants)
        self._types = dict(graph.types)
        self._outputs = frozenset(graph.outputs)
        self._makers: dict[str, tuple[Layer, int]] = {}
        self._readers: dict[str, list[Layer]] = {}
        for number, layer in enumerate(layers):
            self._enter(layer, number)
        self._names = {*graph.inputs, *self._constants, *self._makers}

    def __iter__(self) -> Iterator[Layer]:
        return (layer for slot in self.slots for layer in slot)

    # looking

    def producer(self, tensor: str) -> Layer | None:
        """The layer that makes the tensor; None for graph inputs and constants."""
        found = self._makers.get(tensor)
        return found[0] if found else None

    def place(self, layer: Layer) -> int:
        """A number that grows with the order of the layers."""
        return self._makers[_named(layer.outputs)[0]][1]

    def readers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read the tensor, one entry for each reading position."""
        return tuple(self._readers.get(tensor, ()))

    def is_output(self, tensor: str) -> bool:
        """Whether the tensor is an output of the graph."""
        return tensor in self._outputs

    def read_once(self, tensor: str) -> bool:
        """Whether one layer reads the tensor, at one position, and the graph does not give it out."""
        return len(self._readers.get(tensor, ())) == 1 and tensor not in self._outputs

    def fusible(self, tensor: str) -> Layer | None:
        """The layer that makes the tensor, when nothing but one reading position would miss it."""
        layer = self.producer(tensor)
        return layer if layer is not None and self.read_once(tensor) and len(_named(layer.outputs)) == 1 else None

    def constant(self, tensor: str) -> Array | None:
        """The tensor's value when it is a constant."""
        return self._constants.get(tensor)

    def hint(self, tensor: str) -> TensorType | None:
        """The tensor's type at the shapes looked at; a fact for constants, and for all when ``static``."""
        value = self._constants.get(tensor)
        return self._types.get(tensor) if value is None else TensorType.of(value)

    def shape(self, tensor: str) -> Shape | None:
        """The tensor's shape if it is the same in every run."""
        if self.static or tensor in self._constants:
            type_ = self.hint(tensor)
            return type_.shape if type_ else None
        declared = self.graph.inputs.get(tensor)
        return _fixed_shape(declared) if declared else None

    def rank(self, tensor: str) -> int | None:
        """The tensor's number of axes, which no choice of shapes changes."""
        type_ = self.hint(tensor)
        if type_ is not None:
            return type_.rank
        declared = self.graph.inputs.get(tensor)
        return len(declared.shape) if declared and declared.shape is not None else None

    def dtype(self, tensor: str) -> DType | None:
        """The tensor's data type, when known."""
        type_ = self.hint(tensor)
        if type_ is not None:
            return type_.dtype
        declared = self.graph.inputs.get(tensor)
        return declared.dtype if declared else None

    def is_float(self, tensor: str) -> bool:
        """Whether the tensor is known to hold floating point numbers."""
        dtype = self.dtype(tensor)
        return dtype is not None and dtype.is_float

    # editing

    def fresh(self, base: str) -> str:
        """A tensor name that nothing has yet."""
        name, number = base, 0
        while name in self._names:
            number += 1
            name = f"{base}.{number}"
        self._names.add(name)
        return name

    def add_constant(self, base: str, value: Array) -> str:
        """Enter a constant; its name."""
        name = self.fresh(base)
        self._constants[name] = np.ascontiguousarray(value).reshape(value.shape)
        return name

    def make_constant(self, layer: Layer, values: Iterable[Array]) -> None:
        """Put values in the place of a layer's outputs."""
        self._leave(layer)
        for name, value in zip(layer.outputs, values, strict=False):
            if name:
                self._constants[name] = value
        self._collect(layer)

    def replace(self, layer: Layer, *new: Layer) -> None:
        """Put other layers, which make the same outputs, in the place of a layer."""
        number = self._leave(layer, new)
        for made in new:
            self._enter(made, number)
            self._infer(made)
        self._collect(layer)

    def bypass(self, layer: Layer, source: str) -> Outcome:
        """Take out a layer whose only output equals the tensor ``source``; not possible for some graph outputs."""
        (output,) = _named(layer.outputs)
        if output not in self._outputs:
            self._leave(layer)
            self._rename_readers(output, source)
            self._collect(layer)
            return True
        maker = self.producer(source)
        if maker is None:
            return f"graph output {output!r} equals {source!r}, which no layer makes"
        if source in self._outputs:
            return f"{output!r} and {source!r}, which are equal, are both graph outputs"
        self._leave(layer)
        self._rename_readers(source, output)
        self.replace(maker, replace(maker, outputs=tuple(output if o == source else o for o in maker.outputs)))
        self._collect(layer)
        return True

    def read_instead(self, layer: Layer, output: str, source: str) -> None:
        """Let the readers of one output of a layer read another tensor, made before that layer."""
        self._rename_readers(output, source)
        if not any(self._is_wanted(o) for o in _named(layer.outputs)):
            self._leave(layer)
            self._collect(layer)

    def finish(self) -> Graph:
        """The edited graph. Raises ModelError when an edit broke it."""
        whole = replace(self.graph, types=self._types).with_layers(self, self._constants)
        whole.verify()
        return whole

    def _is_wanted(self, tensor: str) -> bool:
        return tensor in self._outputs or bool(self._readers.get(tensor))

    def _enter(self, layer: Layer, number: int) -> None:
        for name in _named(layer.outputs):
            self._makers[name] = (layer, number)
        for name in _named(layer.inputs):
            self._readers.setdefault(name, []).append(layer)

    def _leave(self, layer: Layer, new: tuple[Layer, ...] = ()) -> int:
        """Take the layer out of the index and out of its slot, where ``new`` stands then; the slot's number."""
        number = self.place(layer)
        slot = self.slots[number]
        position = next(i for i, candidate in enumerate(slot) if candidate is layer)
        slot[position : position + 1] = new
        for name in _named(layer.outputs):
            del self._makers[name]
        for name in _named(layer.inputs):
            readers = self._readers[name]
            readers.pop(next(i for i, reader in enumerate(readers) if reader is layer))
        return number

    def _collect(self, gone: Layer) -> None:
        """Take out what only the layer that is gone had read, and what only that had read, and so on."""
        names = list(gone.inputs)
        while names:
            maker = self.producer(names.pop())
            if maker is not None and not any(self._is_wanted(o) for o in _named(maker.outputs)):
                self._leave(maker)
                names.extend(maker.inputs)

    def _rename_readers(self, old: str, new: str) -> None:
        for reader in {id(r): r for r in self.readers(old)}.values():
            renamed = replace(reader, inputs=tuple(new if name == old else name for name in reader.inputs))
            self._enter(renamed, self._leave(reader, (renamed,)))

    def _infer(self, layer: Layer) -> None:
        """Enter hints for outputs that have none yet."""
        if all(name in self._types for name in _named(layer.outputs)):
            return
        types = [self.hint(name) if name else None for name in layer.inputs]
        if any(t is None and name for t, name in zip(types, layer.inputs, strict=True)):
            return
        try:
            found = _static_op(layer.op, types).infer(types)
        except (SoftneuroError, NotImplementedError):
            return
        self._types.update((n, t) for n, t in zip(layer.outputs, found, strict=False) if n)


def _static_op(op: Op, types: list[TensorType | None]) -> Op:
    bound = op.bind(types, [None] * len(types))
    return op if bound is None else bound.op


def _fixed_shape(declared: GraphInput) -> Shape | None:
    if declared.shape is None:
        return None
    sizes = tuple(d for d in declared.shape if isinstance(d, int))
    return sizes if len(sizes) == len(declared.shape) else None
