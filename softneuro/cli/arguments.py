"""Arguments that several commands take, and how their texts are read."""

from __future__ import annotations

import argparse
import math
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from softneuro.errors import InputError
from softneuro.runtime.session import Session
from softneuro.types import Array, DType, Shape

__all__ = ["add_force", "add_input", "add_threads", "inputs_for", "load_inputs", "natural", "positive", "seconds", "shape",
           "writable"]

_MOST_THREADS = 1024
_MOST_ELEMENTS = 1 << 40


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _at_least(0, text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"found {text}, needed {least} or more")
    return value


def _thread_count(text: str) -> int:
    value = positive(text)
    if value > _MOST_THREADS:
        raise argparse.ArgumentTypeError(f"found {text}, needed at most {_MOST_THREADS}")
    return value


def seconds(text: str) -> float:
    """A time of at least 0 seconds."""
    value = float(text)
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"found {text}, needed 0 or more")
    return value


def shape(text: str) -> tuple[str, Shape]:
    """``name=1x3x224x224`` as a pair; ``name=`` for a scalar."""
    name, equals, sizes = text.rpartition("=")
    try:
        found = tuple(int(size) for size in sizes.split("x")) if sizes else ()
    except ValueError:
        found = (-1,)
    if not equals or min(found, default=0) < 0 or math.prod(found) > _MOST_ELEMENTS:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed name=1x3x224x224")
    return name, found


def _input_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return ("", Path(text)) if not equals or Path(text).is_file() else (name, Path(path))


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads N``."""
    parser.add_argument("--threads", type=_thread_count, metavar="N",
                        help="threads that share one inference (default: all allowed CPUs, or as the plan was tuned)")


def add_force(parser: argparse.ArgumentParser) -> None:
    """``--force``."""
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")


def add_input(parser: argparse.ArgumentParser) -> None:
    """``--input`` and ``--shape`` and ``--seed`` for commands that run a plan."""
    parser.add_argument("--input", type=_input_file, action="append", default=[], metavar="NAME=FILE",
                        help="an input from a .npy file, or all inputs from a .npz file (several allowed)")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224",
                        help="sizes of an input that is made at random (default: those the plan was tuned for)")
    parser.add_argument("--seed", type=natural, default=0, help="seed of inputs made at random (default 0)")


def writable(path: Path, force: bool) -> Path:
    """The path, when a file may be written there. Raises InputError when it exists and --force was not given."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, needed the name of a file")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already, needed --force to overwrite it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: its folder does not exist or cannot be written")
    return path


def load_inputs(files: Iterable[tuple[str, Path]], session: Session) -> dict[str, Array]:
    """The arrays of ``--input``. Raises InputError for a file that is no array or whose input is not clear."""
    loaded: dict[str, Array] = {}
    names = [info.name for info in session.inputs]
    for name, path in files:
        content = _read_arrays(path)
        if isinstance(content, dict):
            if name:
                raise InputError(f"{path}: holds named arrays, needed --input {path} without a name")
            loaded.update(content)
        elif name or len(names) == 1:
            loaded[name or names[0]] = content
        else:
            raise InputError(f"{path}: the model has {len(names)} inputs, needed NAME={path} with one of {', '.join(names)}")
    return loaded


def _read_arrays(path: Path) -> Array | dict[str, Array]:
    """The array of a .npy file, or the arrays of a .npz file by name."""
    try:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            return content if isinstance(content, np.ndarray) else {key: content[key] for key in content.files}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: is not an array file of numpy (.npy or .npz)") from error


def inputs_for(session: Session, given: Mapping[str, Array], shapes: Mapping[str, Shape], seed: int) -> dict[str, Array]:
    """All inputs: those given, the rest at random (normal floats, zeros and ones) in the given or the tuned shape.

    Raises InputError for a shape of an input that the model does not have or that is given as a file.
    """
    declared = session.plan.graph.inputs
    for name in shapes:
        if name not in declared:
            raise InputError(f"shape of {name!r}: is not one of the model's inputs: needed {', '.join(map(repr, declared))}")
        if name in given:
            raise InputError(f"input {name!r}: found both a file and a shape, needed one of them")
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = dict(given)
    for name in declared:
        if name not in feeds:
            sizes = shapes[name] if name in shapes else session.plan.provenance.shapes.get(name, ())
            feeds[name] = _random(declared[name].dtype, sizes, rng)
    return feeds


def _random(dtype: DType, sizes: Shape, rng: np.random.Generator) -> Array:
    if dtype is DType.STR:
        return np.full(sizes, "", dtype=object)
    values = rng.standard_normal(sizes, np.float32) if dtype.is_float else rng.integers(0, 2, sizes)
    return np.asarray(values).astype(dtype.numpy)
