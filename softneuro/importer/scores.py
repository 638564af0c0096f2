"""From the scores of linear models and trees to what ai.onnx.ml's operators give out: transforms and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Node
from softneuro.ops.gather import Gather
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.reduce import ArgReduce, Reduce
from softneuro.ops.softmax import Softmax
from softneuro.types import Array

__all__ = ["TRANSFORMS", "Decision", "classified", "transform_of", "transformed"]

TRANSFORMS = ("none", "softmax", "logistic", "softmax_zero", "probit")
"""What can be done to a row of scores, in the order of TreeEnsemble's numbers."""
_TINY = 1e-7  # scores nearer to 0 count as 0 in softmax_zero
_PROBIT = (
    f"mul(x0,2.0);sub(t0,1.0);sub(1.0,t1);add(t1,1.0);mul(t2,t3);log(t4);mul(t5,0.5);add(t6,{2 / (math.pi * 0.147)!r});"
    f"mul(t7,t7);div(t5,0.147);sub(t8,t9);sqrt(t10);sub(t11,t7);sqrt(t12);sign(t1);mul(t13,t14);mul(t15,{math.sqrt(2)!r})"
)
"""The normal distribution's quantile by Winitzki's approximation of the inverse error function."""


@dataclass(frozen=True)
class Decision:
    """How a label follows from scores (n, classes or 1).

    threshold: of two classes, the second wins when the last score is above; without it the largest score wins. When there
    is one score, it is the second class's and ``other`` says what the first one gets: ``complement`` is 1 - score,
    ``negative`` -score; of the transforms only logistic changes such pairs, as in onnxruntime.
    """

    transform: str
    threshold: float | None = None
    other: Literal["complement", "negative"] = "complement"


def transform_of(node: Node) -> str:
    """The name of the node's post_transform."""
    name = str(node.get("post_transform", "NONE")).lower()
    if name not in TRANSFORMS:
        raise node.error(f"found post_transform {name.upper()!r}, needed one of {', '.join(map(str.upper, TRANSFORMS))}")
    return name


def transformed(node: Node, kind: str, scores: str, result: str) -> tuple[Layer, ...]:
    """The layers from a matrix of scores to one with every row transformed."""
    if kind == "softmax_zero":
        return _softmax_zero(node, scores, result)
    programs = {"none": "add(x0,0.0)", "logistic": "sigmoid(x0)", "probit": _PROBIT}
    op = Softmax(-1) if kind == "softmax" else Pointwise(programs[kind])
    return (node.layer(op, (scores,), (result,)),)


def _softmax_zero(node: Node, scores: str, result: str) -> tuple[Layer, ...]:
    """Softmax of the scores that are not 0; those stay 0."""
    largest, powers, total = (node.tensor(name) for name in ("largest", "powers", "total"))
    power = f"abs(x0);greater(t0,{_TINY!r});sub(x0,x1);exp(t2);neg(x1);exp(t4);mul(x0,t5);where(t1,t3,t6)"
    return (
        node.layer(Reduce("max", (-1,)), (scores,), (largest,)),
        node.layer(Pointwise(power), (scores, largest), (powers,)),
        node.layer(Reduce("sum", (-1,)), (powers,), (total,)),
        node.layer(Pointwise("equal(x1,0.0);where(t0,1.0,x1);div(x0,t1);where(t0,0.5,t2)"), (powers, total), (result,)),
    )


def classified(node: Node, decision: Decision, scores: str, columns: int, labels: Array) -> tuple[Layer, ...]:
    """The layers that make the node's outputs: labels, and transformed scores (n, classes).

    scores: (n, columns), NaN for classes that nothing was said of.
    """
    label, given = (*node.outputs, "")[:2]
    layers = _labels(node, decision, scores, columns, labels, label) if label else ()
    if not given:
        return layers
    said = node.tensor("said")
    cleared = node.layer(Pointwise("isnan(x0);where(t0,0.0,x0)"), (scores,), (said,))
    if columns == 1 and len(labels) == 2:
        return (*layers, cleared, _pair(node, decision, said, given))
    return (*layers, cleared, *transformed(node, decision.transform, said, given))


def _labels(node: Node, decision: Decision, scores: str, columns: int, labels: Array, result: str) -> tuple[Layer, ...]:
    enough = np.concatenate([labels, np.repeat(labels[-1:], max(0, max(columns, 2) - len(labels)))])
    known, chosen = node.add_constant("labels", enough), node.tensor("chosen")
    named = node.layer(Gather(0), (known, chosen), (result,))
    if decision.threshold is None:
        ranked = node.tensor("ranked")
        return (node.layer(Pointwise("isnan(x0);where(t0,-inf,x0)"), (scores,), (ranked,)),
                node.layer(ArgReduce("max", -1, keepdims=False), (ranked,), (chosen,)), named)
    last, place = node.tensor("last"), node.add_constant("place", np.array(columns - 1))
    return (node.layer(Gather(1), (scores, place), (last,)),
            node.layer(Pointwise(f"greater(x0,{decision.threshold!r});cast_i64(t0)"), (last,), (chosen,)), named)


def _pair(node: Node, decision: Decision, score: str, result: str) -> Layer:
    """The scores of both classes from the second one's."""
    signs = node.add_constant("signs", np.array([-1, 1], np.float32))
    if decision.transform == "logistic":
        return node.layer(Pointwise("mul(x0,x1);sigmoid(t0)"), (score, signs), (result,))
    if decision.other == "negative":
        return node.layer(Pointwise("mul(x0,x1)"), (score, signs), (result,))
    one = node.add_constant("one", np.array([1, 0], np.float32))
    return node.layer(Pointwise("mul(x0,x1);add(t0,x2)"), (score, signs, one), (result,))
