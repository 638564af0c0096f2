"""What ``--calibration`` accepts, as samples: pictures, array files, a Python function, any iterable.

* a folder of pictures (looked for in its folders too): one a sample, evenly chosen where there are more than are wanted;
* a ``.npz`` file, or a folder of them: arrays by input, whose first axis counts samples;
* ``module:function``: a Python function without arguments that gives an iterable of samples;
* from Python, any iterable of samples: mappings of input names to arrays, or arrays for a model with one input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from softneuro.array_files import read_arrays
from softneuro.calibration.samples import DEFAULT_SAMPLES, Samples, of_iterable
from softneuro.errors import InputError
from softneuro.graph import Graph, GraphInput
from softneuro.pictures import SUFFIXES, Frame, frame_of, load_picture, picture_array
from softneuro.specialise import default_shapes
from softneuro.types import Array
from softneuro.user_code import in_words, is_named, named_function

__all__ = ["CalibrationData", "samples_of"]

CalibrationData: TypeAlias = str | Path | Iterable[Any]
_ARRAYS = ".npz"


def samples_of(graph: Graph, data: CalibrationData, *, most: int = DEFAULT_SAMPLES,
               shapes: Mapping[str, Sequence[int]] | None = None, preprocess: str | None = None,
               fit: str = "stretch") -> Samples:
    """The samples that ``data`` stands for: a text or path as this module tells, or an iterable.

    graph: its inputs say what fits. most: samples above this number are not read. shapes: sizes of inputs with free dimensions,
    for pictures. preprocess, fit: what is made of pictures, see `softneuro.pictures`.

    Raises InputError (what is not there, of a wrong kind or empty; errors of single samples come while iterating).
    """
    if not isinstance(data, (str, Path)):
        return of_iterable(graph, data, "calibration data", most)
    path = Path(data)
    if path.is_dir():
        return _of_folder(graph, path, most, shapes or {}, preprocess, fit)
    if path.is_file():
        return Samples(graph, str(path), lambda: _of_arrays(graph, [path]), most)
    if is_named(str(data)):
        return of_iterable(graph, _called(str(data)), str(data), most)
    raise InputError(f"{data}: is not there, needed a folder of pictures, a .npz file (or a folder of them), or module:function")


def _of_folder(graph: Graph, folder: Path, most: int, shapes: Mapping[str, Sequence[int]], preprocess: str | None,
               fit: str) -> Samples:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pictures = [path for path in files if path.suffix.lower() in SUFFIXES]
    archives = [path for path in files if path.suffix.lower() == _ARRAYS]
    if pictures and archives:
        raise InputError(f"{folder}: has pictures ({pictures[0].name}) and array files ({archives[0].name}), needed one kind")
    if archives:
        return Samples(graph, str(folder), lambda: _of_arrays(graph, archives), most)
    if not pictures:
        raise InputError(f"{folder}: has no samples, needed pictures ({' '.join(SUFFIXES)}) or {_ARRAYS} files")
    reader = _picture_reader(graph, pictures[0], shapes, preprocess, fit)
    groups = [pictures[i : i + reader.each] for i in range(0, len(pictures) - reader.each + 1, reader.each)]
    if not groups:
        raise InputError(f"{folder}: has {len(pictures)} pictures, needed {reader.each}, the model's batch")
    if 0 < most < len(groups):
        groups = [groups[i * len(groups) // most] for i in range(most)]
    return Samples(graph, str(folder), lambda: ((reader.read(group), _listed(group)) for group in groups), most)


def _listed(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}"


@dataclass(frozen=True)
class _PictureReader:
    """Makes samples of pictures, ``each`` for one."""

    each: int
    read: Callable[[Sequence[Path]], Mapping[str, Array]]


def _picture_reader(graph: Graph, example: Path, shapes: Mapping[str, Sequence[int]], preprocess: str | None,
                    fit: str) -> _PictureReader:
    if len(graph.inputs) != 1:
        raise InputError(f"{example}: is a picture, and the model has {len(graph.inputs)} inputs, needed one, or .npz files")
    ((name, declared),) = graph.inputs.items()
    sizes = default_shapes(graph, shapes)[name] if name in shapes or declared.shape is not None else ()
    frame = frame_of(declared.shape, sizes)
    if not isinstance(frame, Frame):
        raise InputError(f"input {name!r} takes no pictures ({example}): {frame}")
    if frame.height * frame.width == 1:
        raise InputError(f"input {name!r}: its height and width are free, needed --shape {name}=1x{frame.channels}xHxW")

    def read(paths: Sequence[Path]) -> Mapping[str, Array]:
        pictures = [load_picture(path, frame, fit) for path in paths]
        try:
            return {name: picture_array(pictures, frame, declared.dtype, preprocess)}
        except InputError as error:
            raise InputError(f"{_listed(paths)}: input {name!r}: {error}") from error

    return _PictureReader(frame.batch or 1, read)


def _of_arrays(graph: Graph, files: Sequence[Path]) -> Iterator[tuple[Mapping[str, Array], str]]:
    """The samples of .npz (and .npy) files one after the other."""
    for path in files:
        arrays = read_arrays(path)
        if not isinstance(arrays, dict):
            if len(graph.inputs) != 1:
                raise InputError(f"{path}: has an array without a name, needed a .npz file with {', '.join(graph.inputs)}")
            arrays = {next(iter(graph.inputs)): arrays}
        for index, sample in enumerate(_taken_apart(graph, arrays, path)):
            yield sample, f"{path}, sample {index}"


def _taken_apart(graph: Graph, arrays: Mapping[str, Array], path: Path) -> Iterator[Mapping[str, Array]]:
    """What each run gets of arrays whose first axis counts samples. An array with an axis more than its input gives one
    element a run, another one as many as the input's first axis has (one where that is free)."""
    parts: dict[str, list[Array]] = {}
    for name, array in arrays.items():
        declared = graph.inputs.get(name)
        if declared is None:
            raise InputError(f"{path}: input {name!r} is not one of the model's: needed {', '.join(map(repr, graph.inputs))}")
        if array.ndim == 0:
            raise InputError(f"{path}: input {name!r}: found a single number, needed a first axis that counts samples")
        parts[name] = _runs(array, declared)
    counts = {name: len(runs) for name, runs in parts.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise InputError(f"{path}: found samples for {found}, needed as many for all inputs")
    for index in range(min(counts.values(), default=0)):
        yield {name: runs[index] for name, runs in parts.items()}


def _runs(array: Array, declared: GraphInput) -> list[Array]:
    if declared.shape is not None and array.ndim == len(declared.shape) + 1:
        return list(array)
    first = declared.shape[0] if declared.shape else None
    each = first if isinstance(first, int) and first > 0 else 1
    if 0 < len(array) < each:
        return [array]  # too few: the check of its shape says so
    return [array[start : start + each] for start in range(0, len(array) - each + 1, each)]


def _called(where: str) -> Iterable[Any]:
    """What a function of a user's module returns."""
    function = named_function(where)
    try:
        made = function()
    except Exception as error:  # a user's code raises anything
        raise InputError(f"{where}: {in_words(error)}") from error
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes)):
        raise InputError(f"{where}: returned {type(made).__name__}, needed an iterable of samples")
    return _Guarded(made, where)


@dataclass(frozen=True)
class _Guarded(Iterable[Any]):
    """Samples of a user's code, whose errors become one sentence."""

    samples: Iterable[Any]
    where: str

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.samples
        except Exception as error:
            raise InputError(f"{self.where}: {in_words(error)}") from error
