"""Counts and bytes as people read them, and numbers as JSON takes them."""

from __future__ import annotations

import math

__all__ = ["bytes_text", "count_text", "counted", "finite", "share_text"]


def bytes_text(nbytes: float) -> str:
    """``512 bytes``, ``13.6 MiB``."""
    if nbytes < 1024:
        return counted(round(nbytes), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:.1f} TiB"


def count_text(count: float) -> str:
    """Three digits and a power of ten in words: ``300 M``, ``4.12 G``."""
    for unit in ("", " k", " M", " G", " T"):
        if count < 999.5:
            return f"{count:.0f}{unit}" if not unit or count >= 99.95 else f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.0f} P"


def counted(count: int, what: str) -> str:
    """``1 layer``, ``2 layers``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def share_text(part: float, whole: float) -> str:
    """A percentage, or ``-`` of nothing."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


def finite(value: float | None) -> float | None:
    """The value, or None for an infinity or NaN, which JSON does not have."""
    return None if value is None or not math.isfinite(value) else value
