"""Einsum as transposes, sums, matrix products and products of elements.

Operands are taken two at a time, from the left. Labels of a pair fall into four groups: *batch* (in both, still needed),
*contracted* (in both, not needed any more), and those free on the left or on the right. With contracted labels, a pair is
one batched matrix product of (batch, free, contracted) and (batch, contracted, free); without, it is a product of elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from softneuro.graph import Layer
from softneuro.importer.node import Converters, Node
from softneuro.ops.base import Op
from softneuro.ops.matmul import MatMul
from softneuro.ops.movement import Transpose
from softneuro.ops.pointwise import Pointwise
from softneuro.ops.reduce import Reduce
from softneuro.ops.shape import Shape
from softneuro.ops.slicing import Concat
from softneuro.ops.view import Identity, Reshape, Unsqueeze

__all__ = ["CONVERTERS"]

Labels = tuple[str, ...]
"""One label for each axis. Those of an ellipsis are numbers, counted from its last axis."""


def _einsum(node: Node) -> tuple[Layer, ...] | None:
    """None for a label that is there twice in one operand (a diagonal), and an ellipsis that is summed over."""
    terms, output = _labels(node)
    if any(len(set(term)) < len(term) for term in terms) or any(
        label.isdigit() and label not in output for term in terms for label in term
    ):
        return None
    steps = _Steps(node)
    name, labels = node.inputs[0], terms[0]
    for index in range(1, len(terms)):
        needed = {*output, *(label for term in terms[index + 1 :] for label in term)}
        name, labels = steps.pair((name, labels), (node.inputs[index], terms[index]), needed)
    name, labels = steps.summed(name, labels, set(output))
    steps.finish(steps.ordered(name, labels, output))
    return tuple(steps.layers)


def _labels(node: Node) -> tuple[list[Labels], Labels]:
    """The operands' labels and the result's. Raises ModelError for an equation that does not fit the inputs."""
    equation = str(node.get("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(node.inputs):
        raise node.error(f"equation {equation!r} has {len(texts)} terms, needed one for each of {len(node.inputs)} inputs")
    terms = [_term(node, text, position) for position, text in enumerate(texts)]
    widest = max((sum(label.isdigit() for label in term) for term in terms), default=0)
    ellipsis = tuple(str(i) for i in reversed(range(widest)))
    if not arrow:
        counts = Counter(label for term in terms for label in term)
        once = sorted(label for label, count in counts.items() if count == 1 and not label.isdigit())
        return terms, (*ellipsis, *once)
    before, dots, after = right.partition("...")
    output = (*before, *(ellipsis if dots else ()), *after)
    unknown = set(output) - {label for term in terms for label in term}
    if unknown or len(set(output)) < len(output):
        raise node.error(f"equation {equation!r}: its result is {right!r}, needed labels of the terms, each at most once")
    return terms, output


def _term(node: Node, text: str, position: int) -> Labels:
    before, dots, after = text.partition("...")
    rank = node.rank(position)
    if dots and rank is None:
        raise node.unsupported(f"the rank of input {position} is not known, needed it for the ellipsis of {text!r}")
    missing = (rank or 0) - len(before) - len(after) if dots else 0
    if missing < 0 or (not dots and rank is not None and rank != len(before)):
        raise node.error(f"input {position} has {rank} axes, needed as many as term {text!r} has labels")
    return (*before, *(str(i) for i in reversed(range(missing))), *after)


class _Steps:
    """The layers so far, and how each kind is added."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.layers: list[Layer] = []

    def _add(self, op: Op, *inputs: str) -> str:
        name = self._node.tensor(op.name)
        self.layers.append(self._node.layer(op, inputs, (name,)))
        return name

    def finish(self, name: str) -> None:
        """Make ``name`` the node's output."""
        if self.layers and self.layers[-1].outputs == (name,):
            last = self.layers.pop()
            self.layers.append(self._node.layer(last.op, last.inputs, self._node.outputs))
        else:
            self.layers.append(self._node.layer(Identity(), (name,)))

    def ordered(self, name: str, labels: Labels, wanted: Labels) -> str:
        """The tensor with its axes in the order of ``wanted``."""
        return name if labels == wanted else self._add(Transpose(tuple(labels.index(label) for label in wanted)), name)

    def summed(self, name: str, labels: Labels, needed: set[str]) -> tuple[str, Labels]:
        """The sum over all labels that are not needed."""
        axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
        if not axes:
            return name, labels
        return self._add(Reduce("sum", axes, keepdims=False), name), tuple(x for x in labels if x in needed)

    def pair(self, left: tuple[str, Labels], right: tuple[str, Labels], needed: set[str]) -> tuple[str, Labels]:
        """The product of two operands, summed over the labels that are not needed any more."""
        a, left_labels = self.summed(*left, needed | set(right[1]))
        b, right_labels = self.summed(*right, needed | set(left[1]))
        batch = tuple(x for x in left_labels if x in right_labels and x in needed)
        summed = tuple(x for x in left_labels if x in right_labels and x not in needed)
        rows = tuple(x for x in left_labels if x not in right_labels)
        columns = tuple(x for x in right_labels if x not in left_labels)
        a = self.ordered(a, left_labels, (*batch, *rows, *summed))
        b = self.ordered(b, right_labels, (*batch, *summed, *columns))
        labels = (*batch, *rows, *columns)
        if not summed:
            return self._elements(a, b, len(batch), len(rows), len(columns)), labels
        return self._product(a, b, (len(batch), len(rows), len(summed), len(columns))), labels

    def _elements(self, a: str, b: str, batch: int, rows: int, columns: int) -> str:
        if columns and rows + batch:  # with neither, the right operand's own axes are all there are
            a = self._add(Unsqueeze(tuple(range(batch + rows, batch + rows + columns))), a)
        if rows and columns + batch:
            b = self._add(Unsqueeze(tuple(range(batch, batch + rows))), b)
        return self._add(Pointwise("mul(x0,x1)"), a, b)

    def _product(self, a: str, b: str, sizes: tuple[int, int, int, int]) -> str:
        batch, rows, summed, columns = sizes
        left = a if rows == summed == 1 else self._matrices(a, batch, rows)
        right = b if columns == summed == 1 else self._matrices(b, batch, summed)
        product = self._add(MatMul(), left, right)
        if rows == 1 and columns == 1:
            return product
        parts = [self._add(Shape(0, batch), product)] if batch else []
        parts += [self._add(Shape(batch, batch + rows), a)] if rows else []
        parts += [self._add(Shape(batch + summed), b)] if columns else []
        return self._add(Reshape(allowzero=True), product, self._joined(parts))

    def _matrices(self, name: str, batch: int, rows: int) -> str:
        """The tensor with all axes after ``batch`` made two, the first of ``rows`` axes."""
        parts = [self._add(Shape(0, batch), name)] if batch else []
        for start, end in ((batch, batch + rows), (batch + rows, None)):
            parts.append(self._add(Reduce("prod", (0,)), self._add(Shape(start, end), name)))
        return self._add(Reshape(allowzero=True), name, self._joined(parts))

    def _joined(self, parts: Sequence[str]) -> str:
        if not parts:
            return self._node.add_constant("scalar", np.zeros(0, np.int64))
        return parts[0] if len(parts) == 1 else self._add(Concat(0), *parts)


CONVERTERS: Converters = {"Einsum": _einsum}
