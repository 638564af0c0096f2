"""The calibration table as a file: written, edited, read again, and refused when it is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import softneuro
from softneuro.calibration.ranges import Range
from softneuro.calibration.table import CalibrationTable, is_table
from softneuro.errors import InputError, ResourceLimitError
from softneuro.limits import ResourceLimits
from softneuro.ops.view import View
from softneuro.quantisation import Quantisation
from tests.graph_building import Builder

TABLE = CalibrationTable(
    {"a": Range(-1.5, 2.25, "mse", 0.004), "b/é\"": Range(0.0, 6.0, "min-max"), "zero": Range(0.0, 0.0, "min-max")},
    {"mask": "has NaN or infinite numbers"}, 100, "net.onnx", "ab" * 32,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    TABLE.save(tmp_path / "table.json")
    return tmp_path / "table.json"


def test_what_is_written_is_read(file: Path) -> None:
    assert CalibrationTable.load(file) == softneuro.CalibrationTable.load(str(file)) == TABLE
    assert is_table(file) and not is_table(file.with_suffix(".npz"))
    assert list(file.parent.iterdir()) == [file]
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["tensors"]["a"]["scale"] == pytest.approx(3.75 / 255) and data["tensors"]["a"]["zero"] == 102


def test_nothing_is_a_table_too(tmp_path: Path) -> None:
    CalibrationTable({}).save(tmp_path / "t.json")
    assert CalibrationTable.load(tmp_path / "t.json") == CalibrationTable({})


@pytest.mark.parametrize(("entry", "low", "high"), [
    ({"low": -1, "high": 4}, -1, 4),
    ({"low": 1.0, "high": 4.0}, 0, 4),
    ({"scale": 0.5, "zero": 2}, -1, 126.5),
    ({"low": -1.0, "high": 126.5, "scale": 0.5, "zero": 2, "method": "mine"}, -1, 126.5),
], ids=["ends", "zero_is_put_in", "numbers", "both"])  # fmt: skip
def test_entries_that_a_person_writes(file: Path, entry: dict[str, Any], low: float, high: float) -> None:
    found = CalibrationTable.load(_edited(file, entry)).ranges["a"]
    assert (found.low, found.high, found.method) == (low, high, entry.get("method", "edited"))
    if "scale" in entry:
        assert found.quantisation == Quantisation(0.5, 2)


def _edited(file: Path, entry: Any) -> Path:
    data = json.loads(file.read_text(encoding="utf-8"))
    data["tensors"]["a"] = entry
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def test_the_graph_decides_what_is_shared() -> None:
    b = Builder()
    x = b.input(2, 3)
    view = b.layer(View((6,)), x)
    graph = b.graph(b.pointwise("relu(x0)", view))
    table = CalibrationTable({x: Range(-1, 2, "edited"), view: Range(-3, 1, "edited"), "elsewhere": Range(0, 1, "mse")})
    assert table.applied(graph).quantisations == dict.fromkeys((x, view), Quantisation.of_range(-3, 2))
    assert table.unknown(graph) == ["elsewhere"]
    assert set(table.shared(graph).ranges) == {x, view}


BIG = "9" * 400


@pytest.mark.parametrize(("entry", "message"), [
    (3, "tensor 'a': found 3, needed an object with low and high"),
    ({}, "tensor 'a': found neither low and high nor scale and zero"),
    ({"low": 1}, "tensor 'a': found low 1 and high None, needed two float32 numbers"),
    ({"low": "0", "high": 1}, "found low '0' and high 1"),
    ({"low": True, "high": 1}, "found low True and high 1"),
    ({"low": 2, "high": 1}, "tensor 'a': found low 2 above high 1"),
    ({"low": 0, "high": 1e39}, "found low 0 and high 1e+39, needed two float32 numbers"),
    ({"low": 0, "high": float("nan")}, "found low 0 and high nan"),
    ({"low": 0, "high": float("inf")}, "found low 0 and high inf"),
    ({"low": 0, "high": int(BIG)}, "found low 0 and high 9999"),
    ({"scale": 0, "zero": 2}, "tensor 'a': found scale 0.0 and zero point 2, needed a positive scale and 0 to 255"),
    ({"scale": 1.0, "zero": 256}, "found scale 1.0 and zero point 256"),
    ({"scale": 1.0, "zero": 2.5}, "found zero 2.5, needed a whole number from 0 to 255"),
    ({"low": -1.0, "high": 1.0, "scale": 0.5, "zero": 2}, "which are not those of low -1.0 and high 1.0"),
    ({"low": 0, "high": 1, "maximum": 2}, "tensor 'a': found 'maximum', needed any of error, high, low, method, scale, zero"),
    ({"low": 0, "high": 1, "method": 4}, "found method 4 and error 0.0"),
    ({"low": 0, "high": 1, "error": -1}, "and error -1, needed a text and a number from 0 on"),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_broken_entries(file: Path, entry: Any, message: str) -> None:
    _refused(_edited(file, entry), message)


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is not JSON, needed a calibration table"),
    (b"{", "is not JSON"),
    (b"\xff\xfe\x00", "is not JSON"),
    (b"[" * 100_000, "is not JSON"),
    (b'{"format": "softneuro-calibration-1", "samples": ' + b"9" * 5000 + b"}", "is not JSON"),
    (b"[]", "found format 'list', needed 'softneuro-calibration-1'"),
    (b"{}", "found format None"),
    (b'{"format": "softneuro-calibration-2"}', "found format 'softneuro-calibration-2'"),
    (b'{"format": "softneuro-calibration-1", "tensors": []}', "found tensors or left_out that are no objects"),
    (b'{"format": "softneuro-calibration-1", "samples": 1.5}', "found samples 1.5, needed a whole number"),
    (b'{"format": "softneuro-calibration-1", "model": 3}', "found a model, model_sha256 or a reason in left_out that is no text"),
    (b'{"format": "softneuro-calibration-1", "left_out": {"a": null}}', "that is no text"),
], ids=lambda value: str(value)[:50])  # fmt: skip
def test_broken_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.json").write_bytes(content)
    _refused(tmp_path / "t.json", message)


def _refused(path: Path, message: str) -> None:
    with pytest.raises(InputError) as caught:
        CalibrationTable.load(path)
    assert str(path) in str(caught.value) and message in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_files_that_are_not_there_or_cannot_be_written(tmp_path: Path) -> None:
    _refused(tmp_path / "none.json", "cannot be read: No such file or directory")
    _refused(tmp_path, "cannot be read: Is a directory")
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        TABLE.save(tmp_path / "none" / "t.json")


@pytest.mark.parametrize("limits", [ResourceLimits(header_bytes=50), ResourceLimits(nodes=2)], ids=["bytes", "tensors"])
def test_limits(file: Path, limits: ResourceLimits) -> None:
    with pytest.raises(ResourceLimitError):
        CalibrationTable.load(file, limits=limits)
