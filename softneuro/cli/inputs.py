"""``--input``: files, pictures and numbers into arrays, and random arrays for the inputs that none is given for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from softneuro.array_files import array_shape, read_arrays
from softneuro.cli.console import remarks
from softneuro.cli.sources import is_plan, plan_of
from softneuro.cli.spelling import did_you_mean
from softneuro.control_inputs import control_values
from softneuro.errors import InputError
from softneuro.feeds import random_array, random_of_kind
from softneuro.graph import GraphInput
from softneuro.pictures import SUFFIXES, Frame, Picture, frame_of, load_picture, picture_array
from softneuro.runtime.session import Session
from softneuro.types import Array, DType, Shape

__all__ = ["Feed", "feeds_for", "input_data", "inputs_for", "loaded_feeds", "session_of"]

_MOST_NAMES = 8


@dataclass(frozen=True)
class Feed:
    """An input's array (a list or dict where it is no tensor), and where it comes from: the files' names, a number, or
    ``random``."""

    array: Any
    source: str


def session_of(path: Path, options: argparse.Namespace) -> Session:
    """A session for a plan, or for a model with default routines, at the sizes of ``--shape`` and of array files.

    Raises PlanError, ModelError, InputError.
    """
    if is_plan(path):
        return Session(path, options.threads)
    sizes = {name: array_shape(file) for name, file in options.input if name}
    known = {name: shape for name, shape in sizes.items() if shape is not None} | dict(options.shape)
    try:
        plan = plan_of(path, argparse.Namespace(**{**vars(options), "shape": list(known.items())}))
    except InputError:
        if len(known) == len(dict(options.shape)):
            raise
        # an input of that name may not be there, which is said better when its file is read
        plan = plan_of(path, argparse.Namespace(**{**vars(options), "quiet": True}))
    return Session(plan, options.threads)


def feeds_for(session: Session, options: argparse.Namespace) -> dict[str, Array]:
    """All inputs that the options of `arguments.add_input` stand for, by name; remarks tell what was made of what."""
    return {name: feed.array for name, feed in loaded_feeds(session, options).items()}


def loaded_feeds(session: Session, options: argparse.Namespace) -> dict[str, Feed]:
    """All inputs with where they come from. Raises InputError for what no input of the model can be made of."""
    given = _given(session, options)
    arrays = inputs_for(session, {name: feed.array for name, feed in given.items()}, dict(options.shape), options.seed)
    tuned = session.plan.provenance.values
    made = [name for name in arrays if name not in given and name not in tuned]
    for name in [name for name in tuned if name not in given]:
        remarks(options).print(f"{name}: {tuned[name]}, which decides what runs (--input {name}=… for another branch)")
    if made:
        remarks(options).print(f"random input for {', '.join(made)} (seed {options.seed})")
    sources = {name: str(tuned.get(name, "random")) for name in arrays}
    return {name: given.get(name) or Feed(array, sources[name]) for name, array in arrays.items()}


def _given(session: Session, options: argparse.Namespace) -> dict[str, Feed]:
    shapes: dict[str, Shape] = dict(options.shape)
    for name in shapes:
        _check_name(name, session.plan.graph.inputs, "shape of")
    given: dict[str, Feed] = {}
    pictures: dict[str, list[Path]] = {}
    numbers: list[tuple[str, Path, int | float]] = []
    for name, path in options.input:
        number = _number(path)
        if number is not None:
            numbers.append((name, path, number))
        elif path.suffix.lower() in SUFFIXES:
            pictures.setdefault(_picture_input(name, path, session, shapes), []).append(path)
        else:
            for key, feed in _arrays(name, path, session).items():
                _enter(given, key, feed)
    for name, feed in given.items():
        if name in shapes and feed.array.shape != shapes[name]:
            raise InputError(f"input {name!r}: found shape {feed.array.shape} in {feed.source} and {shapes[name]} in --shape, "
                             "needed one of them")
    for name, paths in pictures.items():
        _enter(given, name, _picture_feed(name, paths, session, options))
    symbols = _symbols(session, {name: feed.array for name, feed in given.items()}, shapes)
    for name, path, number in numbers:
        key = _input_of(name, path, session)
        sizes = shapes[key] if key in shapes else _sizes(session, key, symbols)
        _enter(given, key, Feed(_filled(key, number, session.plan.graph.inputs[key].dtype, sizes), str(path)))
    return given


def _enter(given: dict[str, Feed], name: str, feed: Feed) -> None:
    if name in given:
        raise InputError(f"input {name!r}: found in {given[name].source} and in {feed.source}, needed one of them")
    given[name] = feed


def input_data(name: str, feed: Feed) -> dict[str, Any]:
    """What --json tells of an input."""
    if not isinstance(feed.array, np.ndarray):
        return {"name": name, "dtype": type(feed.array).__name__, "shape": None, "source": feed.source}
    return {"name": name, "dtype": str(feed.array.dtype), "shape": list(feed.array.shape), "source": feed.source}


def inputs_for(session: Session, given: Mapping[str, Array], shapes: Mapping[str, Shape], seed: int) -> dict[str, Array]:
    """All inputs: those given, those that decide what runs as they were tuned, the rest at random (normal floats, zeros and
    ones), in the order the model declares them.

    Sizes are those in ``shapes``, else those the plan was tuned for, with free dimensions that the given arrays share as
    they are there. Raises InputError for names that the model does not have.
    """
    declared = session.plan.graph.inputs
    for name in (*given, *shapes):
        _check_name(name, declared, "input")
    symbols = _symbols(session, given, shapes)
    sizes = {name: shapes[name] if name in shapes else _sizes(session, name, symbols) for name in declared}
    tuned = control_values(session.plan.graph, sizes, session.plan.provenance.values)
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for name, info in declared.items():
        if name in given or name in tuned:
            feeds[name] = given[name] if name in given else tuned[name]
        else:
            made = partial(random_of_kind, info.kind) if info.kind else partial(random_array, info.dtype)
            feeds[name] = made(sizes[name], rng)
    return feeds


def _symbols(session: Session, given: Mapping[str, Array], shapes: Mapping[str, Shape]) -> dict[str, int]:
    """What the free dimensions with a name are in the shapes and in the arrays."""
    declared = session.plan.graph.inputs
    known = [*shapes.items(), *((name, array.shape) for name, array in given.items())]
    return {
        dim: size for name, shape in known for dim, size in zip(declared[name].shape or (), shape, strict=False)
        if isinstance(dim, str)
    }  # fmt: skip


def _sizes(session: Session, name: str, symbols: Mapping[str, int]) -> Shape:
    """The sizes an input was tuned for, but for those that a symbol has been given for."""
    tuned = session.plan.provenance.shapes.get(name, ())
    dims = session.plan.graph.inputs[name].shape or tuned
    return tuple(symbols.get(dim, size) if isinstance(dim, str) else size for dim, size in zip(dims, tuned, strict=False))


def _check_name(name: str, declared: Mapping[str, GraphInput], what: str) -> None:
    if name not in declared:
        more = f" and {len(declared) - _MOST_NAMES} more" if len(declared) > _MOST_NAMES else ""
        names = ", ".join(map(repr, list(declared)[:_MOST_NAMES])) + more
        raise InputError(f"{what} {name!r} is not one of the model's: needed {names or 'none'}{did_you_mean(name, declared)}")


def _input_of(name: str, path: Path, session: Session) -> str:
    """The input that is meant: the one named, else the only one."""
    declared = session.plan.graph.inputs
    if name:
        _check_name(name, declared, "input")
    elif len(declared) != 1:
        raise InputError(f"{path}: the model has {len(declared)} inputs, needed NAME={path} with one of {', '.join(declared)}")
    return name or next(iter(declared))


def _arrays(name: str, path: Path, session: Session) -> dict[str, Feed]:
    """The arrays of a file by the inputs they are for."""
    declared = session.plan.graph.inputs
    content = read_arrays(path)
    if not isinstance(content, dict):
        key = _input_of(name, path, session)
        return {key: Feed(_typed(content, declared[key].dtype), str(path))}
    if name:
        raise InputError(f"{path}: holds named arrays, needed --input {path} without a name")
    for key in content:
        _check_name(key, declared, f"{path}: input")
    return {key: Feed(_typed(array, declared[key].dtype), str(path)) for key, array in content.items()}


def _typed(array: Array, dtype: DType) -> Array:
    """The array; raw 2-byte elements as bfloat16, which is how numpy stores that type in files."""
    return array.view(dtype.numpy) if dtype is DType.BF16 and array.dtype.str == "|V2" else array


def _number(path: Path) -> int | float | None:
    """The number that a text is, unless there is a file of that name."""
    for read in (int, float):
        try:
            number = read(str(path))
        except ValueError:
            continue
        return None if path.exists() else number
    return None


def _filled(name: str, number: int | float, dtype: DType, sizes: Shape) -> Array:
    if dtype in (DType.STR, DType.OTHER):
        raise InputError(f"input {name!r}: found the number {number}, needed {dtype.numpy}")
    if not dtype.is_float and dtype.numpy.kind in "iub":
        least, most = (0, 1) if dtype is DType.BOOL else (np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max)
        if number != number or int(number) != number or not least <= number <= most:
            raise InputError(f"input {name!r}: found the number {number}, needed a whole one from {least} to {most}")
    return np.full(sizes, number, dtype.numpy)


def _picture_input(name: str, path: Path, session: Session, shapes: Mapping[str, Shape]) -> str:
    """The input that a picture is for: the one named, else the only one that takes pictures."""
    fit = [each for each in session.plan.graph.inputs if isinstance(_frame(each, session, shapes), Frame)]
    return fit[0] if not name and len(fit) == 1 else _input_of(name, path, session)


def _frame(name: str, session: Session, shapes: Mapping[str, Shape]) -> Frame | str:
    sizes = shapes[name] if name in shapes else _sizes(session, name, {})
    return frame_of(session.plan.graph.inputs[name].shape, sizes)


def _picture_feed(name: str, paths: Sequence[Path], session: Session, options: argparse.Namespace) -> Feed:
    dtype = session.plan.graph.inputs[name].dtype
    frame = _frame(name, session, dict(options.shape))
    if isinstance(frame, str):
        raise InputError(f"input {name!r} takes no pictures ({paths[0]}): {frame}")
    if frame.height * frame.width == 1:
        sizes = f"{name}=1x{frame.channels}xHxW" if not frame.channels_last else f"{name}=1xHxWx{frame.channels}"
        raise InputError(f"input {name!r}: its height and width are free, needed --shape {sizes}")
    pictures = [load_picture(path, frame, options.fit) for path in paths]
    try:
        array = picture_array(pictures, frame, dtype, options.preprocess)
    except InputError as error:
        raise InputError(f"input {name!r}: {error}") from error
    remarks(options).print(f"{name}: {_described(paths, pictures, frame, dtype, options)}")
    return Feed(array, ", ".join(map(str, paths)))


def _described(paths: Sequence[Path], pictures: Sequence[Picture], frame: Frame, dtype: DType,
               options: argparse.Namespace) -> str:
    """What was made of pictures, in words."""
    sizes = {f"{picture.width}x{picture.height}" for picture in pictures}
    size = f"{sizes.pop() if len(sizes) == 1 else 'several sizes'} to {frame.width}x{frame.height} ({options.fit})"
    colours = {1: "grey", 3: "RGB", 4: "RGBA"}[frame.channels]
    preprocess = options.preprocess or ("unit" if dtype.is_float else "none")
    order = "channels last" if frame.channels_last else "channels first"
    what = str(paths[0]) if len(paths) == 1 else f"{len(paths)} pictures"
    return f"{what}, {size}, {colours}, {order}, --preprocess {preprocess} ({_RANGES[preprocess]})"


_RANGES: Mapping[str, str] = {
    "unit": "values 0 to 1", "signed": "values -1 to 1", "none": "values 0 to 255",
    "imagenet": "0 to 1 less ImageNet's mean, over its deviation",
}  # fmt: skip
