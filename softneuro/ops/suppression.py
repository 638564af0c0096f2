"""Non-maximum suppression: of boxes that overlap, the one with the best score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from softneuro.errors import InputError
from softneuro.ops.base import Bound, Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["SelectBoxes"]

_PARAMETERS = {2: (DType.I64, "number of boxes"), 3: (DType.F32, "overlap threshold"), 4: (DType.F32, "score threshold")}


@dataclass(frozen=True)
class SelectBoxes(Op):
    """ONNX's NonMaxSuppression with an output that is large enough for every result, and how much of it is used.

    Inputs: boxes (batch, n, 4), scores (batch, classes, n), then one-element tensors that may be absent: how many boxes
    to select of each batch and class at most (int64; absent: none), the overlap above which a box is dropped (absent:
    0), the score that a box must exceed (absent: any number). Outputs: rows of batch, class and box (int64, zeros after
    the last), their number (int64, one element).

    centered: boxes are (x, y, width, height) around their centre, else two opposite corners.
    most: the number of boxes of input 2, once it is known; it only bounds the output's size.
    """

    name: ClassVar[str] = "select_boxes"
    centered: bool = False
    most: int | None = None

    def bind(self, types: Types, values: Values) -> Bound | None:
        if self.most is not None or len(types) < 3 or types[2] is None or values[2] is None:
            return None
        most = max(0, int(np.asarray(values[2]).reshape(-1)[0])) if values[2].size else 0
        return Bound(replace(self, most=most), tuple(range(len(types))))

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        boxes, scores = tensor(types, 0, "boxes"), tensor(types, 1, "scores")
        if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4 or (boxes.shape[0], boxes.shape[1]) != (
            scores.shape[0], scores.shape[2]):
            raise InputError(f"found boxes {boxes} and scores {scores}, needed (batch, n, 4) and (batch, classes, n)")
        if not boxes.dtype.is_float or boxes.dtype is not scores.dtype:
            raise InputError(f"found boxes {boxes} and scores {scores}, needed floats of one type")
        for position, (dtype, what) in _PARAMETERS.items():
            given = types[position] if position < len(types) else None
            if given is not None and (given.size != 1 or given.dtype is not dtype):
                raise InputError(f"found the {what} as {given}, needed one element of {dtype}")
        rows = scores.shape[0] * scores.shape[1] * self.most_boxes(types)
        return TensorType(DType.I64, (rows, 3)), TensorType(DType.I64, (1,))

    def most_boxes(self, types: Types) -> int:
        """How many boxes of a batch and class can be selected."""
        boxes = tensor(types, 0, "boxes")
        if len(types) < 3 or types[2] is None:
            return 0
        return boxes.shape[1] if self.most is None else min(self.most, boxes.shape[1])

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        types = [None if v is None else TensorType.of(v) for v in inputs]
        rows = np.zeros(self.infer(types)[0].shape, np.int64)
        boxes, scores, most, overlap, score = (*inputs, None, None, None)[:5]
        assert boxes is not None and scores is not None
        limit = 0 if most is None else min(self.most_boxes(types), int(most.reshape(-1)[0]))
        threshold = 0.0 if overlap is None else overlap.reshape(-1)[0]
        least = None if score is None else score.reshape(-1)[0]
        count = 0
        for batch, corners in enumerate(boxes):
            low, high = _edges(corners, self.centered)
            for kind, values in enumerate(scores[batch]):
                chosen = _suppressed(low, high, values, limit, threshold, least)
                rows[count : count + len(chosen)] = [(batch, kind, box) for box in chosen] or np.empty((0, 3), np.int64)
                count += len(chosen)
        return rows, np.array([count], np.int64)


def _edges(boxes: Array, centered: bool) -> tuple[Array, Array]:
    """Smallest and largest coordinates of boxes (n, 4), (n, 2) each."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centered:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def _suppressed(low: Array, high: Array, scores: Array, limit: int, threshold: float, least: float | None) -> list[int]:
    """The positions of selected boxes, best score first; of equal scores the lower position first."""
    candidates = np.flatnonzero(scores > least) if least is not None else np.flatnonzero(scores == scores)
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    chosen: list[int] = []
    while len(candidates) and len(chosen) < limit:
        best, candidates = int(candidates[0]), candidates[1:]
        chosen.append(best)
        shared = np.minimum(high[best], high[candidates]) - np.maximum(low[best], low[candidates])
        common = shared[:, 0] * shared[:, 1]
        areas = np.prod(high - low, axis=1)
        union = areas[best] + areas[candidates] - common
        with np.errstate(divide="ignore", invalid="ignore"):
            overlaps = (shared > 0).all(axis=1) & (union > 0) & (common / union > threshold)
        candidates = candidates[~overlaps]
    return chosen
