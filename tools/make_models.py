"""Build the benchmark nets, with seeded random weights, into the model cache.

    python tools/make_models.py [NAME ...] [--batch N] [--dynamic] [--cache DIR]

VGG16, ResNet50, MobileNetV2 and MobileNetV3-Large as PyTorch's exporter writes them (batch norms not folded),
and the light models of the `onnx` wheel with random weights. Names: see BUILDERS.
"""
from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that this also runs as a script

import onnx

from tools.model_cache import cache_folder, write_atomically
from tools.models import light
from tools.models.mobilenet_v2 import mobilenet_v2
from tools.models.mobilenet_v3 import mobilenet_v3_large
from tools.models.resnet50 import resnet50
from tools.models.vgg16 import vgg16

ROOT = Path(__file__).resolve().parent.parent
BUILDERS: Mapping[str, Callable[[int | str], onnx.ModelProto]] = {
    "vgg16": vgg16,
    "resnet50": resnet50,
    "mobilenet-v2": mobilenet_v2,
    "mobilenet-v3-large": mobilenet_v3_large,
    **{name: partial(light.reweighted, name) for name in light.FILES},
}


def build(name: str, batch: int = 1, dynamic: bool = False) -> onnx.ModelProto:
    """The model `name` for `batch` images, or for any number of them (a dimension "N") if `dynamic`.

    Raises ValueError if no builder has this name, or if it is a light model and not for one image.
    """
    if name not in BUILDERS:
        raise ValueError(f"no builder is named {name!r}, the names are {', '.join(BUILDERS)}")
    return BUILDERS[name]("N" if dynamic else batch)


def built_path(name: str, cache: Path | None = None, batch: int = 1, dynamic: bool = False) -> Path:
    """Where the built model lies on disk; built again if the sources of the builders changed since."""
    suffix = "-bN" if dynamic else f"-b{batch}" if batch != 1 else ""
    path = (cache or cache_folder()) / f"{name}{suffix}.onnx"
    mark, digest = path.with_suffix(".source"), source_digest()
    if not (path.exists() and mark.exists() and mark.read_text() == digest):
        write_atomically(path, build(name, batch, dynamic).SerializeToString())
        write_atomically(mark, digest.encode())
    return path


def source_digest() -> str:
    """A hash of everything that decides what is built: the builders' sources and the onnx version."""
    digest = hashlib.sha256(onnx.__version__.encode())
    for source in sorted((ROOT / "tools" / "models").glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the benchmark nets with seeded random weights.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BUILDERS)} (default: all)")
    parser.add_argument("--batch", type=int, default=1, help="images per run (%(default)s)")
    parser.add_argument("--dynamic", action="store_true", help="leave the number of images open")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where files go (%(default)s)")
    options = parser.parse_args(arguments)
    try:
        for name in options.names or BUILDERS:
            print(f"{name:20} {built_path(name, options.cache, options.batch, options.dynamic)}")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
