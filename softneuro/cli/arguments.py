"""Arguments that several commands take, and how their texts are read."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from pathlib import Path

from softneuro.cli.spelling import did_you_mean
from softneuro.errors import InputError
from softneuro.limits import ResourceLimits, amount
from softneuro.pictures import FITS, PREPROCESSES
from softneuro.tuning.ranges import Size
from softneuro.types import Shape

__all__ = ["add_force", "add_input", "add_json", "add_limit", "add_picture_options", "add_threads", "natural", "number",
           "positive", "ranged_shape", "seconds", "shape", "tolerance", "writable"]

_MOST_THREADS = 1024
_MOST_ELEMENTS = 1 << 40
_LIMITS = tuple(field.name for field in dataclasses.fields(ResourceLimits))


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


def tolerance(text: str) -> float:
    """A difference of at least 0."""
    value = float(text)
    if not value >= 0:
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


def ranged_shape(text: str) -> tuple[str, tuple[Size, ...]]:
    """As `shape`, where a size may be a range such as ``224..640``."""
    name, equals, sizes = text.rpartition("=")
    if not equals or ".." not in sizes:
        return shape(text)
    ends = tuple(size.split("..") for size in sizes.split("x"))
    try:
        found = tuple(int(end[0]) if len(end) == 1 else (int(end[0]), int(end[1])) for end in ends)
    except ValueError:
        found = (-1,)
    least, largest = ([size if isinstance(size, int) else size[end] for size in found] for end in (0, 1))
    in_order = all(isinstance(size, int) or 1 <= size[0] <= size[1] for size in found)
    if not in_order or max(map(len, ends)) > 2 or min(least) < 0 or math.prod(largest) > _MOST_ELEMENTS:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed name=1x3x224..640x224..640, the least size first")
    return name, found


def number(text: str) -> tuple[str, int]:
    """``name=16000`` as a pair."""
    name, _, value = text.rpartition("=")
    try:
        return name, int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed name=16000 with a whole number") from None


def _input_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return ("", Path(text)) if not equals or Path(text).is_file() else (name, Path(path))


def _limit(text: str) -> tuple[str, int]:
    """``memory=8G`` as a pair."""
    name, _, number = text.partition("=")
    if name not in _LIMITS:
        raise argparse.ArgumentTypeError(f"found {name!r}{did_you_mean(name, _LIMITS)}, needed one of {', '.join(_LIMITS)}")
    try:
        return name, amount(name, number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed {name}=AMOUNT with a number of 0 or more, and K, M, G or T "
                                         "after it where that is shorter") from None  # fmt: skip


def add_limit(parser: argparse.ArgumentParser) -> None:
    """``--limit``, for commands that read files which may not be trusted; `main` puts the limits in force."""
    parser.add_argument("--limit", type=_limit, action="append", default=[], metavar="NAME=AMOUNT",
                        help="what the files may ask for at most, such as memory=8G or nodes=10K (several allowed; names: "
                             f"{', '.join(_LIMITS)}; K, M, G and T are powers of 1024 in bytes, of 1000 in counts)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``, for commands that print tables."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads N``."""
    parser.add_argument("--threads", type=_thread_count, metavar="N",
                        help="threads that share one inference (default: all allowed CPUs, or as the plan was tuned)")


def add_force(parser: argparse.ArgumentParser) -> None:
    """``--force``."""
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")


def add_input(parser: argparse._ActionsContainer) -> None:
    """``--input`` and what belongs to it, for commands that run a plan or model."""
    parser.add_argument("--input", type=_input_file, action="append", default=[], metavar="NAME=FILE",
                        help="an input from a .npy file, from a picture (.png .jpg .bmp .webp; several make a batch) or as a "
                             "number for all its elements, NAME= where it is not clear for which; inputs by name from a .npz "
                             "file (several allowed; inputs that are not given are random)")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224",
                        help="sizes of an input that is random, a number or a picture (default: those the plan was tuned for)")
    add_picture_options(parser)
    parser.add_argument("--seed", type=natural, default=0, help="seed of inputs made at random (default 0)")


def add_picture_options(parser: argparse._ActionsContainer) -> None:
    """``--fit`` and ``--preprocess``: what is made of pictures."""
    parser.add_argument("--fit", choices=FITS, default="stretch",
                        help="how a picture gets the input's height and width: stretched (default), or in proportion with the "
                             "rest cropped or with black bars")
    parser.add_argument("--preprocess", choices=PREPROCESSES,
                        help="values of a picture: unit 0 to 1, signed -1 to 1, imagenet 0 to 1 less ImageNet's mean over its "
                             "deviation, none 0 to 255 (default: unit for floats, none for whole numbers)")


def writable(path: Path, force: bool) -> Path:
    """The path, when a file may be written there. Raises InputError when it exists and --force was not given."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, needed the name of a file")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already, needed --force to overwrite it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: its folder does not exist or cannot be written")
    return path
