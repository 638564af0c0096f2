"""What is asked of tuning, checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from softneuro import cpu
from softneuro.codegen import target as targets
from softneuro.codegen.target import Target
from softneuro.errors import InputError
from softneuro.tuning.measure import EFFORTS
from softneuro.tuning.ranges import RangedShapes, Size, has_ranges, representatives
from softneuro.tuning.restrict import Rule, parse_rule
from softneuro.types import DType

if TYPE_CHECKING:
    import onnx

__all__ = ["DEFAULT_EFFORT", "Model", "Request", "Shapes", "shape_sets"]

DEFAULT_EFFORT = 2
_DTYPES = ("f32", "bf16", "f16", "qint8")
Model: TypeAlias = Union[str, Path, bytes, "onnx.ModelProto"]
Shapes: TypeAlias = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Request:
    """The arguments of `softneuro.tune`, which describes them, in the form that the parts of tuning read.

    shapes: one mapping for each set, at least one; ranges have become the sets that stand for them.
    ranges: what was asked for with ranges in it. dtypes: what float32 tensors may be kept as.
    """

    model: Model
    shapes: tuple[Shapes, ...]
    ranges: tuple[RangedShapes, ...]
    threads: int
    rules: tuple[Rule, ...]
    effort: int
    time_limit: float | None
    profile: Path | None
    error_on_miss: bool
    target: Target
    dtypes: tuple[DType, ...]

    @classmethod
    def of(cls, model: Model, *, shapes: RangedShapes | Sequence[RangedShapes] | None = None, threads: int | None = None,
           dtypes: Sequence[str] = ("f32",), routines: Iterable[str] = (), effort: int = DEFAULT_EFFORT,
           time_limit: float | None = None, profile: str | Path | None = None, error_on_miss: bool = False,
           target: Target | None = None) -> Request:
        """Check the arguments. Raises InputError for one that is not allowed."""
        unknown = [dtype for dtype in dtypes if dtype not in _DTYPES]
        if unknown or "f32" not in dtypes:
            raise InputError(f"dtypes: found {','.join(dtypes) or 'none'}, needed f32 and any of {', '.join(_DTYPES[1:])}")
        if threads is not None and threads < 1:
            raise InputError(f"threads: found {threads}, needed 1 or more")
        if time_limit is not None and not time_limit >= 0:
            raise InputError(f"time_limit: found {time_limit}, needed 0 or more seconds")
        if effort != 0 and effort not in EFFORTS:
            raise InputError(f"effort: found {effort}, needed 0 to {max(EFFORTS)}")
        if error_on_miss and profile is None:
            raise InputError("error_on_miss: found no profile, needed one that has all measurements")
        if isinstance(routines, str):
            raise InputError(f"routines: found the text {routines!r}, needed a list of texts")
        sets = (shapes or {},) if shapes is None or isinstance(shapes, Mapping) else tuple(shapes) or ({},)
        return cls(
            model, tuple(part for asked in sets for part in representatives(asked)), tuple(filter(has_ranges, sets)),
            threads or cpu.allowed_cpus(), tuple(map(parse_rule, routines)), effort, time_limit,
            Path(profile) if profile is not None else None, error_on_miss, target or targets.host(),
            tuple(map(DType, dict.fromkeys(dtypes))),
        )  # fmt: skip

    @property
    def measures(self) -> bool:
        """Whether anything is to be measured; otherwise every layer gets its default."""
        return self.effort != 0 and self.time_limit != 0


def shape_sets(pairs: Iterable[tuple[str, Sequence[Size]]]) -> list[RangedShapes]:
    """Sets of shapes from (input, sizes) in the order in which they were given.

    The i-th sizes of an input belong to the i-th set; an input that is given fewer times than another has its last sizes in
    the sets that are left. Nothing makes one empty set.
    """
    given: dict[str, list[Sequence[Size]]] = {}
    for name, sizes in pairs:
        given.setdefault(name, []).append(sizes)
    count = max(map(len, given.values()), default=1)
    return [{name: sizes[min(index, len(sizes) - 1)] for name, sizes in given.items()} for index in range(count)]
