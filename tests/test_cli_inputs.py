"""Inputs and plans that no command takes: one sentence each."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from PIL import Image

import softneuro
from softneuro import array_files
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture, picture, refused, write_identity


@pytest.mark.parametrize(("array", "name", "message"), [
    (np.zeros((1, 3, 6, 5), np.float32), "z", "input 'z' is not one of the model's: needed 'x'"),
    (np.zeros((1, 3, 6, 4), np.float32), "x", "input 'x': found shape (1, 3, 6, 4), needed 1x3x6x5"),
    (np.zeros((1, 3, 6), np.float32), "x", "input 'x': found shape (1, 3, 6) of rank 3, needed 1x3x6x5"),
    (np.zeros((1, 3, 6, 5), np.float64), "x", "input 'x': found data type float64, needed float32"),
])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "profile", "compare"])
def test_arrays_that_do_not_fit(bench: Bench, tmp_path: Path, capsys: Capture, command: str, array: np.ndarray, name: str,
                                message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    extra = ["--against", bench.plan] if command == "compare" else []
    refused(capsys, [command, bench.plan, "--input", f"{name}={tmp_path / 'a.npy'}", *extra], message)


def _png(size: tuple[int, int] = (5, 6)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, (9, 9, 9)).save(stream, "PNG")
    return stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _npz(member: bytes, name: str = "x.npy") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    return stream.getvalue()


def _claiming(shape: str) -> bytes:
    """A .npy file that says it has this shape, and has 8 bytes."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


_NO_ARRAY = "is not an array file of numpy (.npy or .npz)"


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.npy", None, "cannot be read: No such file or directory"),
    ("a.npy", b"", _NO_ARRAY),
    ("a.npy", b"hello", _NO_ARRAY),
    ("a.npz", b"PK\x03\x04 torn", _NO_ARRAY),
    ("a.npy", b"\x93NUMPY\x01\x00\x10\x00 torn", _NO_ARRAY),
    ("a.npy", b"\x93NUMPY\x07\x00\x10\x00" + bytes(40), "has version 7.0 of numpy's format"),
    ("a.npy", _npy(picture())[:-4], "is truncated: found 484 bytes, needed 488"),
    ("a.npy", _claiming("(1 << 40,)"), _NO_ARRAY),
    ("a.npy", _claiming("(1099511627776,)"), "is truncated: found "),
    ("a.npy", _claiming("(1000000,)"), "is truncated"),
    ("a.npy", _claiming("(-1, 2)"), "has shape (-1, 2), needed sizes of at least 0"),
    ("a.npz", _npz(_claiming("(1000000,)")), "x.npy: is truncated"),
    ("a.npz", _npz(_npy(picture()))[:200], _NO_ARRAY),
    ("a.npz", _npz(_npy(picture()), "y.npy"), "a.npz: input 'y' is not one of the model's: needed 'x'"),
    ("a.png", None, "cannot be read: No such file or directory"),
    ("a.png", b"", "is not a PNG, JPEG, BMP or WebP picture"),
    ("a.JPG", b"hello", "is not a PNG, JPEG, BMP or WebP picture"),
    ("a.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n", "is not a PNG, JPEG, BMP or WebP picture"),
    ("a.png", _png((300, 300))[:200], "is damaged"),
    ("a.png", _png()[:30] + b"\xff" + _png()[31:], "a.png: is"),
], ids=["missing", "empty", "text", "torn_npz", "torn_npy", "newer_npy", "truncated_npy", "code_in_header", "huge_claim",
        "false_claim", "negative_claim", "false_claim_in_npz", "truncated_npz", "unknown_name_in_npz", "missing_picture",
        "empty_picture", "text_as_picture", "postscript_as_picture", "truncated_picture", "flipped_picture"])  # fmt: skip
def test_files_that_are_no_inputs(bench: Bench, tmp_path: Path, capsys: Capture, name: str, content: bytes | None,
                                  message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / name], message)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_files_that_are_too_large(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch,
                                  name: str) -> None:
    content = _npy(picture()) if name == "a.npy" else _npz(_npy(np.zeros((1, 3, 6, 5), np.float32)))
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(array_files, "MOST_BYTES", 487)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / name], "has 488 bytes, needed at most 487 in a file")


def test_pickled_arrays_are_not_opened(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy"], "holds Python objects, which are not read from files")


def test_a_picture_that_is_too_large_is_not_decoded(bench: Bench, tmp_path: Path, capsys: Capture,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(_png((60, 50)))
    for most in (2000, 1000):  # Pillow warns above the limit and raises above twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
        refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.png"], f"is too large a picture, needed at most {most:,}")


def test_pictures_without_pillow(bench: Bench, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(_png())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.png"], "pip install 'softneuro[images]'", code=4)


def test_pictures_for_an_input_that_takes_none(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.png").write_bytes(_png())
    model = write_identity(tmp_path / "m.onnx", {"ids": [1, 8]}, TensorProto.INT64)
    refused(capsys, ["run", model, "--input", f"ids={tmp_path / 'a.png'}"], "input 'ids' takes no pictures")
    refused(capsys, ["run", model, "--input", f"idz={tmp_path / 'a.png'}"], "needed 'ids', did you mean 'ids'?")


@pytest.mark.parametrize("kind", ["model", "plan"])
def test_a_misspelt_name_gets_a_suggestion(bench: Bench, tmp_path: Path, capsys: Capture, kind: str) -> None:
    np.save(tmp_path / "a.npy", picture())
    model = write_identity(tmp_path / "m.onnx", {"picture": ["n", 3, 6, 5]})
    softneuro.tune(model, time_limit=0).save(tmp_path / "m.plan")
    source = model if kind == "model" else tmp_path / "m.plan"
    refused(capsys, ["run", source, "--input", f"pictures={tmp_path / 'a.npy'}"], "input 'pictures' is not one of the model's: "
            "needed 'picture', did you mean 'picture'?")  # fmt: skip


def test_more_pictures_than_a_fixed_batch(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.png").write_bytes(_png())
    twice = ["--input", tmp_path / "a.png"] * 2
    refused(capsys, ["run", bench.plan, *twice], "input 'x': found 2 pictures, needed 1: its batch is fixed")


def test_named_arrays_take_no_name(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "a.npz", x=picture())
    refused(capsys, ["run", bench.plan, "--input", f"x={tmp_path / 'a.npz'}"], "holds named arrays")


def test_an_array_without_a_name_needs_one_input(tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", picture())
    model = write_identity(tmp_path / "m.onnx", {"x": [1, 3, 6, 5], "y": [1, 3, 6, 5]})
    refused(capsys, ["run", model, "--input", tmp_path / "a.npy"], "the model has 2 inputs, needed NAME=")


@pytest.mark.parametrize("second", ["a.npy", "a.npz", "a.png", "x=3"])
def test_an_input_is_given_once(bench: Bench, tmp_path: Path, capsys: Capture, second: str) -> None:
    np.save(tmp_path / "a.npy", picture())
    np.savez(tmp_path / "a.npz", x=picture())
    (tmp_path / "a.png").write_bytes(_png())
    other = second if "=" in second else tmp_path / second
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy", "--input", other], "input 'x': found in ")


@pytest.mark.parametrize(("text", "message"), [
    ("ids=1.5", "input 'ids': found the number 1.5, needed a whole one from -9223372036854775808"),
    ("ids=nan", "input 'ids': found the number nan, needed a whole one"),
    ("idx=1", "input 'idx' is not one of the model's: needed 'ids', did you mean 'ids'?"),
    ("ids=one", "one: cannot be read: No such file or directory"),
])  # fmt: skip
def test_numbers_that_do_not_fit(tmp_path: Path, capsys: Capture, text: str, message: str) -> None:
    model = write_identity(tmp_path / "m.onnx", {"ids": [1, 8]}, TensorProto.INT64)
    refused(capsys, ["run", model, "--input", text], message)


def test_a_file_whose_name_is_a_number_is_a_file(bench: Bench, tmp_path: Path, capsys: Capture,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("7").write_bytes(b"hello")
    refused(capsys, ["run", bench.plan, "--input", "x=7"], f"7: {_NO_ARRAY}")


@pytest.mark.parametrize(("text", "message"), [
    ("z=1x3x6x5", "shape of 'z' is not one of the model's: needed 'x'"),
    ("x=1x3x6", "input 'x': found shape (1, 3, 6) of rank 3, needed 1x3x6x5"),
    ("x=2x3x6x5", "input 'x': found shape (2, 3, 6, 5), needed 1x3x6x5"),
])  # fmt: skip
def test_shapes_that_do_not_fit(bench: Bench, capsys: Capture, text: str, message: str) -> None:
    refused(capsys, ["run", bench.plan, "--shape", text], message)


def test_a_file_and_a_shape_must_agree(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", picture(2))
    arguments = ["run", bench.free_plan, "--input", tmp_path / "a.npy", "--shape"]
    refused(capsys, [*arguments, "x=1x3x6x5"], "input 'x': found shape (2, 3, 6, 5) in ")
    assert main([*map(str, arguments), "x=2x3x6x5"]) == 0


def test_many_names_are_not_all_listed(tmp_path: Path, capsys: Capture) -> None:
    model = write_identity(tmp_path / "m.onnx", {f"input_{i}": [1] for i in range(12)})
    refused(capsys, ["run", model, "--input", "inputs_3=1"], "'input_7' and 4 more, did you mean 'input_3'?")


def _truncated(plan: bytes) -> bytes:
    return plan[: len(plan) // 2]


def _flipped(plan: bytes) -> bytes:
    return plan[:-100] + bytes([plan[-100] ^ 4]) + plan[-99:]


@pytest.mark.parametrize(("change", "message"), [
    (_truncated, "is truncated"),
    (_flipped, "is damaged: its contents do not match its digest"),
    (lambda plan: plan[:10], "found 10 bytes, needed a softneuro plan file"),
    (lambda plan: b"", "found 0 bytes, needed a softneuro plan file"),
    (lambda plan: b"\x89PNG\r\n" + bytes(500), "is not a softneuro plan file"),
    (None, "cannot be read: No such file or directory"),
], ids=["truncated", "bit_flipped", "head_only", "empty", "foreign", "missing"])  # fmt: skip
@pytest.mark.parametrize("command", ["run", "profile", "compare"])
def test_damaged_plans(bench: Bench, tmp_path: Path, capsys: Capture, command: str, change: Callable[[bytes], bytes] | None,
                       message: str) -> None:
    plan = tmp_path / "a.plan"
    if change is not None:
        plan.write_bytes(change(bench.plan.read_bytes()))
    if change is _truncated:
        message = "is "  # the digest or the header tells, depending on where it ends
    refused(capsys, [command, plan, *(["--against", plan] if command == "compare" else [])], message)
