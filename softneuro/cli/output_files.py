"""``--output``: where outputs go, found out and checked before the run, and written after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from softneuro.array_files import write_arrays
from softneuro.cli.arguments import writable
from softneuro.errors import InputError
from softneuro.runtime.session import Session
from softneuro.types import Array

__all__ = ["OutputFiles", "planned_files", "write_outputs"]


@dataclass(frozen=True)
class OutputFiles:
    """The .npz file for all outputs, or the file of each output by name."""

    archive: Path | None
    files: Mapping[str, Path]


def planned_files(target: Path, session: Session, force: bool) -> OutputFiles:
    """Where every output goes: into a .npz file, or a folder, which is made.

    Sequences and maps get a .npz file in the folder. Raises InputError for files that exist, unless forced, and for places
    that cannot be written.
    """
    if target.suffix == ".npz":
        return OutputFiles(writable(target, force), {})
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target}: cannot be made a folder: {error.strerror or error}") from error
    files: dict[str, Path] = {}
    for info in session.outputs:
        suffix = ".npz" if info.dtype == "other" else ".npy"
        taken = {path.name.casefold() for path in files.values()}
        name = stem = _file_name(info.name)
        number = 1
        while f"{name}{suffix}".casefold() in taken:
            name, number = f"{stem}-{number}", number + 1
        files[info.name] = writable(target / f"{name}{suffix}", force)
    return OutputFiles(None, files)


def write_outputs(planned: OutputFiles, outputs: Mapping[str, Any]) -> Iterator[str]:
    """Write the outputs; yields a line for each file."""
    if planned.archive is not None:
        arrays = {key: array for name, value in outputs.items() for key, array in _arrays(name, value)}
        write_arrays(planned.archive, arrays)
        yield f"wrote {planned.archive}: {', '.join(arrays)}"
        return
    for name, path in planned.files.items():
        value = outputs[name]
        if isinstance(value, (list, tuple, Mapping)) or value is None:
            file = path.with_suffix(".npz")
            write_arrays(file, dict(_arrays("", value)))
        else:
            file = path
            np.save(file, _plain(value), allow_pickle=False)
        yield f"wrote {file}"


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    """The arrays in an output: itself, or the elements of a sequence or map with where they are."""
    if isinstance(value, (list, tuple)):
        for index, element in enumerate(value):
            yield from _arrays(f"{name}[{index}]", element)
    elif isinstance(value, Mapping):
        for key, element in value.items():
            yield from _arrays(f"{name}[{key!r}]", element)
    elif value is not None:
        yield name, _plain(value)


def _plain(value: Any) -> Array:
    """The array, texts as numpy's fixed-width text type: files hold no Python objects."""
    array = np.asarray(value)
    return array.astype(str) if array.dtype.hasobject else array


def _file_name(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    return kept if kept.strip(".") else "output"
