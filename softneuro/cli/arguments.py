"""Arguments that several commands take, and how their texts are read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from softneuro.errors import InputError
from softneuro.runtime.session import Session
from softneuro.types import Array, DType, Shape

__all__ = ["add_input", "add_threads", "inputs_for", "load_inputs", "positive", "shape", "writable"]


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {text}, needed 1 or more")
    return value


def shape(text: str) -> tuple[str, Shape]:
    """``name=1x3x224x224`` as a pair; ``name=`` for a scalar."""
    name, equals, sizes = text.rpartition("=")
    try:
        if not equals:
            raise ValueError
        return name, tuple(int(size) for size in sizes.split("x")) if sizes else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed name=1x3x224x224") from None


def _input_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals:
        return "", Path(text)
    return name, Path(path)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads N``."""
    parser.add_argument("--threads", type=positive, metavar="N", help="threads that share one inference (default: all allowed CPUs)")


def add_input(parser: argparse.ArgumentParser) -> None:
    """``--input`` and ``--shape`` and ``--seed`` for commands that run a plan."""
    parser.add_argument("--input", type=_input_file, action="append", default=[], metavar="NAME=FILE",
                        help="an input from a .npy file, or all inputs from a .npz file (several allowed)")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224",
                        help="sizes of an input that is made at random (default: those the plan was tuned for)")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs made at random (default 0)")


def writable(path: Path, force: bool) -> Path:
    """The path, when it may be written. Raises InputError when it exists and --force was not given."""
    if path.exists() and not force:
        raise InputError(f"{path}: exists already, needed --force to overwrite it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: its folder does not exist or cannot be written")
    return path


def load_inputs(files: list[tuple[str, Path]], session: Session) -> dict[str, Array]:
    """The arrays of ``--input``. Raises InputError for a file that is no array or whose input is not clear."""
    loaded: dict[str, Array] = {}
    names = [info.name for info in session.inputs]
    for name, path in files:
        try:
            content = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: is not an array file of numpy (.npy or .npz): {error}") from error
        if isinstance(content, np.ndarray):
            if not name and len(names) > 1:
                raise InputError(f"{path}: the model has several inputs, needed NAME={path} with one of {', '.join(names)}")
            loaded[name or names[0]] = content
        else:
            loaded.update({key: content[key] for key in content.files})
    return loaded


def inputs_for(session: Session, given: Mapping[str, Array], shapes: Mapping[str, Shape], seed: int) -> dict[str, Array]:
    """All inputs: those given, the rest at random (normal floats, small integers) in the given or the tuned shape."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = dict(given)
    for name, declared in session.plan.graph.inputs.items():
        if name in feeds:
            continue
        sizes = shapes.get(name) or session.plan.provenance.shapes.get(name, ())
        if declared.dtype is DType.STR:
            feeds[name] = np.full(sizes, "", dtype=object)
        elif declared.dtype.is_float:
            feeds[name] = rng.standard_normal(sizes, np.float32).astype(declared.dtype.numpy)
        else:
            feeds[name] = np.asarray(rng.integers(0, 2, sizes)).astype(declared.dtype.numpy)
    return feeds
