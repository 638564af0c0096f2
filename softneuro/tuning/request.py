"""What is asked of tuning, checked before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union

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

    from softneuro.tuning.accuracy import Accuracy

__all__ = ["DEFAULT_EFFORT", "Model", "Numbers", "Request", "Shapes", "sets_of", "shape_sets"]

DEFAULT_EFFORT = 2
_DTYPES = ("f32", "bf16", "f16", "qint8")
Model: TypeAlias = Union[str, Path, bytes, "onnx.ModelProto"]
Shapes: TypeAlias = Mapping[str, Sequence[int]]
Numbers: TypeAlias = Mapping[str, int]
"""Input name → the value of an input that decides what runs."""
_Given = TypeVar("_Given")


@dataclass(frozen=True)
class Request:
    """The arguments of `softneuro.tune`, which describes them, in the form that the parts of tuning read.

    shapes: one mapping for each set, at least one; ranges have become the sets that stand for them. values: of inputs that
    decide what runs, for each of these sets.
    ranges: what was asked for with ranges in it. dtypes: what float32 tensors may be kept as. accuracy: what that
    may cost, where it is more than f32.
    """

    model: Model
    shapes: tuple[Shapes, ...]
    values: tuple[Numbers, ...]
    ranges: tuple[RangedShapes, ...]
    threads: int
    rules: tuple[Rule, ...]
    effort: int
    time_limit: float | None
    profile: Path | None
    error_on_miss: bool
    target: Target
    dtypes: tuple[DType, ...]
    accuracy: Accuracy | None

    @classmethod
    def of(cls, model: Model, *, shapes: RangedShapes | Sequence[RangedShapes] | None = None,
           values: Numbers | Sequence[Numbers] | None = None, threads: int | None = None,
           dtypes: Sequence[str] = ("f32",), routines: Iterable[str] = (), effort: int = DEFAULT_EFFORT,
           time_limit: float | None = None, profile: str | Path | None = None, error_on_miss: bool = False,
           target: Target | None = None, accuracy: Accuracy | None = None) -> Request:
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
        sizes, numbers = _sets(shapes), _sets(values)
        count = max(len(sizes), len(numbers))
        pairs = [(part, numbers[min(i, len(numbers) - 1)])
                 for i in range(count) for part in representatives(sizes[min(i, len(sizes) - 1)])]  # fmt: skip
        return cls(
            model, tuple(part for part, _ in pairs), tuple(number for _, number in pairs), tuple(filter(has_ranges, sizes)),
            threads or cpu.allowed_cpus(), tuple(map(parse_rule, routines)), effort, time_limit,
            Path(profile) if profile is not None else None, error_on_miss, target or targets.host(),
            tuple(map(DType, dict.fromkeys(dtypes))), accuracy,
        )  # fmt: skip

    @property
    def mixes(self) -> bool:
        """Whether float32 tensors may be kept as another data type."""
        return len(self.dtypes) > 1

    @property
    def measures(self) -> bool:
        """Whether anything is to be measured; otherwise every layer gets its default."""
        return self.effort != 0 and self.time_limit != 0


def _sets(given: Mapping[str, _Given] | Sequence[Mapping[str, _Given]] | None) -> tuple[Mapping[str, _Given], ...]:
    return (given or {},) if given is None or isinstance(given, Mapping) else tuple(given) or ({},)


def shape_sets(pairs: Iterable[tuple[str, Sequence[Size]]]) -> list[RangedShapes]:
    """`sets_of` for (input, sizes)."""
    return list(sets_of(pairs))


def sets_of(pairs: Iterable[tuple[str, _Given]]) -> list[dict[str, _Given]]:
    """Sets from (input, what was given for it) in the order in which they were given.

    What was given i-th for an input belongs to the i-th set; an input that is given fewer times than another has its last
    in the sets that are left. Nothing makes one empty set.
    """
    given: dict[str, list[_Given]] = {}
    for name, each in pairs:
        given.setdefault(name, []).append(each)
    count = max(map(len, given.values()), default=1)
    return [{name: of_input[min(index, len(of_input) - 1)] for name, of_input in given.items()} for index in range(count)]
