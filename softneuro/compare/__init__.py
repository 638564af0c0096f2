"""Two engines held against each other: how far their tensors are apart, where they depart, and how long each takes."""

from __future__ import annotations

from softneuro.compare.difference import Difference, difference, differences
from softneuro.compare.layers import (
    LayerDifference,
    Tensors,
    compare_layers,
    first_departure,
    tensors_of_graph,
    tensors_of_model,
    tensors_of_onnxruntime,
    tensors_of_session,
)
from softneuro.compare.onnxruntime_peer import onnxruntime_session, run_onnxruntime
from softneuro.compare.turns import times_in_turns

__all__ = [
    "Difference",
    "LayerDifference",
    "Tensors",
    "compare_layers",
    "difference",
    "differences",
    "first_departure",
    "onnxruntime_session",
    "run_onnxruntime",
    "tensors_of_graph",
    "tensors_of_model",
    "tensors_of_onnxruntime",
    "tensors_of_session",
    "times_in_turns",
]
