"""What to say when a model does not take size 1 where its sizes are free and nobody asked for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from softneuro.control_inputs import control_values
from softneuro.errors import InputError, SoftneuroError
from softneuro.graph import Graph
from softneuro.specialise import specialise
from softneuro.tuning.ranges import sizes_text
from softneuro.types import Shape

__all__ = ["advised"]

_SIZES = (16, 32, 64, 128, 256, 512, 1024)
_MOST_INPUTS = 4


def advised(error: InputError, graph: Graph, sizes: Mapping[str, Shape], shapes: Mapping[str, Sequence[int]],
            values: Mapping[str, int]) -> InputError:
    """The error with the sizes that were assumed, and others that the model does take where some are found.

    shapes: the sizes that somebody asked for; values: of inputs that decide what runs. The error itself where nothing was
    assumed.
    """
    free = {name: _free_axes(graph, name) for name in graph.inputs if name not in shapes}
    assumed = [name for name, axes in free.items() if axes]
    if not assumed:
        return error
    taken = ", ".join(f"{name}={sizes_text(sizes[name])}" for name in assumed)
    fitting = next(filter(lambda changed: _takes(graph, {**sizes, **changed}, values), _others(sizes, free)), None)
    better = {name: shape for name, shape in (fitting or {}).items() if shape != sizes[name]}
    such_as = " and ".join(f"--shape {name}={sizes_text(shape)}" for name, shape in better.items())
    python = ", ".join(f"{name!r}: {shape}" for name, shape in better.items())
    needed = f"others, such as {such_as} (shapes={{{python}}})" if better else f"--shape {assumed[0]}=… with others"
    return InputError(f"{error}: free dimensions were taken as 1 ({taken}), needed {needed}")


def _free_axes(graph: Graph, name: str) -> list[int]:
    """The axes without a declared size, but for the first of several: it is mostly the number of samples, and 1 fits."""
    dims = graph.inputs[name].shape or ()
    return [axis for axis, dim in enumerate(dims) if not isinstance(dim, int) and (axis or len(dims) == 1)]


def _others(sizes: Mapping[str, Shape], free: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Shape]]:
    """Other sizes for one input, or for all that have free ones."""
    names = [name for name, axes in free.items() if axes][:_MOST_INPUTS]
    for together in (*([name] for name in names), names):
        for size in _SIZES:
            yield {
                name: tuple(size if axis in free[name] else old for axis, old in enumerate(sizes[name])) for name in together
            }


def _takes(graph: Graph, sizes: Mapping[str, Shape], values: Mapping[str, int]) -> bool:
    try:
        specialise(graph, sizes, control_values(graph, sizes, values))
    except SoftneuroError:
        return False
    return True
