"""How far two engines' tensors are apart, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from softneuro.errors import InputError
from softneuro.types import Array

__all__ = ["Difference", "difference", "differences"]

_TOP = 5
_TIES = 1e-4  # two classes this close, in units of the sample's largest value, may change places


@dataclass(frozen=True)
class Difference:
    """One tensor of two engines compared.

    absolute: the largest absolute difference, infinite when data types, shapes or the places of NaN differ (note says
    what). scale: the largest finite absolute value on the other side. worst: the index of the element that is furthest
    off, with its values here and there. top5_gap: for floats of shape (samples, classes) with ten classes or more, how
    far the weakest of the five classes chosen here is below fifth place there, in units of the sample's largest value.
    type_here and type_there: data type and shape, as ``float32 (1, 12)``.
    """

    name: str
    type_here: str
    type_there: str
    absolute: float
    scale: float = 0.0
    worst: tuple[int, ...] | None = None
    value_here: float | None = None
    value_there: float | None = None
    nan_here: int = 0
    nan_there: int = 0
    inf_here: int = 0
    inf_there: int = 0
    top5_gap: float | None = None
    note: str = ""

    @property
    def relative(self) -> float:
        """The largest difference in units of the tensor's largest value."""
        return self.absolute / self.scale if self.scale else self.absolute

    @property
    def top5_equal(self) -> bool | None:
        """Whether the five largest classes of every sample are the same, ties aside; None where that means nothing."""
        return None if self.top5_gap is None else self.top5_gap <= _TIES

    @property
    def needed(self) -> float:
        """The smallest tolerance that passes, infinite when none does."""
        return max(self.relative, 0.0 if self.top5_gap is None or self.top5_equal else self.top5_gap)

    def within(self, tolerance: float) -> bool:
        """Whether the difference is allowed."""
        return self.needed <= tolerance


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Difference]:
    """Compare outputs by name, the elements of sequences and maps one by one.

    Raises InputError when an output is missing on one side.
    """
    missing = sorted(set(expected) ^ set(found))
    if missing:
        raise InputError(f"output {missing[0]!r} is made by one side only")
    return [row for name in expected for row in _compared(name, found[name], expected[name])]


def _compared(name: str, here: Any, there: Any) -> Iterator[Difference]:
    """The differences of two values: of tensors one, of sequences and maps those of their elements."""
    if isinstance(here, (list, tuple)) and isinstance(there, (list, tuple)) and len(here) == len(there):
        for index, (a, b) in enumerate(zip(here, there, strict=True)):
            yield from _compared(f"{name}[{index}]", a, b)
    elif isinstance(here, Mapping) and isinstance(there, Mapping) and set(here) == set(there):
        for key in there:
            yield from _compared(f"{name}[{key!r}]", here[key], there[key])
    elif any(value is None or isinstance(value, (list, tuple, Mapping)) for value in (here, there)):
        same = here is None and there is None
        yield Difference(name, _kind(here), _kind(there), 0.0 if same else np.inf,
                         note="" if same else f"{_kind(here)} here, {_kind(there)} there")
    else:
        yield difference(name, np.asarray(here), np.asarray(there))


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"sequence of {len(value)}"
    if isinstance(value, Mapping):
        return f"map of {len(value)}"
    return _type(np.asarray(value))


def _type(array: Array) -> str:
    return f"{'text' if array.dtype.kind in 'OUS' else array.dtype} {array.shape}"


def difference(name: str, here: Array, there: Array) -> Difference:
    """Compare two tensors."""
    types = _type(here), _type(there)
    if types[0] != types[1]:
        return Difference(name, *types, np.inf, note=f"{types[0]} here, {types[1]} there")
    if here.dtype.kind in "OUS":
        wrong = int(np.sum(here.astype(object) != there.astype(object)))
        return Difference(name, *types, np.inf if wrong else 0.0, note=f"{wrong} of {here.size} texts differ" if wrong else "")
    a, b = _wide(here), _wide(there)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    misplaced = np.isnan(a) != np.isnan(b)
    gaps = misplaced if misplaced.any() else _gaps(here, there, a, b)
    at = _index(gaps) if gaps.any() else None
    note = "" if at is None or not misplaced.any() else f"NaN {'here' if np.isnan(a[at]) else 'there'} only"
    return Difference(
        name, *types, np.inf if note else float(gaps.max(initial=0.0)), scale, at,
        None if at is None else _number(a[at]), None if at is None else _number(b[at]),
        nan_here=_count(np.isnan(a)), nan_there=_count(np.isnan(b)), inf_here=_count(np.isinf(a)), inf_there=_count(np.isinf(b)),
        top5_gap=None if note or here.dtype.kind in "iubc" else _top5_gap(a, b), note=note,
    )  # fmt: skip


def _count(where: Array) -> int:
    return int(np.sum(where))


def _wide(array: Array) -> Array:
    """The values in a type that holds them nearly exactly, and that numpy can compute with."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _gaps(here: Array, there: Array, a: Array, b: Array) -> Array:
    """Absolute differences: exact for whole numbers of any size; 0 for equal infinities and where both are NaN."""
    if here.dtype.kind in "iu":
        unsigned = here.dtype.str.replace("i", "u")
        apart = np.maximum(here, there).view(unsigned) - np.minimum(here, there).view(unsigned)
        return np.asarray(apart, np.float64)
    with np.errstate(invalid="ignore"):
        gaps: Array = np.where((a == b) | np.isnan(a), 0.0, np.abs(a - b))
    return gaps


def _index(values: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))


def _number(value: Any) -> float:
    return float(np.abs(value)) if isinstance(value, np.complexfloating) else float(value)


def _top5_gap(a: Array, b: Array) -> float | None:
    """How far below fifth place the classes chosen here are there, in units of each sample's largest value."""
    if a.ndim != 2 or a.shape[-1] < 2 * _TOP or a.size == 0 or np.isnan(a).any():
        return None
    fifth = np.sort(b, axis=-1)[:, -_TOP, None]
    chosen = np.take_along_axis(b, np.argsort(a, axis=-1)[:, -_TOP:], axis=-1)
    scale = np.where(np.isfinite(b), np.abs(b), 0.0).max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        below = np.where(chosen >= fifth, 0.0, fifth - chosen)
    return float((below / np.where(scale == 0, 1.0, scale)).max())
