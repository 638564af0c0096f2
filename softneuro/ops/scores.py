"""From the scores of linear models and trees to what ai.onnx.ml's operators give out: transforms, labels, maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from softneuro.errors import DynamicShape
from softneuro.ops.base import Op, Types, Values
from softneuro.ops.parameters import tensor
from softneuro.types import Array, DType, TensorType

__all__ = ["TRANSFORMS", "Classify", "PostTransform", "ZipMap"]

_TINY = 1e-7  # scores nearer to 0 count as 0 in softmax_zero


def _logistic(x: Array) -> Array:
    half = 1 / (1 + np.exp(-np.abs(x)))
    return np.where(x < 0, 1 - half, half)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _softmax_zero(x: Array) -> Array:
    """Softmax of the scores that are not 0; those stay 0."""
    largest = x.max(axis=-1, keepdims=True)
    powers = np.where(np.abs(x) > _TINY, np.exp(x - largest), x * np.exp(-largest))
    total = powers.sum(axis=-1, keepdims=True)
    return np.where(total == 0, 0.5, powers / np.where(total == 0, 1, total))


def _probit(x: Array) -> Array:
    """The normal distribution's quantile by Winitzki's approximation of the inverse error function."""
    y = 2 * x - 1
    log = np.log((1 - y) * (1 + y))
    half = 2 / (math.pi * 0.147) + 0.5 * log
    result: Array = math.sqrt(2) * np.sign(y) * np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    return result


TRANSFORMS: Mapping[str, Callable[[Array], Array]] = {
    "none": lambda x: x, "logistic": _logistic, "softmax": _softmax, "softmax_zero": _softmax_zero, "probit": _probit,
}  # fmt: skip
"""Transforms of rows of scores by name."""


@dataclass(frozen=True)
class PostTransform(Op):
    """One of `TRANSFORMS` of every row of a matrix."""

    name: ClassVar[str] = "post_transform"
    kind: str

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        return (tensor(types, 0, "scores"),)

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        (scores,) = inputs
        assert scores is not None
        return (np.asarray(TRANSFORMS[self.kind](scores)).astype(scores.dtype),)


@dataclass(frozen=True)
class Classify(Op):
    """The label of every row of scores (n, classes or 1), and the transformed scores (n, classes).

    Inputs: scores, NaN for classes that nothing was said of; labels (classes).
    threshold: of two classes, the second wins when its score is above; without it the largest score wins. When there is one
    score, it is the second class's and ``other`` says what the first one gets: ``complement`` is 1 - score, ``negative``
    -score; of the transforms only logistic changes such pairs, as in onnxruntime.
    """

    name: ClassVar[str] = "classify"
    transform: str
    threshold: float | None = None
    other: Literal["complement", "negative"] = "complement"

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        scores, labels = tensor(types, 0, "scores"), tensor(types, 1, "labels")
        n = scores.shape[0]
        return TensorType(labels.dtype, (n,)), TensorType(DType.F32, (n, max(scores.shape[1], labels.shape[0])))

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        scores, labels = inputs
        assert scores is not None and labels is not None
        said = np.nan_to_num(scores, nan=0.0, posinf=np.inf, neginf=-np.inf)
        if self.threshold is None:
            chosen = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=-1)
        else:
            chosen = (said[:, -1] > self.threshold).astype(np.int64)
        given = self._pair(said) if scores.shape[1] == 1 and len(labels) == 2 else TRANSFORMS[self.transform](said)
        return labels[np.minimum(chosen, len(labels) - 1)], np.asarray(given).astype(np.float32)

    def _pair(self, score: Array) -> Array:
        if self.transform == "logistic":
            return np.concatenate([_logistic(-score), _logistic(score)], axis=1)
        return np.concatenate([1 - score if self.other == "complement" else -score, score], axis=1)


@dataclass(frozen=True)
class ZipMap(Op):
    """A list with a dictionary from label to score for every row of a matrix; it is no tensor."""

    name: ClassVar[str] = "zip_map"
    labels: tuple[int | str, ...]

    def infer(self, types: Types) -> tuple[TensorType, ...]:
        raise DynamicShape("found a sequence of maps, which has no shape")

    def reference(self, inputs: Values) -> tuple[Array, ...]:
        (scores,) = inputs
        assert scores is not None
        rows = [dict(zip(self.labels, row, strict=False)) for row in np.atleast_2d(scores).tolist()]
        return (rows,)  # type: ignore[return-value]
