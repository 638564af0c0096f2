"""What the two sides of a matrix product are kept as, and the steps in which a target multiplies them."""

from __future__ import annotations

from dataclasses import dataclass

from softneuro.codegen.target import Target

__all__ = ["Operands"]

_BYTES = {"f32": 4, "bf16": 2}


@dataclass(frozen=True)
class Operands:
    """What rows x and weights of a product are kept as, each ``f32`` or ``bf16``.

    in_pairs: a step of a product is a pair of elements, the weights of a step lie in pairs (the elements of a column side
    by side), and rows with an odd number of elements end with half a step, of which no more is read.
    """

    target: Target
    x: str = "f32"
    weights: str = "f32"

    @property
    def in_pairs(self) -> bool:
        """Whether there is an instruction for products of pairs of bfloat16 (AVX512-BF16) and both sides are that."""
        there = "+avx512bf16" in self.target.features.split(",") and self.target.vector_bits == 512
        return there and self.x == self.weights == "bf16"

    def steps(self, depth: int) -> int:
        """Steps of a row of ``depth`` elements."""
        return (depth + 1) // 2 if self.in_pairs else depth

    def is_odd(self, depth: int) -> bool:
        """Whether the last step of such a row is half a one."""
        return self.in_pairs and depth % 2 == 1

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of a row."""
        return _BYTES[self.x]

    @property
    def x_bytes(self) -> int:
        """Bytes of a step of a row."""
        return self.element_bytes * (2 if self.in_pairs else 1)

    @property
    def weight_bytes(self) -> int:
        """Bytes of a step of a column of weights."""
        return _BYTES[self.weights] * (2 if self.in_pairs else 1)

    @property
    def vector_bytes(self) -> int:
        """Bytes of a step of as many columns as a vector of sums has."""
        return self.weight_bytes * self.target.f32_lanes
