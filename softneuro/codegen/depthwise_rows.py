"""Which inputs a tile of depthwise outputs reads and in what groups, as kernels read weights and routines pack them.

Loads no compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softneuro.codegen.target import Target

__all__ = ["BYTE_PARAMETERS", "Uses", "WeightGroup", "axis_uses", "byte_widths", "row_groups", "rows_together", "weight_groups"]

BYTE_PARAMETERS = 5
"""What `kernels.depthwise_bytes` reads of each channel: int32 what a sum starts from, then float32: the number that a unit
of the sum stands for and the bias, and both again in steps of the output."""

Uses = dict[int, list[tuple[int, int]]]
"""For each input position under a run of outputs, in order: which (output, tap) read it, along one axis."""


def axis_uses(outputs: int, kernel: int, stride: int, dilation: int) -> Uses:
    """The uses of ``outputs`` neighbouring outputs."""
    found: Uses = {}
    for output in range(outputs):
        for tap in range(kernel):
            found.setdefault(output * stride + tap * dilation, []).append((output, tap))
    return dict(sorted(found.items()))


def byte_widths(target: Target) -> tuple[int, ...]:
    """Bytes of the vectors that a target can work on, the widest first."""
    features = target.features.split(",")
    widest = target.vector_bits if target.vector_bits < 512 or "+avx512bw" in features else 256
    return tuple(bits // 8 for bits in (512, 256, 128) if bits <= widest)


def rows_together(target: Target) -> int:
    """Products that one instruction adds up: four of bytes where the target has vpdpbusd at every width, else two of 16 bits."""
    features = target.features.split(",")
    return 4 if "+avxvnni" in features or {"+avx512vnni", "+avx512vl"} <= set(features) else 2


def row_groups(rows: Uses, size: int) -> list[list[int]]:
    """The input rows by ``size``, the last group maybe with fewer: the rows of a group are multiplied together."""
    listed = list(rows)
    return [listed[start : start + size] for start in range(0, len(listed), size)]


@dataclass(frozen=True)
class WeightGroup:
    """The weights that meet one group of rows in one column of the kernel, for one output row.

    taps: the kernel's row that meets each row of the group, None where no tap does.
    """

    column: int
    output: int
    group: int
    taps: tuple[int | None, ...]


def weight_groups(rows: Uses, size: int, outputs: int, columns: int) -> Iterator[WeightGroup]:
    """All groups of weights that are not empty, in the order of memory."""
    for column in range(columns):
        for output in range(outputs):
            for number, group in enumerate(row_groups(rows, size)):
                taps = tuple(dict(rows[row]).get(output) for row in group)
                if any(tap is not None for tap in taps):
                    yield WeightGroup(column, output, number, taps + (None,) * (size - len(group)))
