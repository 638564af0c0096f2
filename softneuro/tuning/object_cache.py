"""The bound of the folder of compiled kernels: what was not used for longest goes when it grows too large.

An object's name is a digest of all that shaped it, so objects of former versions of the sources are never read again: their
time of use stands still, and they go first. The time of use is that of the last reading, which most file systems keep to the
day, or that of writing where none is kept.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from softneuro.errors import InputError
from softneuro.limits import amount

__all__ = ["OBJECT", "bound_cache", "most_cached_bytes"]

_log = logging.getLogger(__name__)
_LIMIT = "SOFTNEURO_CACHE_LIMIT"
_MOST_BYTES = 1 << 30
_KEPT = 0.75
OBJECT = re.compile(r"sn_[a-z0-9_]+_[0-9a-f]{24}\.o")
"""The name of a compiled kernel in the cache folder."""


def most_cached_bytes() -> int:
    """How much the folder may hold: $SOFTNEURO_CACHE_LIMIT, by default 1 GiB. Raises InputError for what is no amount."""
    text = os.environ.get(_LIMIT)
    if not text:
        return _MOST_BYTES
    try:
        return amount("cache_bytes", text)
    except ValueError:
        raise InputError(f"{_LIMIT}: found {text!r}, needed bytes such as 500M or 4G") from None


def bound_cache(folder: Path, most: int) -> tuple[int, int]:
    """Remove kernels, those that were not used for longest first, from a folder that holds more than ``most`` bytes until it
    holds three quarters of that. Returns how many and bytes.

    Other processes may read, write and remove kernels meanwhile: what a process has loaded stays loaded, and what it does
    not find it compiles again. A folder that cannot be read or written stays as it is.
    """
    try:
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return 0, 0
    try:
        found = sorted(_objects(inside))
        excess = sum(nbytes for _, nbytes, _ in found) - most
        removed = list(_removed(inside, found, excess + int((1 - _KEPT) * most))) if excess > 0 else []
    finally:
        os.close(inside)
    if removed:
        _log.info("%s: removed %d kernels that were not used for longest, %d bytes", folder, len(removed), sum(removed))
    return len(removed), sum(removed)


def _objects(inside: int) -> Iterator[tuple[int, int, str]]:
    """Nanosecond of the last use, bytes and name of every kernel in an open folder."""
    for name in os.listdir(inside):
        if OBJECT.fullmatch(name):
            try:
                found = os.stat(name, dir_fd=inside, follow_symlinks=False)
            except OSError:
                continue  # another process removed it
            if stat.S_ISREG(found.st_mode):
                yield max(found.st_atime_ns, found.st_mtime_ns), found.st_size, name


def _removed(inside: int, objects: list[tuple[int, int, str]], excess: int) -> Iterator[int]:
    """Remove so many bytes of the first objects; the bytes of each."""
    for _, nbytes, name in objects:
        if excess <= 0:
            return
        try:
            os.unlink(name, dir_fd=inside)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError:
            return
        else:
            yield nbytes
        excess -= nbytes
