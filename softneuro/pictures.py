"""Picture files as inputs: decoded, resized and scaled as an image model wants them (needs Pillow, the extra ``images``)."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from softneuro.errors import InputError, NotInstalled
from softneuro.types import Array, DType, Shape

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["FITS", "PREPROCESSES", "SUFFIXES", "Frame", "Picture", "frame_of", "load_picture", "picture_array"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FITS = ("stretch", "crop", "pad")
"""How a picture gets the input's height and width: by stretching it, or in proportion, with what stands out cropped or
black bars at the sides."""
PREPROCESSES = ("unit", "signed", "imagenet", "none")
"""Ranges of the values: 0..1, -1..1, 0..1 less ImageNet's mean over its standard deviation, 0..255."""

_FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
_CHANNELS = (1, 3, 4)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's training pictures, as torchvision has them


@dataclass(frozen=True)
class Frame:
    """How an input holds pictures: their size, grey (1 channel), RGB (3) or RGBA (4), and where the axes are.

    batch: how many, None for any number; batched: whether there is such an axis.
    """

    height: int
    width: int
    channels: int
    channels_last: bool
    batched: bool
    batch: int | None


@dataclass(frozen=True)
class Picture:
    """A decoded picture: uint8 (height, width, channels), and its own width and height before it was resized."""

    pixels: Array
    width: int
    height: int


def frame_of(declared: Sequence[int | str | None] | None, sizes: Shape) -> Frame | str:
    """How an input with these declared dimensions and concrete sizes holds pictures; a text why it cannot.

    Channels are the axis of 1, 3 or 4 right after the batch or at the end; what is declared counts before what is not,
    and channels first where both would do.
    """
    fixed = tuple(declared) if declared is not None and len(declared) == len(sizes) else (None,) * len(sizes)
    if len(sizes) not in (3, 4):
        return f"it has {len(sizes)} axes, and pictures have 3 or 4 (batch, channels, height, width)"
    batched = len(sizes) == 4
    first, last = int(batched), len(sizes) - 1
    axis = next((axis for known in (fixed, sizes) for axis in (first, last) if known[axis] in _CHANNELS), None)
    if axis is None:
        return f"none of its axes {'x'.join(map(str, sizes))} is one of 1, 3 or 4 channels"
    height, width = sizes[first:last] if axis == last else sizes[first + 1 :]
    batch = fixed[0] if batched and isinstance(fixed[0], int) else None
    return Frame(height, width, sizes[axis], axis == last, batched, batch)


def load_picture(path: Path, frame: Frame, fit: str = "stretch") -> Picture:
    """Decode a PNG, JPEG, BMP or WebP file (the first frame of an animation) in the size of the frame.

    It is turned as its EXIF orientation says, made grey, RGB or RGBA (transparency is dropped but for RGBA), and resized
    by bilinear interpolation, antialiased when it shrinks. Raises NotInstalled without Pillow, InputError for a file that
    is damaged, no picture, or so large that decoding it would be a danger (more than `PIL.Image.MAX_IMAGE_PIXELS`).
    """
    if importlib.util.find_spec("PIL") is None:
        raise NotInstalled(f"{path}: reading pictures needs the extra: pip install 'softneuro[images]'")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as opened:
                turned = ImageOps.exif_transpose(_eight_bits(opened))
                fitted = _fitted(turned.convert(_MODES[frame.channels]), frame, fit)
                pixels = np.asarray(fitted, np.uint8).reshape(frame.height, frame.width, frame.channels)
                return Picture(pixels, turned.width, turned.height)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        most = f"{Image.MAX_IMAGE_PIXELS or 0:,}"
        raise InputError(f"{path}: is too large a picture, needed at most {most} pixels") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: is not a PNG, JPEG, BMP or WebP picture") from error
    except OSError as error:
        what = "cannot be read" if error.strerror else "is damaged"
        raise InputError(f"{path}: {what}: {error.strerror or error}") from error
    except Exception as error:  # decoders raise nearly anything for damaged files
        raise InputError(f"{path}: is damaged: {error or type(error).__name__}") from error


def _eight_bits(picture: Image.Image) -> Image.Image:
    """A picture of 16 bits a pixel in 8: Pillow would clip it. Others as they are."""
    from PIL import Image

    if not picture.mode.startswith("I"):
        return picture
    reduced = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
    reduced.info["exif"] = picture.info.get("exif", b"")
    return reduced


def _fitted(picture: Image.Image, frame: Frame, fit: str) -> Image.Image:
    from PIL import Image

    size = (frame.width, frame.height)
    if picture.size == size:
        return picture
    if fit == "stretch":
        return picture.resize(size, Image.Resampling.BILINEAR)
    scales = [wanted / found for wanted, found in zip(size, picture.size, strict=True)]
    scale = max(scales) if fit == "crop" else min(scales)
    if fit == "crop":
        left, top = ((found - wanted / scale) / 2 for found, wanted in zip(picture.size, size, strict=True))
        box = (max(left, 0.0), max(top, 0.0), min(picture.width - left, picture.width), min(picture.height - top, picture.height))
        return picture.resize(size, Image.Resampling.BILINEAR, box)
    inner = tuple(max(1, min(wanted, round(found * scale))) for found, wanted in zip(picture.size, size, strict=True))
    whole = Image.new(picture.mode, size)
    whole.paste(picture.resize((inner[0], inner[1]), Image.Resampling.BILINEAR),
                ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2))
    return whole


def picture_array(pictures: Sequence[Picture], frame: Frame, dtype: DType, preprocess: str | None = None) -> Array:
    """Pictures as one array of the frame's form.

    preprocess: one of `PREPROCESSES`, by default ``unit`` for floats and ``none`` for whole numbers. Raises InputError
    for a number of pictures or a data type that does not fit.
    """
    if (not frame.batched and len(pictures) != 1) or (frame.batch is not None and len(pictures) != frame.batch):
        found = f"{len(pictures)} picture{'s' * (len(pictures) > 1)}"
        raise InputError(f"found {found}, needed {frame.batch or 1}: its batch is fixed")
    chosen = preprocess or ("unit" if dtype.is_float else "none")
    pixels = np.stack([picture.pixels for picture in pictures])
    if dtype.is_float:
        values = _scaled(pixels, chosen)
    elif chosen != "none" or dtype.numpy.kind not in "iu" or dtype is DType.I8:
        raise InputError(f"takes {dtype.numpy}, and pictures with --preprocess {chosen} are {_range_text(chosen)}")
    else:
        values = pixels
    ordered = values if frame.channels_last else np.moveaxis(values, -1, 1)
    return np.ascontiguousarray(ordered if frame.batched else ordered[0], dtype.numpy)


def _scaled(pixels: Array, preprocess: str) -> Array:
    values = pixels.astype(np.float32)
    if preprocess == "none":
        return values
    if preprocess == "signed":
        return values / np.float32(127.5) - np.float32(1)
    values /= np.float32(255)
    if preprocess == "imagenet":
        if pixels.shape[-1] != len(_MEAN):
            raise InputError(f"--preprocess imagenet needs 3 channels, found {pixels.shape[-1]}")
        values -= np.asarray(_MEAN, np.float32)
        values /= np.asarray(_DEVIATION, np.float32)
    return values


def _range_text(preprocess: str) -> str:
    return "whole numbers from 0 to 255" if preprocess == "none" else "fractions"
