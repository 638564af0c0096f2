"""The folder where the tools keep model files, and how files get into it."""
from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """`$SOFTNEURO_CACHE/models`, else `~/.cache/softneuro/models`."""
    base = os.environ.get("SOFTNEURO_CACHE")
    return (Path(base) if base else Path.home() / ".cache" / "softneuro") / "models"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the same folder, then rename, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
