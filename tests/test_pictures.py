"""Pictures as arrays: which axes they go to, how they are turned, fitted and scaled."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from softneuro.errors import InputError
from softneuro.pictures import Frame, Picture, frame_of, load_picture, picture_array
from softneuro.types import DType


@pytest.mark.parametrize(("declared", "sizes", "expected"), [
    ((1, 3, 6, 5), (1, 3, 6, 5), Frame(6, 5, 3, False, True, 1)),
    ((1, 6, 5, 3), (1, 6, 5, 3), Frame(6, 5, 3, True, True, 1)),
    (("n", 1, 28, 28), (1, 1, 28, 28), Frame(28, 28, 1, False, True, None)),
    (("n", "h", "w", 3), (1, 1, 1, 3), Frame(1, 1, 3, True, True, None)),
    (("n", None, None, None), (1, 3, 8, 9), Frame(8, 9, 3, False, True, None)),
    (None, (2, 8, 9, 4), Frame(8, 9, 4, True, True, None)),
    ((3, 6, 5), (3, 6, 5), Frame(6, 5, 3, False, False, None)),
    ((6, 5, 3), (6, 5, 3), Frame(6, 5, 3, True, False, None)),
    ((1, 3, 4, 4), (1, 3, 4, 4), Frame(4, 4, 3, False, True, 1)),
    ((4, 1, 6, 5), (4, 1, 6, 5), Frame(6, 5, 1, False, True, 4)),
], ids=["channels_first", "channels_last", "grey", "declared_before_tuned", "all_free", "undeclared_last", "no_batch",
        "no_batch_last", "both_would_do", "fixed_batch"])  # fmt: skip
def test_where_the_axes_are(declared: tuple[int | str | None, ...] | None, sizes: tuple[int, ...], expected: Frame) -> None:
    assert frame_of(declared, sizes) == expected


@pytest.mark.parametrize(("sizes", "reason"), [
    ((1, 128), "it has 2 axes"), ((1, 2, 3, 4, 5), "it has 5 axes"), ((1, 8, 6, 5), "none of its axes 1x8x6x5"), ((), "0 axes"),
])  # fmt: skip
def test_inputs_that_take_no_pictures(sizes: tuple[int, ...], reason: str) -> None:
    found = frame_of(sizes, sizes)
    assert isinstance(found, str) and reason in found


def halves(width: int, height: int) -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


def saved(picture: Image.Image, folder: Path, name: str = "a.png", **options: object) -> Path:
    picture.save(folder / name, **options)  # type: ignore[arg-type]
    return folder / name


def frame(height: int, width: int, channels: int = 3) -> Frame:
    return Frame(height, width, channels, False, True, None)


@pytest.mark.parametrize(("fit", "black", "blue"), [("stretch", 0, 0.5), ("crop", 0, 0.5), ("pad", 0.5, 0.25)])
def test_fits(tmp_path: Path, fit: str, black: float, blue: float) -> None:
    found = load_picture(saved(halves(40, 20), tmp_path), frame(20, 20), fit)
    assert (found.width, found.height) == (40, 20) and found.pixels.shape == (20, 20, 3)
    assert np.mean(found.pixels.max(-1) == 0) == black
    assert np.mean(found.pixels[..., 2] == 255) == pytest.approx(blue, abs=0.06)


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(1, 300), (300, 1), (1, 1)], ids=["column", "row", "point"])
def test_thin_pictures(tmp_path: Path, fit: str, size: tuple[int, int]) -> None:
    path = saved(Image.new("RGB", size, (10, 20, 30)), tmp_path)
    pixels = load_picture(path, frame(8, 9), fit).pixels
    assert pixels.shape == (8, 9, 3) and pixels.reshape(-1, 3).max(0).tolist() == [10, 20, 30]


def test_shrinking_is_antialiased(tmp_path: Path) -> None:
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    found = load_picture(saved(Image.fromarray(checks.astype(np.uint8)), tmp_path), frame(8, 8, 1)).pixels
    assert np.abs(found.astype(int) - 127).max() <= 12


def test_a_picture_is_turned_as_its_exif_says(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn right: what is left in the file comes up
    path = saved(halves(40, 20), tmp_path, "a.jpg", exif=exif, quality=95)
    found = load_picture(path, frame(40, 20))
    assert (found.width, found.height) == (20, 40)
    assert found.pixels[:15, :, 0].min() > 200 and found.pixels[25:, :, 2].min() > 200


@pytest.mark.parametrize(("picture", "channels", "expected"), [
    (Image.new("RGBA", (4, 4), (10, 20, 30, 0)), 3, [10, 20, 30]),
    (Image.new("RGBA", (4, 4), (10, 20, 30, 40)), 4, [10, 20, 30, 40]),
    (Image.new("RGB", (4, 4), (10, 20, 30)), 4, [10, 20, 30, 255]),
    (Image.new("RGB", (4, 4), (50, 50, 50)), 1, [50]),
    (Image.new("LA", (4, 4), (50, 0)), 3, [50, 50, 50]),
    (Image.new("1", (4, 4), 1), 1, [255]),
    (Image.new("RGB", (4, 4), (255, 0, 0)).quantize(2), 3, [255, 0, 0]),
    (Image.fromarray(np.full((4, 4), 0x8100, np.uint16)), 3, [129, 129, 129]),
], ids=["alpha_dropped", "alpha_kept", "alpha_added", "grey", "grey_with_alpha", "two_colours", "palette", "sixteen_bits"])
def test_colours(tmp_path: Path, picture: Image.Image, channels: int, expected: list[int]) -> None:
    assert load_picture(saved(picture, tmp_path), frame(4, 4, channels)).pixels[1, 2].tolist() == expected


@pytest.mark.parametrize("name", ["a.bmp", "a.webp", "a.jpeg", "a.PNG"])
def test_file_formats(tmp_path: Path, name: str) -> None:
    pixels = load_picture(saved(Image.new("RGB", (8, 8), (200, 100, 50)), tmp_path, name), frame(8, 8)).pixels
    assert np.abs(pixels.astype(int) - (200, 100, 50)).max() <= 4


def test_any_cut_of_a_picture_gives_one_sentence(tmp_path: Path) -> None:
    stream = io.BytesIO()
    halves(40, 20).save(stream, "JPEG")
    data = stream.getvalue()
    for length in range(0, len(data) - 2, 40):
        (tmp_path / "a.jpg").write_bytes(data[:length])
        with pytest.raises(InputError, match=r"a\.jpg: (is|cannot)"):
            load_picture(tmp_path / "a.jpg", frame(4, 4))


def test_any_flipped_byte_gives_a_picture_or_one_sentence(tmp_path: Path) -> None:
    stream = io.BytesIO()
    halves(12, 12).save(stream, "PNG")
    data = bytearray(stream.getvalue())
    for place in range(len(data)):
        data[place] ^= 0x55
        (tmp_path / "a.png").write_bytes(data)
        data[place] ^= 0x55
        try:
            assert load_picture(tmp_path / "a.png", frame(4, 4)).pixels.shape == (4, 4, 3)
        except InputError as error:
            assert str(error).count("\n") == 0


PIXELS = Picture(np.array([[[0, 51, 255]]], np.uint8), 1, 1)


@pytest.mark.parametrize(("dtype", "preprocess", "expected"), [
    (DType.F32, None, [0, 0.2, 1]), (DType.F16, "unit", [0, 0.2, 1]), (DType.BF16, "none", [0, 51, 255]),
    (DType.F64, "signed", [-1, -0.6, 1]), (DType.F32, "imagenet", [-0.485 / 0.229, -0.256 / 0.224, 0.594 / 0.225]),
    (DType.U8, None, [0, 51, 255]), (DType.I32, "none", [0, 51, 255]),
])  # fmt: skip
def test_values(dtype: DType, preprocess: str | None, expected: list[float]) -> None:
    found = picture_array([PIXELS], frame(1, 1), dtype, preprocess)
    assert found.dtype == dtype.numpy and found.shape == (1, 3, 1, 1)
    np.testing.assert_allclose(found.reshape(-1).astype(np.float64), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("pictures", "given", "dtype", "preprocess", "message"), [
    (2, Frame(1, 1, 3, False, True, 1), DType.F32, None, "found 2 pictures, needed 1: its batch is fixed"),
    (1, Frame(1, 1, 3, False, True, 4), DType.F32, None, "found 1 picture, needed 4: its batch is fixed"),
    (2, Frame(1, 1, 3, False, False, None), DType.F32, None, "found 2 pictures, needed 1"),
    (1, Frame(1, 1, 3, False, True, 1), DType.I8, None, "takes int8"),
    (1, Frame(1, 1, 3, False, True, 1), DType.BOOL, None, "takes bool"),
    (1, Frame(1, 1, 3, False, True, 1), DType.U8, "signed", "takes uint8"),
])  # fmt: skip
def test_pictures_that_do_not_fit(pictures: int, given: Frame, dtype: DType, preprocess: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        picture_array([PIXELS] * pictures, given, dtype, preprocess)


def test_imagenet_needs_colours() -> None:
    grey = Picture(np.zeros((1, 1, 1), np.uint8), 1, 1)
    with pytest.raises(InputError, match="imagenet needs 3 channels, found 1"):
        picture_array([grey], frame(1, 1, 1), DType.F32, "imagenet")
