"""Files into arrays, and random arrays for the inputs that no file is given for."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from softneuro.cli.console import remarks
from softneuro.errors import InputError
from softneuro.runtime.session import Session
from softneuro.types import Array, DType, Shape

__all__ = ["feeds_for", "inputs_for", "load_inputs"]


def feeds_for(session: Session, options: argparse.Namespace) -> dict[str, Array]:
    """All inputs that ``--input``, ``--shape`` and ``--seed`` stand for; a remark names those made at random."""
    given = load_inputs(options.input, session)
    feeds = inputs_for(session, given, dict(options.shape), options.seed)
    made = [name for name in feeds if name not in given]
    if made:
        remarks(options).print(f"random input for {', '.join(made)} (seed {options.seed})")
    return feeds


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
