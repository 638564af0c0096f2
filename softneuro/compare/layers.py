"""Layer by layer: the tensors inside two engines compared in the order they are made, and the first that departs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from softneuro import reference
from softneuro.compare.difference import Difference, differences
from softneuro.compare.onnxruntime_peer import onnxruntime_session, onnxruntime_tensors, run_session
from softneuro.graph import Graph, Layer
from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["LayerDifference", "Tensors", "compare_layers", "first_departure", "tensors_of_graph", "tensors_of_model",
           "tensors_of_onnxruntime", "tensors_of_session"]  # fmt: skip

_CHUNK_BYTES = 1 << 29


@dataclass(frozen=True)
class LayerDifference:
    """One tensor that a layer makes (or an element of a sequence), compared; difference is None where the other side has
    no tensor of this name, as when it fused what this side did not."""

    layer: str
    op: str
    routine: str
    tensor: str
    difference: Difference | None


@dataclass(frozen=True)
class Tensors:
    """What an engine can tell of one run: its outputs, and some of the tensors inside, by name."""

    outputs: Callable[[], Mapping[str, Any]]
    names: Callable[[], frozenset[str]]
    values: Callable[[Sequence[str]], Mapping[str, Any]]


def tensors_of_session(session: Session, feeds: Mapping[str, Array]) -> Tensors:
    """The tensors of a plan: every layer runs with the routine that it has in the plan, whatever is asked for.

    The plan's own outputs are always computed too, so no layer leaves. Raises InputError when the feeds do not fit.
    """

    def values(names: Sequence[str]) -> Mapping[str, Any]:
        concrete = _concrete(session, feeds)
        outputs = tuple(dict.fromkeys((*concrete.outputs, *names)))
        plan = replace(session.plan, graph=replace(concrete, outputs=outputs))
        found = Session(plan, session.threads, target=session.target).run(feeds)
        return {name: found[name] for name in names}

    return Tensors(lambda: session.run(feeds), lambda: _made(_concrete(session, feeds)), values)


def tensors_of_onnxruntime(model: Path, feeds: Mapping[str, Array], threads: int) -> Tensors:
    """The tensors of a model as onnxruntime computes them. Using them raises NotInstalled, InputError."""

    def values(names: Sequence[str] | None) -> Mapping[str, Any]:
        return run_session(onnxruntime_session(model, feeds, threads, names), feeds, model)

    return Tensors(lambda: values(None), lambda: onnxruntime_tensors(model), values)


def tensors_of_graph(graph: Graph, feeds: Mapping[str, Array]) -> Tensors:
    """The tensors of a graph as the numpy reference computes them, all at once when the first is asked for."""
    kept: dict[str, Any] = {}

    def values(names: Sequence[str]) -> Mapping[str, Any]:
        if not kept:
            kept.update(reference.run(graph, feeds, keep=True))
        return {name: kept[name] for name in names}

    return Tensors(lambda: values(graph.outputs), lambda: _made(graph), values)


def tensors_of_model(model: Path, feeds: Mapping[str, Array]) -> Tensors:
    """The tensors of an ONNX model as the numpy reference computes them, before any pass. Raises ModelError."""
    from softneuro.importer.model import import_model

    return tensors_of_graph(import_model(model), feeds)


def compare_layers(session: Session, feeds: Mapping[str, Array], there: Tensors,
                   chunk_bytes: int = _CHUNK_BYTES) -> Iterator[LayerDifference]:
    """Every tensor that the plan's layers make against the one of the same name there, in the order they are made.

    Tensors of at most ``chunk_bytes`` are held at a time (or a single one), each chunk from a run of its own.
    Passes give a layer that stands for several the name of the last one's result, so names mean the same on both sides.
    """
    concrete = _concrete(session, feeds)
    here, known = tensors_of_session(session, feeds), there.names()
    routines = {item.name: item.choice.routine for item in session.linked(feeds).program.placed}
    for chunk in _chunks(concrete, known, chunk_bytes):
        wanted = [name for _, name in chunk if name in known]
        found, expected = (here.values(wanted), there.values(wanted)) if wanted else ({}, {})
        for layer, name in chunk:
            rows: Sequence[Difference | None] = [None]
            if name in found:
                rows = differences({name: found[name]}, {name: expected[name]})
            for row in rows:
                yield LayerDifference(layer.name, layer.op.name, routines.get(layer.name, ""), name, row)


def first_departure(rows: Sequence[LayerDifference], tolerance: float) -> LayerDifference | None:
    """The first tensor that is further off than allowed."""
    return next((row for row in rows if row.difference is not None and not row.difference.within(tolerance)), None)


def _made(graph: Graph) -> frozenset[str]:
    return frozenset(name for layer in graph.layers for name in layer.outputs if name)


def _concrete(session: Session, feeds: Mapping[str, Array]) -> Graph:
    return session.graph_for(feeds)


def _chunks(graph: Graph, known: frozenset[str], most: int) -> Iterator[list[tuple[Layer, str]]]:
    """All tensors with the layers that make them, in order, in pieces whose comparable tensors have at most ``most`` bytes."""
    chunk: list[tuple[Layer, str]] = []
    held = 0
    for layer in graph.layers:
        for name in filter(None, layer.outputs):
            size = graph.types[name].nbytes if name in known and name in graph.types else 0
            if chunk and held + size > most:
                yield chunk
                chunk, held = [], 0
            chunk.append((layer, name))
            held += size
    if chunk:
        yield chunk
