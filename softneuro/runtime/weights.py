"""A session's constants in the form that kernels read them, shared by its programs for all input shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from softneuro import cpu
from softneuro.codegen.target import Target
from softneuro.graph import Graph
from softneuro.memory import aligned
from softneuro.plan.file import release
from softneuro.plan.program import Packing
from softneuro.quantisation import Quantisation, encoded
from softneuro.types import Array, Format

__all__ = ["SharedWeights"]

_Key = tuple[str, str, tuple[tuple[str, int], ...], tuple[int, ...]]


class SharedWeights:
    """Packs each layer's weights once for every schedule that it runs with.

    Not for concurrent use. `keep` drops what no program reads any more, so that memory does not grow with the
    number of input shapes seen.
    """

    def __init__(self, graph: Graph, target: Target) -> None:
        self._target = target
        self._lasting = {id(array) for array in graph.constants.values()}
        self._packed: dict[_Key, tuple[Packing, tuple[Array, ...]]] = {}
        self._laid_out: dict[tuple[int, Format], Array] = {}

    def packed(self, packings: Sequence[Packing]) -> Sequence[tuple[Array, ...]]:
        """What `Routine.pack` makes of each layer's constants; several at once: numpy copies without the interpreter lock."""
        keys = [_key(packing) for packing in packings]
        missing = {key: packing for key, packing in zip(keys, packings, strict=True) if key not in self._packed}
        if len(missing) > 1:
            with ThreadPoolExecutor(cpu.allowed_cpus()) as pool:
                self._packed |= zip(missing, pool.map(self._pack, missing.values()), strict=True)
        else:
            self._packed |= {key: self._pack(packing) for key, packing in missing.items()}
        return [self._packed[key][1] for key in keys]

    def _pack(self, packing: Packing) -> tuple[Packing, tuple[Array, ...]]:
        arrays = packing.routine.pack(packing.problem, packing.schedule, self._target, packing.constants)
        result = tuple(map(aligned, arrays))
        for constant in packing.constants:
            if constant is not None:
                release(constant)
        return packing, result

    def laid_out(self, array: Array, wanted: Format, quantisation: Quantisation | None) -> Array:
        """A constant as it lies in memory in a format, on a cache line; the graph's own are converted once."""
        key = (id(array), wanted)
        found = self._laid_out.get(key)
        if found is None:
            found = aligned(encoded(np.asarray(array), wanted, quantisation))
            if id(array) in self._lasting:
                self._laid_out[key] = found
        return found

    def keep(self, packings: Iterable[Packing]) -> None:
        """Forget all packed weights but those of these layers."""
        wanted = set(map(_key, packings))
        self._packed = {key: entry for key, entry in self._packed.items() if key in wanted}


def _key(packing: Packing) -> _Key:
    """Names the packed weights; the constants are in it because shape arithmetic can make others for other shapes.

    Entries hold their constants, so an identity stands for one array.
    """
    numbers = tuple(sorted(packing.schedule.items()))
    return packing.name, packing.routine.name, numbers, tuple(0 if c is None else id(c) for c in packing.constants)
