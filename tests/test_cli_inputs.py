"""Inputs and plans that no command takes: one sentence each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli_harness import Bench, Capture, picture, refused


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


@pytest.mark.parametrize(("content", "message"), [
    (None, "cannot be read: No such file or directory"),
    (b"", "is not an array file of numpy (.npy or .npz)"),
    (b"hello", "is not an array file of numpy (.npy or .npz)"),
    (b"PK\x03\x04 torn", "is not an array file of numpy (.npy or .npz)"),
    (b"\x93NUMPY\x01\x00\x10\x00 torn", "is not an array file of numpy (.npy or .npz)"),
], ids=["missing", "empty", "text", "torn_npz", "torn_npy"])  # fmt: skip
def test_files_that_are_no_arrays(bench: Bench, tmp_path: Path, capsys: Capture, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "a.npy").write_bytes(content)
    refused(capsys, ["run", bench.plan, "--input", f"x={tmp_path / 'a.npy'}"], message)


def test_pickled_arrays_are_not_opened(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy"], "is not an array file of numpy")


def test_named_arrays_take_no_name(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "a.npz", x=picture())
    refused(capsys, ["run", bench.plan, "--input", f"x={tmp_path / 'a.npz'}"], "holds named arrays")


@pytest.mark.parametrize(("text", "message"), [
    ("z=1x3x6x5", "shape of 'z': is not one of the model's inputs: needed 'x'"),
    ("x=1x3x6", "input 'x': found shape (1, 3, 6) of rank 3, needed 1x3x6x5"),
    ("x=2x3x6x5", "input 'x': found shape (2, 3, 6, 5), needed 1x3x6x5"),
])  # fmt: skip
def test_shapes_that_do_not_fit(bench: Bench, capsys: Capture, text: str, message: str) -> None:
    refused(capsys, ["run", bench.plan, "--shape", text], message)


def test_an_input_is_a_file_or_a_shape(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "a.npy", picture())
    refused(capsys, ["run", bench.plan, "--input", tmp_path / "a.npy", "--shape", "x=1x3x6x5"], "found both a file and a shape")


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
