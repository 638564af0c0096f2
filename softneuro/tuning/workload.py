"""The model made ready for tuning: imported, rewritten, and specialised for each set of shapes."""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from softneuro import cpu
from softneuro._version import __version__
from softneuro.control_inputs import control_values
from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.plan.plan import Provenance
from softneuro.specialise import default_shapes, specialise
from softneuro.tuning.offers import Offers, offers_of
from softneuro.tuning.ranges import sizes_text
from softneuro.tuning.request import Model, Request, Shapes
from softneuro.tuning.values import decided
from softneuro.tuning.whole_plan import random_feeds
from softneuro.types import Array, admits

__all__ = ["Workload", "model_digest", "prepare"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workload:
    """graph: with free dimensions, for the plan; concretes: for each set of shapes; values: of the inputs that decide what
    runs, for each set; provenance: as far as it is known."""

    graph: Graph
    concretes: tuple[Graph, ...]
    values: tuple[Mapping[str, Array], ...]
    provenance: Provenance

    def offers(self, request: Request) -> Offers:
        """What each layer may run with. Raises InputError when the request's rules do not fit the model."""
        return offers_of(self.concretes, request.target, request.threads, request.rules, request.dtypes)

    def feeds(self, seed: int = 0) -> list[dict[str, Any]]:
        """Made-up inputs for each set."""
        return [random_feeds(graph, seed, values) for graph, values in zip(self.concretes, self.values, strict=True)]

    def undecided(self) -> list[Graph]:
        """For each set the graph with all its branches."""
        sets = (self.provenance.shapes, *self.provenance.further_shapes)
        pairs = zip(self.concretes, self.values, sets, strict=True)
        return [specialise(self.graph, shapes) if values else concrete for concrete, values, shapes in pairs]


def prepare(request: Request) -> Workload:
    """Import and rewrite the model. Raises ModelError, UnsupportedOp, and InputError when the shapes do not fit it."""
    from softneuro.passes.pipeline import optimise

    imported = _import(request.model, request.shapes)
    sizes = [default_shapes(imported, shapes) for shapes in request.shapes]
    numbers = [decided(imported, *of_set) for of_set in zip(sizes, request.shapes, request.values, strict=True)]
    values = [control_values(imported, *of_set) for of_set in zip(sizes, numbers, strict=True)]
    graph = optimise(imported, specialise(imported, sizes[0], values[0]).types)
    concretes = tuple(specialise(graph, *of_set) for of_set in zip(sizes, values, strict=True))
    graph = replace(graph, types=dict(concretes[0].types))
    _log.info("imported: %d layers, %d after the rewrites", len(imported.layers), len(graph.layers))
    provenance = Provenance(
        model=Path(request.model).name if isinstance(request.model, (str, Path)) else "",
        model_sha256=model_digest(request.model), machine=cpu.fingerprint(), target=request.target.name, version=__version__,
        threads=request.threads, shapes=sizes[0], further_shapes=tuple(sizes[1:]), values=numbers[0],
        further_values=tuple(numbers[1:]), packages=_packages(),
        ranges=tuple({name: sizes_text(asked) for name, asked in ranged.items()} for ranged in request.ranges),
    )  # fmt: skip
    return Workload(graph, concretes, tuple(values), provenance)


def _import(model: Model, sets: Sequence[Shapes]) -> Graph:
    """The imported graph. Free dimensions stay free; declared sizes are replaced only where those of a set differ, and
    become free where sets differ from each other."""
    from softneuro.importer.model import import_model

    graph = import_model(model)
    other: dict[str, list[int | None]] = {}
    for name in dict.fromkeys(name for shapes in sets for name in shapes):
        given = [tuple(map(int, shapes[name])) for shapes in sets if name in shapes]
        if len(set(map(len, given))) > 1:
            raise InputError(f"input {name!r}: found shapes {given[0]} and {given[1]}, needed the same rank in all sets")
        if name not in graph.inputs or not all(admits(graph.inputs[name].shape, shape) for shape in given):
            other[name] = [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*given, strict=True)]
    return import_model(model, shapes=other) if other else graph


def model_digest(model: object) -> str:
    """SHA-256 of the model's bytes (of the file alone when weights are external); empty for a ModelProto."""
    if isinstance(model, (str, Path)):
        with open(model, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(model).hexdigest() if isinstance(model, bytes) else ""


def _packages() -> dict[str, str]:
    """Versions of Python and of the packages that decide what kernels a plan was measured with."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "onnx", "numba", "llvmlite")}
