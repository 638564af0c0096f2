"""How a target multiplies 8-bit integers and adds the products in 32 bits, exactly. Loads no compiler.

Sums go over *steps* of ``group`` elements of the depth: a row of the left side holds them one after the other, and a panel of
the right side holds, for each step, the group of every column: [step][column][element of the group].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softneuro.codegen.target import Target

__all__ = ["DOT", "FORMS", "PAIRS", "SINGLE", "IntegerForm", "has_byte_dots", "integer_form"]


@dataclass(frozen=True)
class IntegerForm:
    """One of `FORMS`.

    group: elements that one step multiplies and adds. bytes: of an element, on both sides. spare: registers that a step
    needs besides the sums and the vectors of the right side.
    """

    name: str
    group: int
    bytes: int
    spare: int

    @property
    def step_bytes(self) -> int:
        """Bytes of a step in a row, or in a column of a panel."""
        return self.group * self.bytes

    @property
    def narrow(self) -> bool:
        """Whether elements stay bytes, unsigned on the left and signed on the right, so that zero points are corrected
        afterwards. The other forms have room to subtract them first."""
        return self.bytes == 1

    def steps(self, depth: int) -> int:
        """How many steps a depth takes, the last one filled up by zeros on the right side."""
        return -(-depth // self.group)

    def most_rows(self, target: Target, nv: int) -> int:
        """Rows of the largest tile, nv vectors wide, that fits the registers."""
        return (target.registers - nv - self.spare) // nv


DOT = IntegerForm("dot", 4, 1, 1)
"""Four products of an unsigned and a signed byte in one instruction, vpdpbusd."""

PAIRS = IntegerForm("pairs", 2, 2, 2)
"""Two products of 16-bit integers, pmaddwd, and an addition: unlike pmaddubsw it never saturates for what bytes give."""

SINGLE = IntegerForm("single", 1, 2, 2)
"""One product of 16-bit integers that were widened: on any target."""

FORMS: Mapping[str, IntegerForm] = {form.name: form for form in (DOT, PAIRS, SINGLE)}


def has_byte_dots(target: Target) -> bool:
    """Whether the target has vpdpbusd on its full vectors (AVX512-VNNI or AVX-VNNI)."""
    features = target.features.split(",")
    return {512: "+avx512vnni", 256: "+avxvnni"}.get(target.vector_bits, "none") in features


def integer_form(target: Target) -> IntegerForm:
    """The fastest form that a target has."""
    if has_byte_dots(target):
        return DOT
    pairs = target.triple.startswith("x86_64") and (target.vector_bits < 512 or "+avx512bw" in target.features.split(","))
    return PAIRS if pairs else SINGLE
