"""Samples: checked inputs for one run each, with where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.runtime.feed import checked
from softneuro.specialise import check_shapes
from softneuro.types import Array

__all__ = ["DEFAULT_SAMPLES", "Sample", "Samples", "of_iterable"]

DEFAULT_SAMPLES = 100


@dataclass(frozen=True)
class Sample:
    """The inputs of one run, and the file or the number in an iterable that they are."""

    feeds: Mapping[str, Array]
    source: str


class Samples:
    """At most ``most`` samples; each iteration reads them anew, one at a time. Raises InputError while iterating for what does
    not fit the graph, for NaN in an input, and where there is no sample at all.

    Infinite numbers are allowed, as masks have them: tensors that they reach get no range.
    """

    def __init__(self, graph: Graph, origin: str, found: Callable[[], Iterable[tuple[Any, str]]], most: int) -> None:
        if most < 1:
            raise InputError(f"calibration samples: found {most}, needed 1 or more")
        self.most = most
        self._graph, self._origin, self._found = graph, origin, found

    def __iter__(self) -> Iterator[Sample]:
        empty = True
        for value, source in islice(self._found(), self.most):
            empty = False
            yield checked_sample(self._graph, value, source)
        if empty:
            raise InputError(f"{self._origin}: has no samples to calibrate with, needed at least one")


def checked_sample(graph: Graph, value: Any, source: str) -> Sample:
    """A mapping, or the array for the only input, as a sample. Raises InputError, which names the source."""
    declared = graph.inputs
    if not isinstance(value, Mapping):
        if len(declared) != 1:
            raise InputError(f"{source}: found {type(value).__name__}, needed a mapping with an array for each of "
                             f"{', '.join(map(repr, declared))}")
        value = {next(iter(declared)): value}
    try:
        missing = [name for name in declared if name not in value]
        unknown = [name for name in value if name not in declared]
        if missing or unknown:
            found = f"input {str(unknown[0])!r} is not one of the model's" if unknown else f"input {missing[0]!r} is missing"
            raise InputError(f"{found}: needed {', '.join(map(repr, declared)) or 'none'}")
        feeds = {name: checked(name, value[name], info) for name, info in declared.items()}
        check_shapes(graph, {name: np.shape(array) for name, array in feeds.items()})
        for name, array in feeds.items():
            if isinstance(array, np.ndarray) and declared[name].dtype.is_float and np.isnan(array).any():
                raise InputError(f"input {name!r}: found NaN, needed numbers")
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    return Sample(feeds, source)


def of_iterable(graph: Graph, iterable: Iterable[Any], origin: str, most: int) -> Samples:
    """Samples of Python objects: mappings of input names to arrays, or arrays for models with one input; each is one run.

    Raises InputError for what is not iterable.
    """
    if not isinstance(iterable, Iterable):
        raise InputError(f"{origin}: found {type(iterable).__name__}, needed an iterable of samples")
    return Samples(graph, origin, lambda: ((value, f"{origin}, sample {i}") for i, value in enumerate(iterable)), most)
