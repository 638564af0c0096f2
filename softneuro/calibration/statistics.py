"""How the numbers of every float32 tensor are spread over samples: the graph runs natively with all of them given out."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from softneuro.calibration.histogram import Histogram
from softneuro.calibration.samples import Sample
from softneuro.codegen.target import Target
from softneuro.graph import Graph
from softneuro.plan.plan import Plan
from softneuro.runtime.session import Session
from softneuro.specialise import specialise
from softneuro.types import Array, DType, Shape

__all__ = ["Observed", "observe"]

_CHUNK_BYTES = 1 << 29
_MOST_SHAPES = 4
_log = logging.getLogger(__name__)

_Shapes = tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class Observed:
    """A histogram for every float32 tensor that some sample had, in the graph's order, and how many samples there were."""

    histograms: Mapping[str, Histogram]
    samples: int


def observe(graph: Graph, samples: Iterable[Sample], *, threads: int | None = None, target: Target | None = None,
            chunk_bytes: int = _CHUNK_BYTES, progress: Callable[[int, str], None] = lambda done, what: None) -> Observed:
    """Run every sample and count the numbers of all tensors.

    Tensors of at most ``chunk_bytes`` (or a single one) are given out by one run; where they are more, a sample runs
    several times. progress(done, source) is called before each sample and after the last. Samples may differ in sizes.
    Raises what `Session.run` raises.
    """
    runs: OrderedDict[_Shapes, list[Session]] = OrderedDict()
    found: dict[str, Histogram] = {}
    done = 0
    for sample in samples:
        progress(done, sample.source)
        shapes = tuple((name, array.shape) for name, array in sample.feeds.items())
        if shapes not in runs:
            _log.info("calibrating at %s", ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes))
            runs[shapes] = list(_sessions(graph, dict(shapes), threads, target, chunk_bytes))
            while len(runs) > _MOST_SHAPES:
                runs.popitem(last=False)
        runs.move_to_end(shapes)
        for name, array in _tensors(graph, sample.feeds, runs[shapes]):
            found.setdefault(name, Histogram()).add(array)
        done += 1
    progress(done, "")
    return Observed({name: found[name] for name in (*graph.inputs, *graph.producers()) if name in found}, done)


def _tensors(graph: Graph, feeds: Mapping[str, Array], sessions: Iterable[Session]) -> Iterator[tuple[str, Array]]:
    """All float32 tensors of one run that this graph knows by name."""
    for name, array in feeds.items():
        if graph.inputs[name].dtype is DType.F32:
            yield name, array
    for session in sessions:
        yield from session.run(feeds).items()


def _sessions(graph: Graph, shapes: Mapping[str, Shape], threads: int | None, target: Target | None,
              chunk_bytes: int) -> Iterator[Session]:
    """A session for each piece of the tensors that layers make, with default routines."""
    concrete = specialise(graph, shapes)
    concrete = replace(concrete, quantisations={})
    for names in _chunks(concrete, frozenset(graph.producers()), chunk_bytes):
        yield Session(Plan(replace(concrete, outputs=names), {}), threads, target=target)


def _chunks(graph: Graph, known: frozenset[str], most: int) -> Iterator[tuple[str, ...]]:
    """The names of the float32 tensors among ``known`` that layers make, in pieces of at most ``most`` bytes."""
    chunk: list[str] = []
    held = 0
    for layer in graph.layers:
        for name in layer.outputs:
            type_ = graph.types.get(name) if name in known else None
            if type_ is None or type_.dtype is not DType.F32:
                continue
            if chunk and held + type_.nbytes > most:
                yield tuple(chunk)
                chunk, held = [], 0
            chunk.append(name)
            held += type_.nbytes
    if chunk:
        yield tuple(chunk)
