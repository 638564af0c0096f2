"""The one table of routines: op class to what computes it, the static order in which they are tried first."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.ops.adapt import Adapt
from softneuro.ops.base import Op
from softneuro.ops.conv import Conv
from softneuro.ops.conv_transpose import ConvTranspose
from softneuro.ops.cumulate import CumSum
from softneuro.ops.gather import Gather
from softneuro.ops.gather_elements import GatherElements
from softneuro.ops.gather_nd import GatherND
from softneuro.ops.grid_sample import GridSample
from softneuro.ops.integer import IntegerMatMul, QuantisedStateLstm
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import BroadcastTo, DepthToSpace, SpaceToDepth, Tile, Transpose
from softneuro.ops.norm import InstanceNorm, LayerNorm
from softneuro.ops.one_hot import OneHot
from softneuro.ops.padding import Pad
from softneuro.ops.patches import Patches
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.ops.recurrent import Recurrent
from softneuro.ops.reduce import ArgReduce, Reduce
from softneuro.ops.resize import Resize
from softneuro.ops.reverse_sequence import ReverseSequence
from softneuro.ops.roi_align import RoiAlign
from softneuro.ops.scatter import ScatterElements, ScatterND
from softneuro.ops.slicing import Concat, Split, StridedSlice
from softneuro.ops.softmax import Softmax
from softneuro.ops.suppression import SelectBoxes
from softneuro.ops.top_k import TopK
from softneuro.ops.trees import TreeEnsemble
from softneuro.ops.trilu import Trilu
from softneuro.ops.view import View
from softneuro.routines.adapt_blocked import ADAPT_BLOCKED_ANY
from softneuro.routines.adapt_convert import ADAPT_CONVERT_ANY
from softneuro.routines.arg_reduce import ARG_REDUCE_LINES_ANY
from softneuro.routines.broadcast_to import BROADCAST_TO_STRIDED_ANY, TILE_STRIDED_ANY
from softneuro.routines.concat import CONCAT_STRIDED_ANY, SPLIT_STRIDED_ANY
from softneuro.routines.conv_depthwise_bytes import CONV_DEPTHWISE_QINT8_CHL
from softneuro.routines.conv_depthwise_chf import CONV_DEPTHWISE_F32_CHF
from softneuro.routines.conv_depthwise_chl import CONV_DEPTHWISE_BF16_CHL, CONV_DEPTHWISE_F16_CHL, CONV_DEPTHWISE_F32_CHL
from softneuro.routines.conv_direct_chf import CONV_DIRECT_F32_CHF
from softneuro.routines.conv_first import CONV_FIRST_F32_CHF_CHL
from softneuro.routines.conv_first_bytes import CONV_FIRST_QINT8_CHL
from softneuro.routines.conv_igemm import CONV_IGEMM_F32_CHL
from softneuro.routines.conv_igemm_bf16 import CONV_IGEMM_BF16_CHL
from softneuro.routines.conv_igemm_bytes import CONV_IGEMM_QINT8_CHL
from softneuro.routines.conv_transpose_direct_chf import CONV_TRANSPOSE_DIRECT_F32_CHF
from softneuro.routines.conv_transpose_gemm import CONV_TRANSPOSE_GEMM_F32_CHL
from softneuro.routines.conv_winograd import CONV_WINOGRAD23_F32_CHL, CONV_WINOGRAD43_F32_CHL
from softneuro.routines.convert_half import POINTWISE_CONVERT_HALF
from softneuro.routines.cum_sum import CUM_SUM_LINES_ANY
from softneuro.routines.gather import GATHER_ROWS_ANY
from softneuro.routines.gather_elements import GATHER_ELEMENTS_RUNS_ANY
from softneuro.routines.gather_nd import GATHER_ND_SLICES_ANY
from softneuro.routines.global_pool import (
    GLOBAL_POOL_MEAN_BF16_CHL,
    GLOBAL_POOL_MEAN_F16_CHL,
    GLOBAL_POOL_MEAN_F32_CHF,
    GLOBAL_POOL_MEAN_F32_CHL,
    GLOBAL_POOL_MEAN_QINT8_CHL,
)
from softneuro.routines.grid_sample import GRID_SAMPLE_BLOCKS_F32
from softneuro.routines.instance_norm import INSTANCE_NORM_ROWS_F32_CHF
from softneuro.routines.layer_norm import LAYER_NORM_ROWS_F32_CHF
from softneuro.routines.matmul_batched import MATMUL_BATCHED_F32_CHF
from softneuro.routines.matmul_bytes import MATMUL_PACKED_QINT8_PLAIN
from softneuro.routines.matmul_integer import INTEGER_MATMUL_BATCHED_I8_CHF, INTEGER_MATMUL_PACKED_I8_PLAIN
from softneuro.routines.matmul_packed import MATMUL_PACKED_F32_PLAIN
from softneuro.routines.matmul_packed_bf16 import MATMUL_PACKED_BF16_PLAIN
from softneuro.routines.matmul_plain import MATMUL_PLAIN_ANY
from softneuro.routines.matmul_vector import MATMUL_VECTOR_F32_PLAIN
from softneuro.routines.matmul_vector_bf16 import MATMUL_VECTOR_BF16_PLAIN, MATMUL_VECTOR_BF16_WEIGHTS_PLAIN
from softneuro.routines.one_hot import ONE_HOT_FILL_ANY
from softneuro.routines.pad import PAD_ROWS_ANY
from softneuro.routines.patches import PATCHES_STRIDED_ANY
from softneuro.routines.pointwise import (
    POINTWISE_FUSED_BF16_CHF,
    POINTWISE_FUSED_BF16_CHL,
    POINTWISE_FUSED_F16_CHF,
    POINTWISE_FUSED_F16_CHL,
    POINTWISE_FUSED_F32_CHF,
    POINTWISE_FUSED_F32_CHL,
    POINTWISE_FUSED_QINT8_CHF,
    POINTWISE_FUSED_QINT8_CHL,
)
from softneuro.routines.pointwise_lookup import POINTWISE_LOOKUP_QINT8_ANY
from softneuro.routines.pool import (
    POOL_WINDOW_BF16_CHL,
    POOL_WINDOW_F16_CHL,
    POOL_WINDOW_F32_CHF,
    POOL_WINDOW_F32_CHL,
    POOL_WINDOW_QINT8_CHL,
)
from softneuro.routines.recurrent import QUANTISED_STATE_LSTM_STEPS_F32_CHF, RECURRENT_STEPS_F32_CHF
from softneuro.routines.reduce import REDUCE_ROWS_F32_CHF
from softneuro.routines.resize_bilinear import RESIZE_BILINEAR_F32_CHL
from softneuro.routines.resize_nearest import RESIZE_NEAREST_ANY
from softneuro.routines.resize_separable import RESIZE_SEPARABLE_F32
from softneuro.routines.reverse_sequence import REVERSE_SEQUENCE_STEPS_ANY
from softneuro.routines.roi_align import ROI_ALIGN_BINS_F32_CHL
from softneuro.routines.routine import Routine
from softneuro.routines.scatter import SCATTER_ELEMENTS_LINES_ANY, SCATTER_ND_SLICES_ANY
from softneuro.routines.select_boxes import SELECT_BOXES_HEAP_F32
from softneuro.routines.slice import SLICE_STRIDED_ANY
from softneuro.routines.softmax import SOFTMAX_ROWS_F32_CHF
from softneuro.routines.top_k import TOP_K_HEAP_ANY
from softneuro.routines.transpose import DEPTH_TO_SPACE_STRIDED_ANY, SPACE_TO_DEPTH_STRIDED_ANY, TRANSPOSE_BLOCKED_ANY
from softneuro.routines.tree_ensemble import TREE_ENSEMBLE_LOCKSTEP_ANY
from softneuro.routines.trilu import TRILU_ROWS_ANY
from softneuro.routines.view import VIEW_ALIAS_ANY

__all__ = ["ROUTINES"]

ROUTINES: Mapping[type[Op], tuple[Routine, ...]] = {
    Conv: (
        CONV_DEPTHWISE_F32_CHL, CONV_WINOGRAD23_F32_CHL, CONV_IGEMM_F32_CHL, CONV_WINOGRAD43_F32_CHL,
        CONV_FIRST_F32_CHF_CHL, CONV_DIRECT_F32_CHF, CONV_DEPTHWISE_F32_CHF,
        CONV_DEPTHWISE_QINT8_CHL, CONV_DEPTHWISE_BF16_CHL, CONV_DEPTHWISE_F16_CHL,
        CONV_IGEMM_BF16_CHL, CONV_IGEMM_QINT8_CHL, CONV_FIRST_QINT8_CHL,
    ),
    ConvTranspose: (CONV_TRANSPOSE_GEMM_F32_CHL, CONV_TRANSPOSE_DIRECT_F32_CHF),
    MatMul: (MATMUL_VECTOR_F32_PLAIN, MATMUL_PACKED_F32_PLAIN, MATMUL_BATCHED_F32_CHF, MATMUL_PLAIN_ANY,
             MATMUL_VECTOR_BF16_PLAIN, MATMUL_VECTOR_BF16_WEIGHTS_PLAIN, MATMUL_PACKED_BF16_PLAIN,
             MATMUL_PACKED_QINT8_PLAIN),
    IntegerMatMul: (INTEGER_MATMUL_PACKED_I8_PLAIN, INTEGER_MATMUL_BATCHED_I8_CHF),
    Recurrent: (RECURRENT_STEPS_F32_CHF,),
    QuantisedStateLstm: (QUANTISED_STATE_LSTM_STEPS_F32_CHF,),
    Softmax: (SOFTMAX_ROWS_F32_CHF,),
    Reduce: (REDUCE_ROWS_F32_CHF,),
    LayerNorm: (LAYER_NORM_ROWS_F32_CHF,),
    InstanceNorm: (INSTANCE_NORM_ROWS_F32_CHF,),
    Adapt: (ADAPT_BLOCKED_ANY, ADAPT_CONVERT_ANY),
    View: (VIEW_ALIAS_ANY,),
    Pointwise: (
        POINTWISE_FUSED_F32_CHF, POINTWISE_FUSED_F32_CHL, POINTWISE_CONVERT_HALF, POINTWISE_LOOKUP_QINT8_ANY,
        POINTWISE_FUSED_QINT8_CHL, POINTWISE_FUSED_QINT8_CHF, POINTWISE_FUSED_BF16_CHL, POINTWISE_FUSED_BF16_CHF,
        POINTWISE_FUSED_F16_CHL, POINTWISE_FUSED_F16_CHF,
    ),
    Pool: (
        POOL_WINDOW_F32_CHL, POOL_WINDOW_F32_CHF, POOL_WINDOW_QINT8_CHL, POOL_WINDOW_BF16_CHL, POOL_WINDOW_F16_CHL,
    ),
    GlobalPool: (
        GLOBAL_POOL_MEAN_F32_CHL, GLOBAL_POOL_MEAN_F32_CHF, GLOBAL_POOL_MEAN_QINT8_CHL, GLOBAL_POOL_MEAN_BF16_CHL,
        GLOBAL_POOL_MEAN_F16_CHL,
    ),
    Transpose: (TRANSPOSE_BLOCKED_ANY,),
    DepthToSpace: (DEPTH_TO_SPACE_STRIDED_ANY,),
    SpaceToDepth: (SPACE_TO_DEPTH_STRIDED_ANY,),
    BroadcastTo: (BROADCAST_TO_STRIDED_ANY,),
    Tile: (TILE_STRIDED_ANY,),
    Concat: (CONCAT_STRIDED_ANY,),
    Split: (SPLIT_STRIDED_ANY,),
    StridedSlice: (SLICE_STRIDED_ANY,),
    Pad: (PAD_ROWS_ANY,),
    Patches: (PATCHES_STRIDED_ANY,),
    Gather: (GATHER_ROWS_ANY,),
    GatherElements: (GATHER_ELEMENTS_RUNS_ANY,),
    GatherND: (GATHER_ND_SLICES_ANY,),
    ReverseSequence: (REVERSE_SEQUENCE_STEPS_ANY,),
    ScatterElements: (SCATTER_ELEMENTS_LINES_ANY,),
    ScatterND: (SCATTER_ND_SLICES_ANY,),
    SelectBoxes: (SELECT_BOXES_HEAP_F32,),
    CumSum: (CUM_SUM_LINES_ANY,),
    Trilu: (TRILU_ROWS_ANY,),
    OneHot: (ONE_HOT_FILL_ANY,),
    GridSample: (GRID_SAMPLE_BLOCKS_F32,),
    RoiAlign: (ROI_ALIGN_BINS_F32_CHL,),
    ArgReduce: (ARG_REDUCE_LINES_ANY,),
    TopK: (TOP_K_HEAP_ANY,),
    TreeEnsemble: (TREE_ENSEMBLE_LOCKSTEP_ANY,),
    Resize: (RESIZE_NEAREST_ANY, RESIZE_BILINEAR_F32_CHL, RESIZE_SEPARABLE_F32),
}
