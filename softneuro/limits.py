"""How much a model, a plan or a profile may ask for: checked before memory is given out for it."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from softneuro.errors import InputError, ResourceLimitError
from softneuro.types import TensorType

__all__ = ["ResourceLimits", "amount", "enforced", "in_force"]

_MEMORY_WHERE_UNKNOWN = 1 << 36
_UNITS = "KMGT"
_MOST_DIGITS = 6


def amount(name: str, text: str) -> int:
    """The amount ``100`` or ``1.5G`` for the limit of that name: K, M, G and T are powers of 1024 in bytes, of 1000 in counts.

    Raises ValueError for a text of another form, and below 0.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
    scaled = float(number) * _unit_size(name, unit) if unit else int(number)
    if not 0 <= scaled < math.inf:
        raise ValueError(f"found {text!r}, needed a number of 0 or more")
    return int(scaled)


def _unit_size(name: str, unit: str) -> int:
    return int((1024 if _is_of_bytes(name) else 1000) ** (1 + _UNITS.index(unit.upper())))


def _is_of_bytes(name: str) -> bool:
    return name.endswith("bytes") or name == "memory"


def _round_up(name: str, found: int) -> str:
    """An amount at least as large, short enough to be typed: ``65``, ``17G``."""
    if len(str(found)) <= _MOST_DIGITS:
        return str(found)
    sizes = [(_unit_size(name, unit), unit) for unit in _UNITS]
    size, unit = next(((size, unit) for size, unit in sizes if found < 10_000 * size), sizes[-1])
    return f"{-(-found // size)}{unit}"


def _machine_memory() -> int:
    """Bytes of memory that the machine has, 64 GiB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _MEMORY_WHERE_UNKNOWN


@dataclass(frozen=True)
class ResourceLimits:
    """What files that are not trusted may ask for. Above any of these, `ResourceLimitError` is raised.

    The defaults let every model pass that fits the machine; a service that takes models from strangers lowers them.

    nodes: of a model once its functions are inlined, those in bodies of If, Loop and Scan included.
    nesting: how deep bodies lie in bodies, and calls of functions in functions.
    rank: axes of a tensor; numpy has at most 64.
    text_bytes: of one name or text in a model.
    tensor_bytes: of one tensor, whether stored, computed before the run or computed by it.
    weight_bytes: of all constants of a model or plan.
    memory: bytes for one inference: its inputs, outputs, constants and all tensors alive at once. By default what the
        machine has.
    iterations: of one run of a Loop.
    header_bytes: of what a plan file says besides its constants.
    line_bytes: of one measurement in a profile.

    Raises InputError for a number below 0.
    """

    nodes: int = 1_000_000
    nesting: int = 64
    rank: int = 64
    text_bytes: int = 1 << 26
    tensor_bytes: int = 1 << 34
    weight_bytes: int = 1 << 38
    memory: int = field(default_factory=_machine_memory)
    iterations: int = 1 << 24
    header_bytes: int = 1 << 26
    line_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            if getattr(self, entry.name) < 0:
                raise InputError(f"limits: found {entry.name} = {getattr(self, entry.name)}, needed 0 or more")

    def check(self, name: str, found: int, what: str) -> None:
        """Raise ResourceLimitError when ``found`` is above the limit of that name; ``what`` begins the sentence."""
        allowed = getattr(self, name)
        if found > allowed:
            unit = " bytes" if _is_of_bytes(name) else ""
            wanted = 2 * found if what.endswith("at least") else found  # counting ended at the limit: there may be more
            raise ResourceLimitError(f"{what} {found}{unit}, {allowed} are allowed "
                                     f"(limit {name!r}: --limit {name}={_round_up(name, wanted)} raises it)")

    def check_tensor(self, type_: TensorType) -> None:
        """Raise ResourceLimitError for a tensor of too many axes or bytes, InputError for a negative size."""
        if min(type_.shape, default=0) < 0:
            raise InputError(f"a tensor has shape {_brief(type_.shape)}, needed sizes of 0 or more")
        self.check("rank", type_.rank, f"a tensor of shape {_brief(type_.shape)} has rank")
        self.check("tensor_bytes", type_.nbytes, f"a tensor of shape {_brief(type_.shape)} needs")

    def check_tensors(self, types: Iterable[TensorType]) -> None:
        """As `check_tensor` for each."""
        for type_ in types:
            self.check_tensor(type_)


def _brief(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"({', '.join(map(str, shape[:8]))}, ...)"


_IN_FORCE: ContextVar[ResourceLimits] = ContextVar("softneuro limits", default=ResourceLimits())  # noqa: B039 (frozen)


def in_force() -> ResourceLimits:
    """The limits of the call that this code runs in, by default `ResourceLimits()`."""
    return _IN_FORCE.get()


@contextmanager
def enforced(limits: ResourceLimits | None) -> Iterator[None]:
    """These limits for all that runs inside, in this thread; None keeps those in force."""
    token = _IN_FORCE.set(limits if limits is not None else in_force())
    try:
        yield
    finally:
        _IN_FORCE.reset(token)
