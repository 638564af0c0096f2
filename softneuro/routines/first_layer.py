"""What the routines for first layers share: few channels, whose kernel rows are merged into taps."""

from __future__ import annotations

from typing import NamedTuple, cast

from softneuro.ops.conv import Conv
from softneuro.problem import Problem
from softneuro.routines.linear import reject_convolution

__all__ = ["FirstLayer", "reject_first_layer"]


def reject_first_layer(problem: Problem, most_channels: int) -> str | None:
    """What routines need that merge the taps of a kernel row: few channels, no groups, no dilation along rows."""
    reason = reject_convolution(problem)
    if reason is not None:
        return reason
    op, x = cast(Conv, problem.op), problem.input(0)
    if x.rank > 4 or op.groups != 1 or op.dilations[-1] != 1:
        return (f"found rank {x.rank}, {op.groups} groups and dilations {op.dilations}, "
                "needed rank 3 or 4, 1 group and no dilation along the last axis")
    return f"found {x.shape[1]} channels, needed at most {most_channels}" if x.shape[1] > most_channels else None


class FirstLayer(NamedTuple):
    """A convolution over one or two axes; one that is missing has one row.

    dilation: between kernel rows; span: input rows under a kernel.
    """

    images: int
    channels: int
    height: int
    width: int
    kernel_rows: int
    kernel_columns: int
    out_height: int
    out_width: int
    row_stride: int
    column_stride: int
    above: int
    left: int
    dilation: int
    span: int

    @classmethod
    def of(cls, problem: Problem) -> FirstLayer:
        """The sizes of a problem that `reject_first_layer` takes."""
        op = cast(Conv, problem.op)
        images, channels, *spatial = problem.input(0).shape
        height, width = (1, *spatial)[-2:]
        kernel_rows, kernel_columns = (1, *problem.input(1).shape[2:])[-2:]
        out_height, out_width = (1, *problem.outputs[0].shape[2:])[-2:]
        row_stride, column_stride = (1, *op.strides)[-2:]
        above, left = (0, *op.pads[: len(spatial)])[-2:]
        dilation = op.dilations[0] if len(spatial) == 2 else 1
        return cls(images, channels, height, width, kernel_rows, kernel_columns, out_height, out_width, row_stride, column_stride,
                   above, left, dilation, (kernel_rows - 1) * dilation + 1)
