"""Numbers that kernels and the routines that call them agree on. Loads no compiler."""

from __future__ import annotations

__all__ = ["CACHE_LINE", "POOL_ROWS", "TRANSPOSE_LINE_WORDS", "WINOGRAD_UNROLL"]

CACHE_LINE = 64
"""Bytes of a cache line."""

POOL_ROWS = 4
"""Padded rows that each thread of `kernels.pool_chf` has in flight."""

TRANSPOSE_LINE_WORDS = 6
"""Words of a line in the table of `kernels.transpose_gemm`."""

WINOGRAD_UNROLL = 4
"""Steps of depth in one round of `winograd_tile`'s inner loop; the depth of a panel is padded to a multiple of it."""
