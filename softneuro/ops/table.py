"""Every op class by name: what problem texts and plan files may contain."""

from __future__ import annotations

from collections.abc import Mapping

from softneuro.ops.absent import Absent
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
from softneuro.ops.movement import BroadcastTo, DepthToSpace, Expand, SpaceToDepth, Tile, Transpose
from softneuro.ops.norm import BatchNorm, InstanceNorm, LayerNorm
from softneuro.ops.one_hot import OneHot
from softneuro.ops.onnx_op import OnnxOp
from softneuro.ops.padding import Pad
from softneuro.ops.patches import Patches
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.pool import GlobalPool, Pool
from softneuro.ops.recurrent import Recurrent
from softneuro.ops.reduce import ArgReduce, Reduce
from softneuro.ops.resize import Resize
from softneuro.ops.reverse_sequence import ReverseSequence
from softneuro.ops.roi_align import RoiAlign
from softneuro.ops.same_padding import SameConv, SamePool
from softneuro.ops.scatter import ScatterElements, ScatterND
from softneuro.ops.shape import Constant, ConstantOfShape, Fill, Range, Shape, Size
from softneuro.ops.slicing import Concat, Slice, Split, StridedSlice
from softneuro.ops.softmax import Softmax
from softneuro.ops.suppression import SelectBoxes
from softneuro.ops.top_k import TopK
from softneuro.ops.trees import TreeEnsemble
from softneuro.ops.trilu import Trilu
from softneuro.ops.trim import Trim
from softneuro.ops.view import Flatten, Identity, Reshape, Squeeze, Unsqueeze, View
from softneuro.ops.zip_map import ZipMap

__all__ = ["OPS"]

OPS: Mapping[str, type[Op]] = {
    op.name: op
    for op in (
        Conv, ConvTranspose,
        MatMul, IntegerMatMul,
        Pointwise,
        Pool, GlobalPool,
        Softmax,
        Reduce, ArgReduce,
        TopK, ScatterElements, ScatterND, SelectBoxes, Trim,
        RoiAlign,
        GridSample,
        OneHot,
        Trilu,
        CumSum,
        LayerNorm, BatchNorm, InstanceNorm,
        Transpose, DepthToSpace, SpaceToDepth, BroadcastTo, Expand, Tile,
        Concat, Split, Slice, StridedSlice, Pad, Gather, GatherElements, GatherND, Resize,
        ReverseSequence, Patches,
        SameConv, SamePool,
        Recurrent, QuantisedStateLstm,
        View, Reshape, Flatten, Squeeze, Unsqueeze, Identity,
        Constant, Shape, Size, Fill, ConstantOfShape, Range,
        TreeEnsemble, ZipMap,
        OnnxOp, Absent,
        Adapt,
    )
}
