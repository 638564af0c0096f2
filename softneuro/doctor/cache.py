"""The folder of compiled kernels: how much lies there, whether it can be written, and how to empty it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softneuro.errors import InputError
from softneuro.tuning.object_cache import OBJECT

__all__ = ["Cache", "clean_cache", "read_cache"]

_SCRATCH = re.compile(r"sn_[a-z0-9_]+_[0-9a-f]{24}\.(?P<process>[0-9]+)\.[0-9]+\.tmp")


@dataclass(frozen=True)
class Cache:
    """objects: compiled kernels, and nbytes of them. writable: whether new ones can be kept (the folder is made when it
    is needed)."""

    folder: str
    objects: int
    nbytes: int
    writable: bool


def read_cache(folder: Path) -> Cache:
    """What lies in a cache folder, which need not exist."""
    try:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder) if OBJECT.fullmatch(entry.name)]
    except OSError:
        sizes = []
    return Cache(str(folder), len(sizes), sum(sizes), _can_write(folder))


def _can_write(folder: Path) -> bool:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)


def clean_cache(folder: Path) -> tuple[int, int]:
    """Remove the compiled kernels of a cache folder, and what processes that are gone left half written.

    Only plain files whose names softneuro gives are removed; links are not followed. Another process may use the folder
    meanwhile: kernels that it has loaded stay loaded, and it compiles the others again. Returns how many files and bytes.

    Raises InputError when the folder is a link, or cannot be written.
    """
    try:
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        what = "is a link, needed the folder itself" if folder.is_symlink() else f"cannot be opened: {error.strerror}"
        raise InputError(f"cache folder {str(folder)!r}: {what}") from error
    try:
        removed = list(_remove(inside))
    except PermissionError as error:
        raise InputError(f"cache folder {str(folder)!r}: its files cannot be removed: {error.strerror}") from error
    finally:
        os.close(inside)
    return len(removed), sum(removed)


def _remove(inside: int) -> Iterator[int]:
    """Remove what is ours of an open folder; the bytes of each file."""
    for name in os.listdir(inside):
        scratch = _SCRATCH.fullmatch(name)
        if not OBJECT.fullmatch(name) and (scratch is None or _is_running(int(scratch["process"]))):
            continue
        try:
            found = os.stat(name, dir_fd=inside, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                os.unlink(name, dir_fd=inside)
                yield found.st_size
        except FileNotFoundError:
            continue  # another process was faster


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
