"""The one table of routines: op class to what computes it, the static order in which they are tried first."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.ops.adapt import Adapt
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.gather import Gather
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import BroadcastTo, DepthToSpace, SpaceToDepth, Tile, Transpose
from softneuro.ops.padding import Pad
from softneuro.ops.slicing import Concat, Split, StridedSlice
from softneuro.ops.view import View
from softneuro.routines.adapt_blocked import ADAPT_BLOCKED_ANY
from softneuro.routines.broadcast_to import BROADCAST_TO_STRIDED_ANY, TILE_STRIDED_ANY
from softneuro.routines.concat import CONCAT_STRIDED_ANY, SPLIT_STRIDED_ANY
from softneuro.routines.conv_igemm import CONV_IGEMM_F32_CHL
from softneuro.routines.gather import GATHER_ROWS_ANY
from softneuro.routines.matmul_batched import MATMUL_BATCHED_F32_CHF
from softneuro.routines.matmul_packed import MATMUL_PACKED_F32_PLAIN
from softneuro.routines.matmul_vector import MATMUL_VECTOR_F32_PLAIN
from softneuro.routines.pad import PAD_ROWS_ANY
from softneuro.routines.routine import Routine
from softneuro.routines.slice import SLICE_STRIDED_ANY
from softneuro.routines.transpose import DEPTH_TO_SPACE_STRIDED_ANY, SPACE_TO_DEPTH_STRIDED_ANY, TRANSPOSE_BLOCKED_ANY
from softneuro.routines.view import VIEW_ALIAS_ANY

__all__ = ["ROUTINES"]

ROUTINES: Mapping[type[Op], tuple[Routine, ...]] = {
    Conv: (CONV_IGEMM_F32_CHL,),
    MatMul: (MATMUL_VECTOR_F32_PLAIN, MATMUL_PACKED_F32_PLAIN, MATMUL_BATCHED_F32_CHF),
    Adapt: (ADAPT_BLOCKED_ANY,),
    View: (VIEW_ALIAS_ANY,),
    Transpose: (TRANSPOSE_BLOCKED_ANY,),
    DepthToSpace: (DEPTH_TO_SPACE_STRIDED_ANY,),
    SpaceToDepth: (SPACE_TO_DEPTH_STRIDED_ANY,),
    BroadcastTo: (BROADCAST_TO_STRIDED_ANY,),
    Tile: (TILE_STRIDED_ANY,),
    Concat: (CONCAT_STRIDED_ANY,),
    Split: (SPLIT_STRIDED_ANY,),
    StridedSlice: (SLICE_STRIDED_ANY,),
    Pad: (PAD_ROWS_ANY,),
    Gather: (GATHER_ROWS_ANY,),
}
