"""The step that every matrix-product tile repeats: some scalars times some vectors, added to sums in registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from softneuro.codegen.emit import splat_at
from softneuro.codegen.target import Target
from softneuro.codegen.vector import fma_value

__all__ = ["add_products"]


def add_products(builder: Any, target: Target, scalars: Iterable[Any], vectors: Sequence[Any],
                 sums: Sequence[Any]) -> list[Any]:
    """``sums[i * n + j] + scalar i * vectors[j]`` for n vectors; scalars: byte pointers to float32."""
    updated: list[Any] = []
    for pointer in scalars:
        factor = splat_at(builder, pointer, target.f32_lanes)
        updated += [fma_value(builder, target, factor, v, sums[len(updated) + j]) for j, v in enumerate(vectors)]
    return updated
