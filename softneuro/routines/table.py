"""The one table of routines: op class to what computes it, the static order in which they are tried first."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.ops.adapt import Adapt
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.gather import Gather
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import BroadcastTo, DepthToSpace, SpaceToDepth, Tile, Transpose
from softneuro.ops.norm import LayerNorm
from softneuro.ops.padding import Pad
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.ops.reduce import Reduce
from softneuro.ops.resize import Resize
from softneuro.ops.slicing import Concat, Split, StridedSlice
from softneuro.ops.softmax import Softmax
from softneuro.ops.view import View
from softneuro.routines.adapt_blocked import ADAPT_BLOCKED_ANY
from softneuro.routines.broadcast_to import BROADCAST_TO_STRIDED_ANY, TILE_STRIDED_ANY
from softneuro.routines.concat import CONCAT_STRIDED_ANY, SPLIT_STRIDED_ANY
from softneuro.routines.conv_depthwise_chf import CONV_DEPTHWISE_F32_CHF
from softneuro.routines.conv_depthwise_chl import CONV_DEPTHWISE_F32_CHL
from softneuro.routines.conv_direct_chf import CONV_DIRECT_F32_CHF
from softneuro.routines.conv_first import CONV_FIRST_F32_CHF_CHL
from softneuro.routines.conv_igemm import CONV_IGEMM_F32_CHL
from softneuro.routines.conv_transpose_direct_chf import CONV_TRANSPOSE_DIRECT_F32_CHF
from softneuro.routines.conv_transpose_gemm import CONV_TRANSPOSE_GEMM_F32_CHL
from softneuro.routines.conv_winograd import CONV_WINOGRAD23_F32_CHL, CONV_WINOGRAD43_F32_CHL
from softneuro.routines.gather import GATHER_ROWS_ANY
from softneuro.routines.global_pool import GLOBAL_POOL_MEAN_F32_CHF, GLOBAL_POOL_MEAN_F32_CHL
from softneuro.routines.layer_norm import LAYER_NORM_ROWS_F32_CHF
from softneuro.routines.matmul_batched import MATMUL_BATCHED_F32_CHF
from softneuro.routines.matmul_packed import MATMUL_PACKED_F32_PLAIN
from softneuro.routines.matmul_vector import MATMUL_VECTOR_F32_PLAIN
from softneuro.routines.pad import PAD_ROWS_ANY
from softneuro.routines.pointwise import POINTWISE_FUSED_F32_CHF, POINTWISE_FUSED_F32_CHL
from softneuro.routines.pool import POOL_WINDOW_F32_CHF, POOL_WINDOW_F32_CHL
from softneuro.routines.reduce import REDUCE_ROWS_F32_CHF
from softneuro.routines.resize_bilinear import RESIZE_BILINEAR_F32_CHL
from softneuro.routines.resize_nearest import RESIZE_NEAREST_ANY
from softneuro.routines.resize_separable import RESIZE_SEPARABLE_F32
from softneuro.routines.routine import Routine
from softneuro.routines.slice import SLICE_STRIDED_ANY
from softneuro.routines.softmax import SOFTMAX_ROWS_F32_CHF
from softneuro.routines.transpose import DEPTH_TO_SPACE_STRIDED_ANY, SPACE_TO_DEPTH_STRIDED_ANY, TRANSPOSE_BLOCKED_ANY
from softneuro.routines.view import VIEW_ALIAS_ANY

__all__ = ["ROUTINES"]

ROUTINES: Mapping[type[Op], tuple[Routine, ...]] = {
    Conv: (
        CONV_DEPTHWISE_F32_CHL, CONV_WINOGRAD23_F32_CHL, CONV_IGEMM_F32_CHL, CONV_WINOGRAD43_F32_CHL,
        CONV_FIRST_F32_CHF_CHL, CONV_DIRECT_F32_CHF, CONV_DEPTHWISE_F32_CHF,
    ),
    ConvTranspose: (CONV_TRANSPOSE_GEMM_F32_CHL, CONV_TRANSPOSE_DIRECT_F32_CHF),
    MatMul: (MATMUL_VECTOR_F32_PLAIN, MATMUL_PACKED_F32_PLAIN, MATMUL_BATCHED_F32_CHF),
    Softmax: (SOFTMAX_ROWS_F32_CHF,),
    Reduce: (REDUCE_ROWS_F32_CHF,),
    LayerNorm: (LAYER_NORM_ROWS_F32_CHF,),
    Adapt: (ADAPT_BLOCKED_ANY,),
    View: (VIEW_ALIAS_ANY,),
    Pointwise: (POINTWISE_FUSED_F32_CHF, POINTWISE_FUSED_F32_CHL),
    Pool: (POOL_WINDOW_F32_CHL, POOL_WINDOW_F32_CHF),
    GlobalPool: (GLOBAL_POOL_MEAN_F32_CHL, GLOBAL_POOL_MEAN_F32_CHF),
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
    Resize: (RESIZE_NEAREST_ANY, RESIZE_BILINEAR_F32_CHL, RESIZE_SEPARABLE_F32),
}
