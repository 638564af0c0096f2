"""Times for people: milliseconds, or microseconds where those would be all zeros."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Unit", "unit_for"]


@dataclass(frozen=True)
class Unit:
    """A unit of time: its name, how many nanoseconds it has, and the digits to show."""

    name: str
    ns: float
    digits: int

    def number(self, ns: float | None) -> str:
        """A time without the unit's name; empty for None."""
        return "" if ns is None else f"{ns / self.ns:.{self.digits}f}"

    def text(self, ns: float) -> str:
        """A time with the unit's name."""
        return f"{ns / self.ns:.3f} {self.name}"


_MILLISECONDS, _MICROSECONDS = Unit("ms", 1e6, 4), Unit("µs", 1e3, 3)


def unit_for(ns: float) -> Unit:
    """The unit for a table whose times are about this long together."""
    return _MILLISECONDS if ns >= _MILLISECONDS.ns else _MICROSECONDS
