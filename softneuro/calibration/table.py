"""The calibration table: the range of every tensor, as a JSON file that can be read and edited.

    {"format": "softneuro-calibration-1", "model": "net.onnx", "model_sha256": "…", "samples": 100,
     "tensors": {"conv1": {"low": 0.0, "high": 6.0, "method": "mse", "error": 0.004, "scale": 0.0235, "zero": 0}, …},
     "left_out": {"mask": "has NaN or infinite numbers"}}

A tensor's entry needs either low and high or scale and zero; where there are both, they have to agree. A tensor that is not
there is not kept in 8 bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from softneuro.calibration.ranges import Range
from softneuro.calibration.sharing import linked
from softneuro.errors import InputError
from softneuro.graph import Graph
from softneuro.limits import ResourceLimits, enforced, in_force
from softneuro.quantisation import Quantisation

__all__ = ["CalibrationTable", "is_table"]

_FORMAT = "softneuro-calibration-1"
_MOST = 3.4e38  # float32's largest number, about
_TOLERANCE = 1e-3
_ENDS, _NUMBERS = ("low", "high"), ("scale", "zero")
_KNOWN = {*_ENDS, *_NUMBERS, "method", "error"}


@dataclass(frozen=True)
class CalibrationTable:
    """What `softneuro.calibrate` finds.

    ranges: by tensor, as the optimised graph names it. left_out: tensors that are not kept in 8 bits, and why. model: the
    file's name; model_sha256 is empty where the model was no file. samples: how many were run.
    """

    ranges: Mapping[str, Range]
    left_out: Mapping[str, str] = field(default_factory=dict)
    samples: int = 0
    model: str = ""
    model_sha256: str = ""

    def applied(self, graph: Graph) -> Graph:
        """The graph with the quantisations of the tensors that it has. What moves elements gets one for both sides, that
        of the wider range, also where an edited table says otherwise."""
        return replace(graph, quantisations=self.quantisations(graph))

    def quantisations(self, graph: Graph) -> dict[str, Quantisation]:
        """See `applied`."""
        return {name: found.quantisation for name, found in self.shared(graph).ranges.items()}

    def shared(self, graph: Graph) -> CalibrationTable:
        """The table for the tensors that this graph has, with one range for those that share a quantisation."""
        ranges: dict[str, Range] = {}
        for group in linked(graph, self.ranges):
            low, high = min(self.ranges[n].low for n in group), max(self.ranges[n].high for n in group)
            ranges |= {name: replace(self.ranges[name], low=low, high=high) for name in group}
        return replace(self, ranges=ranges)

    def unknown(self, graph: Graph) -> list[str]:
        """The tensors of the table that the graph does not have: it was made for another model, or at other sizes."""
        known = {*graph.inputs, *graph.producers()}
        return [name for name in (*self.ranges, *self.left_out) if name not in known]

    def save(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all. Raises InputError when it cannot be written."""
        path = Path(path)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            scratch.write_text(self._text(), encoding="utf-8")
            os.replace(scratch, path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        finally:
            scratch.unlink(missing_ok=True)

    def _text(self) -> str:
        """JSON with a line for each tensor."""
        head = {"format": _FORMAT, "model": self.model, "model_sha256": self.model_sha256, "samples": self.samples}
        lines = [f"  {json.dumps(name)}: {json.dumps(_entry(found))}" for name, found in self.ranges.items()]
        parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        parts.append(' "tensors": {\n' + ",\n".join(lines) + "\n }")
        parts.append(' "left_out": ' + json.dumps(dict(self.left_out)))
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def load(cls, path: str | Path, *, limits: ResourceLimits | None = None) -> CalibrationTable:
        """Read a table as untrusted data. Raises InputError, in one sentence, for what is no table, ResourceLimitError for a
        file larger than ``header_bytes`` or with more tensors than ``nodes`` of the limits."""
        path = Path(path)
        with enforced(limits):
            try:
                in_force().check("header_bytes", path.stat().st_size, f"{path}: has")
                data = json.loads(path.read_bytes())
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}: is not JSON, needed a calibration table: {error}") from error
            try:
                return _table(data)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error


def is_table(path: Path) -> bool:
    """Whether a file's name says that it is a calibration table."""
    return path.suffix.lower() == ".json" and path.is_file()


def _entry(found: Range) -> dict[str, Any]:
    quantisation = found.quantisation
    return {"low": found.low, "high": found.high, "method": found.method, "error": found.error,
            "scale": quantisation.scale, "zero": quantisation.zero}  # fmt: skip


def _table(data: Any) -> CalibrationTable:
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise InputError(f"found format {found!r:.60}, needed {_FORMAT!r}")
    tensors, left_out = data.get("tensors", {}), data.get("left_out", {})
    if not isinstance(tensors, dict) or not isinstance(left_out, dict):
        raise InputError("found tensors or left_out that are no objects, needed names with values")
    in_force().check("nodes", len(tensors), "a calibration table has tensors:")
    samples = data.get("samples", 0)
    if type(samples) is not int or samples < 0:
        raise InputError(f"found samples {samples!r:.40}, needed a whole number")
    texts = [data.get("model", ""), data.get("model_sha256", ""), *left_out.values()]
    if not all(isinstance(text, str) for text in texts):
        raise InputError("found a model, model_sha256 or a reason in left_out that is no text")
    ranges = {name: _range(name, entry) for name, entry in tensors.items()}
    return CalibrationTable(ranges, left_out, samples, texts[0], texts[1])


def _range(name: str, entry: Any) -> Range:
    where = f"tensor {name!r:.100}"
    if not isinstance(entry, dict):
        raise InputError(f"{where}: found {entry!r:.60}, needed an object with low and high")
    strange = sorted(set(entry) - _KNOWN)
    if strange:
        raise InputError(f"{where}: found {strange[0]!r:.60}, needed any of {', '.join(sorted(_KNOWN))}")
    method, error = entry.get("method", "edited"), entry.get("error", 0.0)
    if not isinstance(method, str) or not _is_number(error) or error < 0:
        raise InputError(f"{where}: found method {method!r:.40} and error {error!r:.40}, needed a text and a number from 0 on")
    by_ends = _pair(where, entry, _ENDS)
    by_numbers = _pair(where, entry, _NUMBERS)
    if by_ends is None and by_numbers is None:
        raise InputError(f"{where}: found neither low and high nor scale and zero, needed one of these pairs")
    if by_ends is not None and by_ends[0] > by_ends[1]:
        raise InputError(f"{where}: found low {by_ends[0]} above high {by_ends[1]}")
    given = None if by_numbers is None else _quantisation(where, *by_numbers)
    if by_ends is None:
        assert given is not None
        return Range(given.low, given.high, method, float(error))
    found = Range(min(by_ends[0], 0.0), max(by_ends[1], 0.0), method, float(error))
    if given is not None and not _agree(found.quantisation, given):
        wanted = found.quantisation
        raise InputError(f"{where}: found scale {given.scale} and zero {given.zero}, which are not those of low {by_ends[0]} "
                         f"and high {by_ends[1]} ({wanted.scale}, {wanted.zero}), needed one pair without the other")
    return found


def _agree(found: Quantisation, given: Quantisation) -> bool:
    return found.zero == given.zero and abs(found.scale - given.scale) <= _TOLERANCE * given.scale


def _pair(where: str, entry: Mapping[str, Any], keys: tuple[str, str]) -> tuple[Any, Any] | None:
    """Two numbers of an entry, None where it has neither."""
    if not any(key in entry for key in keys):
        return None
    first, second = entry.get(keys[0]), entry.get(keys[1])
    if not (_is_number(first) and _is_number(second)):
        raise InputError(f"{where}: found {keys[0]} {first!r:.40} and {keys[1]} {second!r:.40}, needed two float32 numbers")
    return first, second


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MOST  # which NaN is not


def _quantisation(where: str, scale: float, zero: Any) -> Quantisation:
    if type(zero) is not int:
        raise InputError(f"{where}: found zero {zero!r:.40}, needed a whole number from 0 to 255")
    try:
        return Quantisation(float(scale), zero)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
