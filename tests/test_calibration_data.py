"""What calibration accepts, and what it says about everything else."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from softneuro.array_files import write_arrays
from softneuro.calibration.data import samples_of
from softneuro.errors import InputError
from softneuro.graph import Graph, GraphInput
from softneuro.types import Array, DType

RNG = np.random.default_rng(0)


def takes(*shapes: tuple[int | str | None, ...], dtype: DType = DType.F32) -> Graph:
    return Graph({f"x{i}": GraphInput(dtype, shape) for i, shape in enumerate(shapes)}, (), (), {})


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def shapes_in(graph: Graph, data: Any, **options: Any) -> list[tuple[int, ...]]:
    return [sample.feeds["x0"].shape for sample in samples_of(graph, data, **options)]


def pictures(folder: Path, count: int, size: tuple[int, int] = (9, 7)) -> Path:
    for i in range(count):
        place = folder / f"class{i % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (i, 2 * i, 255)).save(place / f"{i:03}.png")
    return folder


@pytest.mark.parametrize(("declared", "array", "runs"), [
    ((1, 3, 4), (5, 3, 4), [(1, 3, 4)] * 5),
    (("n", 3, 4), (5, 3, 4), [(1, 3, 4)] * 5),
    ((2, 3, 4), (5, 3, 4), [(2, 3, 4)] * 2),
    ((3, 4), (5, 3, 4), [(3, 4)] * 5),
    ((1, 3, 4), (5, 1, 3, 4), [(1, 3, 4)] * 5),
    ((None, None), (5, 3, 4), [(3, 4)] * 5),
    (None, (5, 3, 4), [(1, 3, 4)] * 5),
    ((), (5,), [()] * 5),
], ids=["one", "free_batch", "batch_of_two", "unbatched", "batched_samples", "free", "unknown_rank", "numbers"])  # fmt: skip
def test_first_axes_count_samples(tmp_path: Path, declared: Any, array: tuple[int, ...], runs: list[tuple[int, ...]]) -> None:
    values = floats(*array)
    write_arrays(tmp_path / "a.npz", {"x0": values})
    found = list(samples_of(takes(declared), tmp_path / "a.npz"))
    assert [sample.feeds["x0"].shape for sample in found] == runs
    joined = np.concatenate([sample.feeds["x0"].reshape(-1) for sample in found])
    np.testing.assert_array_equal(joined, values.reshape(-1)[: joined.size])
    assert found[0].source == f"{tmp_path / 'a.npz'}, sample 0"


def test_files_of_a_folder_follow_each_other_in_order(tmp_path: Path) -> None:
    for name, value in (("b", 2), ("a", 1), ("c", 3)):
        write_arrays(tmp_path / f"{name}.npz", {"x0": np.full((2, 3), value, np.float32), "x1": floats(2, 4)})
    graph = takes((1, 3), ("n", 4))
    assert [int(sample.feeds["x0"][0, 0]) for sample in samples_of(graph, str(tmp_path))] == [1, 1, 2, 2, 3, 3]
    assert len(list(samples_of(graph, tmp_path, most=3))) == 3
    np.save(tmp_path / "one.npy", floats(4, 3))
    assert len(list(samples_of(takes((1, 3)), tmp_path / "one.npy"))) == 4


@pytest.mark.parametrize(("declared", "options", "shapes"), [
    ((1, 3, 6, 5), {}, [(1, 3, 6, 5)] * 6),
    (("n", 6, 5, 3), {}, [(1, 6, 5, 3)] * 6),
    ((4, 3, 6, 5), {}, [(4, 3, 6, 5)]),
    ((1, 3, 6, 5), {"most": 2}, [(1, 3, 6, 5)] * 2),
    ((1, 3, "h", "w"), {"shapes": {"x0": (1, 3, 8, 4)}}, [(1, 3, 8, 4)] * 6),
], ids=["one", "channels_last", "batch_of_four", "fewer", "free_size"])  # fmt: skip
def test_pictures_become_samples(tmp_path: Path, declared: Any, options: dict[str, Any], shapes: list[tuple[int, ...]]) -> None:
    assert shapes_in(takes(declared), pictures(tmp_path, 6), **options) == shapes


def test_pictures_are_chosen_evenly_and_preprocessed(tmp_path: Path) -> None:
    samples = list(samples_of(takes((1, 3, 7, 9)), pictures(tmp_path, 8), most=4, preprocess="none"))
    assert [int(sample.feeds["x0"][0, 0, 0, 0]) for sample in samples] == [0, 4, 1, 5]  # two of each folder
    (unit,) = samples_of(takes((1, 3, 7, 9)), tmp_path, most=1)
    assert unit.feeds["x0"].max() == 1


@pytest.mark.parametrize("kind", ["list", "generator", "mappings", "function"])
def test_iterables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    arrays = [floats(1, 3) for _ in range(4)]
    (tmp_path / "calibration_of_a_test.py").write_text(
        "import numpy as np\ndef batches():\n    for i in range(4):\n        yield {'x0': np.zeros((1, 3), np.float32)}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    data: Any = {"list": arrays, "generator": iter(arrays), "mappings": [{"x0": a} for a in arrays],
                 "function": "calibration_of_a_test:batches"}[kind]  # fmt: skip
    assert shapes_in(takes((1, 3)), data, most=3) == [(1, 3)] * 3


def test_infinite_numbers_pass_and_reading_is_lazy() -> None:
    read = []

    def endless() -> Iterator[Array]:
        while True:
            read.append(1)
            yield np.full((1, 3), -np.inf, np.float32)

    assert len(list(samples_of(takes((1, 3)), endless(), most=5))) == len(read) == 5


def _npz(**arrays: Array) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_arrays(folder / "a.npz", arrays)
        return folder / "a.npz"

    return write


def _files(**contents: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        for name, content in contents.items():
            (folder / name.replace("_", ".")).write_bytes(content)
        return folder

    return write


def _png() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stream, "PNG")
    return stream.getvalue()


def _npz_bytes() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, x0=np.zeros((1, 3), np.float32))
    return stream.getvalue()


ONE, IMAGE, TWO = takes((1, 3)), takes((1, 3, 4, 4)), takes((1, 3), (1, 4))


@pytest.mark.parametrize(("graph", "data", "message"), [
    (ONE, lambda folder: folder / "none", "none: is not there, needed a folder of pictures, a .npz file"),
    (ONE, lambda folder: folder, "has no samples, needed pictures"),
    (ONE, _npz(x0=floats(0, 3)), "a.npz: has no samples to calibrate with, needed at least one"),
    (ONE, _npz(), "a.npz: has no samples to calibrate with"),
    (ONE, lambda folder: [], "calibration data: has no samples to calibrate with"),
    (ONE, _npz(x0=floats(2, 4)), "a.npz, sample 0: input 'x0': found shape (1, 4), needed 1x3"),
    (ONE, _npz(x0=floats(3)), "a.npz, sample 0: input 'x0': found shape (1,) of rank 1, needed 1x3"),
    (takes((4, 3)), _npz(x0=floats(2, 3)), "a.npz, sample 0: input 'x0': found shape (2, 3), needed 4x3"),
    (ONE, _npz(x0=np.float32(1)), "found a single number, needed a first axis that counts samples"),
    (ONE, _npz(y=floats(2, 3)), "a.npz: input 'y' is not one of the model's: needed 'x0'"),
    (TWO, _npz(x0=floats(2, 3)), "a.npz, sample 0: input 'x1' is missing: needed 'x0', 'x1'"),
    (TWO, _npz(x0=floats(2, 3), x1=floats(3, 4)), "a.npz: found samples for 2 of 'x0', 3 of 'x1', needed as many"),
    (ONE, _npz(x0=np.zeros((2, 3))), "a.npz, sample 0: input 'x0': found data type float64, needed float32"),
    (ONE, _npz(x0=np.array([[1, 2, 3], [1, np.nan, 3]], np.float32)), "a.npz, sample 1: input 'x0': found NaN, needed numbers"),
    (ONE, lambda folder: [np.full((1, 3), np.nan, np.float32)], "calibration data, sample 0: input 'x0': found NaN"),
    (TWO, lambda folder: [floats(1, 3)], "sample 0: found ndarray, needed a mapping with an array for each of 'x0', 'x1'"),
    (ONE, lambda folder: [{"x0": floats(1, 3)}, {"y": floats(1, 3)}], "sample 1: input 'y' is not one of the model's"),
    (ONE, lambda folder: 7, "calibration data: found int, needed an iterable of samples"),
    (ONE, _files(a_npz=b"PK torn"), "a.npz: is not an array file of numpy"),
    (IMAGE, _files(a_png=b"hello"), "a.png: is not a PNG, JPEG, BMP or WebP picture"),
    (IMAGE, _files(a_png=_png(), a_npz=_npz_bytes()), "has pictures (a.png) and array files (a.npz), needed one kind"),
    (ONE, _files(a_png=_png()), "input 'x0' takes no pictures"),
    (takes((1, 3, None, None)), _files(a_png=_png()), "its height and width are free, needed --shape x0=1x3xHxW"),
    (TWO, _files(a_png=_png()), "is a picture, and the model has 2 inputs, needed one, or .npz files"),
    (takes((2, 3, 4, 4)), _files(a_png=_png()), "has 1 pictures, needed 2, the model's batch"),
    (ONE, lambda folder: "no_such_module_here:f", "no_such_module_here:f: ModuleNotFoundError: "),
    (ONE, lambda folder: "math:no_such_function", "math:no_such_function: AttributeError: "),
    (ONE, lambda folder: "time:time", "time:time: returned float, needed an iterable of samples"),
    (ONE, lambda folder: ":f", ":f: is not there"),
    (ONE, lambda folder: "os.path:", "os.path:: is not there"),
], ids=lambda value: value[:40] if isinstance(value, str) else "")  # fmt: skip
def test_what_does_not_fit_is_said_in_a_sentence(tmp_path: Path, graph: Graph, data: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        list(samples_of(graph, data(tmp_path)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_in_the_users_function_become_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def later():\n    yield {}['x']\ndef now():\n    raise OSError('no\\ndisk')\n"
    (tmp_path / "broken_calibration.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    for name, message in (("later", "KeyError: 'x'"), ("now", "OSError: no disk")):
        with pytest.raises(InputError, match=f"broken_calibration:{name}: {message}"):
            list(samples_of(ONE, f"broken_calibration:{name}"))


@pytest.mark.parametrize("most", [0, -1])
def test_no_samples_wanted(most: int) -> None:
    with pytest.raises(InputError, match=f"calibration samples: found {most}, needed 1 or more"):
        samples_of(ONE, [floats(1, 3)], most=most)
